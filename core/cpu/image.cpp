// Augmentation of images: levels become numbers through a table.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/kernels/image_plan.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cmath>

namespace adret::cpu {
namespace {

using namespace kernels;

// What each level of each channel becomes, and what is put where a channel was cut out.
template <class T>
struct Levels {
  explicit Levels(const AugmentParams& params) {
    for (size_t c = 0; c < 4; ++c) {
      for (int level = 0; level < 256; ++level) {
        if constexpr (std::is_same_v<T, uint8_t>) {
          of[c][level] = uint8_t(level);
        } else {
          of[c][level] = T(std::fma(float(level), params.scale[c], params.shift[c]));
        }
      }
      if constexpr (std::is_same_v<T, uint8_t>) cut[c] = params.fill[c];
    }
  }
  T of[4][256];
  T cut[4] = {};
};

template <class T>
class Augmenting {
 public:
  explicit Augmenting(const AugmentImages& call)
      : call_(call),
        levels_(call.augment),
        sizes_{.h = int32_t(call.x.shape[1]),
               .w = int32_t(call.x.shape[2]),
               .out_h = int32_t(call.y.shape[1]),
               .out_w = int32_t(call.y.shape[2])},
        channels_(call.x.shape[3]),
        out_channels_(call.y.shape[3]),
        key_(philox_key(call.key)),
        epoch_(call.epoch.defined() ? *call.epoch.as<int64_t>() : 0) {}

  void image(int64_t i) const {
    const int64_t index = call_.indices.defined() ? call_.indices.as<int64_t>()[i] : i;
    const int64_t id = call_.ids.defined() ? call_.ids.as<int64_t>()[i] : 0;
    const ImagePlan plan = plan_image(call_.augment, sizes_,
                                      SampleWords(key_[0], key_[1], call_.key.call, id, epoch_));
    const uint8_t* x = call_.x.as<uint8_t>() + index * sizes_.h * sizes_.w * channels_;
    T* y = call_.y.as<T>() + i * sizes_.out_h * sizes_.out_w * out_channels_;
    for (int32_t row = 0; row < sizes_.out_h; ++row) copy_row(plan, row, x, y);
    fill(plan.cut, y);
    fill(plan.erased, y);
  }

 private:
  void copy_row(const ImagePlan& plan, int32_t row, const uint8_t* x, T* y) const {
    static constexpr uint8_t black[4] = {};
    T* out = y + int64_t(row) * sizes_.out_w * out_channels_;
    for (int32_t column = 0; column < sizes_.out_w; ++column, out += out_channels_) {
      const SourcePixel from = source_of(plan, sizes_, call_.augment.border, row, column);
      const uint8_t* pixel = from.row < 0 || from.column < 0
                                 ? black
                                 : x + (int64_t(from.row) * sizes_.w + from.column) * channels_;
      for (int64_t c = 0; c < channels_; ++c) out[c] = levels_.of[c][pixel[c]];
      for (int64_t c = channels_; c < out_channels_; ++c) out[c] = T(0);
    }
  }

  void fill(const ImageBox& box, T* y) const {
    for (int32_t row = box.top; row < box.bottom; ++row) {
      for (int32_t column = box.left; column < box.right; ++column) {
        T* out = y + (int64_t(row) * sizes_.out_w + column) * out_channels_;
        std::copy_n(levels_.cut, channels_, out);
      }
    }
  }

  const AugmentImages& call_;
  const Levels<T> levels_;
  const ImageSizes sizes_;
  const int64_t channels_, out_channels_;
  const std::array<uint32_t, 2> key_;
  const int64_t epoch_;
};

}  // namespace

void run(const kernels::AugmentImages& call) {
  if (call.y.numel() == 0) return;
  const int64_t images = call.y.shape[0];
  const auto augment = [&](auto zero) {
    const Augmenting<decltype(zero)> augmenting(call);
    parallel_for(images, items_per_chunk(memory_grain, call.y.numel() / images),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) augmenting.image(i);
                 });
  };
  if (call.y.dtype == DType::u8) return augment(uint8_t{});
  dispatch_all_floats(call.y.dtype, call.name, augment);
}

}  // namespace adret::cpu

// Mixing of images on the CPU, an image a thread.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/formula/vector_level.h>
#include <adret/core/kernels/mix_images.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace adret::kernels {
namespace {

constexpr double share_unit = 0x1p-24;

struct Mixed {
  const TensorView &x, &labels, &partners, &y, &targets;
  MixWords words;
  int64_t partner_of(int64_t i) const { return partners.as<int64_t>()[i]; }
};

template <class T>
void mix_image(const Mixed& mixed, int64_t i) {
  using A = cpu::Computed<T>;
  const MixWords& words = mixed.words;
  const Shape& shape = mixed.x.shape;
  const int64_t h = shape[1], w = shape[2], channels = shape[3];
  const T* x = mixed.x.as<T>() + i * h * w * channels;
  const T* partner = mixed.x.as<T>() + mixed.partner_of(i) * h * w * channels;
  T* y = mixed.y.as<T>() + i * h * w * channels;
  const A kept = A(double(words.kept) * share_unit);
  for (int64_t row = 0; row < h; ++row) {
    const bool crosses = row >= words.top && row < words.bottom;
    for (int64_t column = 0; column < w; ++column) {
      const bool within = crosses && column >= words.left && column < words.right;
      const int64_t first = (row * w + column) * channels;
      for (int64_t e = first; e < first + channels; ++e) {
        const A own = A(x[e]), other = A(partner[e]);
        y[e] = within ? partner[e] : kept == 1 ? x[e] : T(std::fma(kept, own - other, other));
      }
    }
  }
}

template <class Target>
void mix_targets(const Mixed& mixed, int64_t i) {
  const int64_t classes = mixed.targets.shape[1];
  const auto label_of = [&](int64_t sample) {
    return mixed.labels.dtype == DType::i32 ? int64_t(mixed.labels.as<int32_t>()[sample])
                                            : mixed.labels.as<int64_t>()[sample];
  };
  const int64_t own = label_of(i), other = label_of(mixed.partner_of(i));
  Target* row = mixed.targets.as<Target>() + i * classes;
  if (own < 0 || own >= classes || other < 0 || other >= classes) {
    std::fill_n(row, classes, std::numeric_limits<Target>::quiet_NaN());
    return;
  }
  const int64_t whole = int64_t(1) << 24;
  for (int64_t c = 0; c < classes; ++c) {
    const int64_t share = (c == own ? mixed.words.target_kept : 0) +
                          (c == other ? whole - mixed.words.target_kept : 0);
    row[c] = Target(double(share) * share_unit);
  }
}

}  // namespace

void MixImages::run_cpu(const CustomCall& call) const {
  const int64_t images = call.inputs[0].shape[0];
  if (images == 0) return;
  const Mixed mixed{.x = call.inputs[0],
                    .labels = call.inputs[1],
                    .partners = call.inputs[2],
                    .y = call.outputs[0],
                    .targets = call.outputs[1],
                    .words = *call.inputs[3].as<MixWords>()};
  cpu::dispatch_all_floats(mixed.x.dtype, name, [&](auto zero) {
    using T = decltype(zero);
    parallel_for(images, cpu::items_per_chunk(cpu::memory_grain, mixed.x.numel() / images),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     formula::run_for_processor([&] { mix_image<T>(mixed, i); });
                     if (mixed.targets.dtype == DType::f64) {
                       mix_targets<double>(mixed, i);
                     } else {
                       mix_targets<float>(mixed, i);
                     }
                   }
                 });
  });
}

}  // namespace adret::kernels

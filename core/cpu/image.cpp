// Batches of images. In augmentation levels become f32 by a vectorised loop, other dtypes through a
// table.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/vector.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/kernels/image_plan.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

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

// Pixels of a row from the given columns of another one, black for -1.
template <int channels>
void copy_pixels(const uint8_t* from, uint8_t* to, int32_t count, const int32_t* columns) {
  for (int32_t i = 0; i < count; ++i, to += channels) {
    for (int c = 0; c < channels; ++c) {
      to[c] = columns[i] < 0 ? uint8_t(0) : from[columns[i] * channels + c];
    }
  }
}

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
        row_(sizes_.out_w * channels_),
        scale_(row_),
        shift_(row_),
        key_(philox_key(call.key)),
        epoch_(call.epoch.defined() ? *call.epoch.as<int64_t>() : 0) {
    for (int64_t i = 0; i < row_; ++i) {
      scale_.data()[i] = call.augment.scale[size_t(i % channels_)];
      shift_.data()[i] = call.augment.shift[size_t(i % channels_)];
    }
  }

  void images(int64_t begin, int64_t end) const {
    const Workspace<uint8_t> row(row_);
    const Workspace<int32_t> columns(sizes_.out_w);
    for (int64_t i = begin; i < end; ++i) image(i, row.data(), columns.data());
  }

 private:
  // With room for a row of levels, and for where its pixels come from.
  void image(int64_t i, uint8_t* row_levels, int32_t* columns) const {
    const int64_t index = call_.indices.defined() ? call_.indices.as<int64_t>()[i] : i;
    const int64_t id = call_.ids.defined() ? call_.ids.as<int64_t>()[i] : 0;
    const ImagePlan plan = plan_image(call_.augment, sizes_,
                                      SampleWords(key_[0], key_[1], call_.key.call, id, epoch_));
    const uint8_t* x = call_.x.as<uint8_t>() + index * sizes_.h * sizes_.w * channels_;
    T* y = call_.y.as<T>() + i * sizes_.out_h * sizes_.out_w * out_channels_;
    for (int32_t column = 0; column < sizes_.out_w; ++column) {
      columns[column] = source_of(plan, sizes_, call_.augment.border, 0, column).column;
    }
    const bool in_order = !plan.flip && plan.left >= 0 && plan.left + sizes_.out_w <= sizes_.w;
    for (int32_t row = 0; row < sizes_.out_h; ++row) {
      const int32_t from = source_of(plan, sizes_, call_.augment.border, row, 0).row;
      const uint8_t* levels = row_levels;
      if (from < 0) {
        std::fill_n(row_levels, row_, uint8_t(0));
      } else if (const uint8_t* line = x + int64_t(from) * sizes_.w * channels_; in_order) {
        levels = line + plan.left * channels_;
      } else {
        copy_line(line, row_levels, columns);
      }
      write_row(levels, y + int64_t(row) * sizes_.out_w * out_channels_);
    }
    fill(plan.cut, y);
    fill(plan.erased, y);
  }

  void copy_line(const uint8_t* from, uint8_t* to, const int32_t* columns) const {
    switch (channels_) {
      case 1: return copy_pixels<1>(from, to, sizes_.out_w, columns);
      case 2: return copy_pixels<2>(from, to, sizes_.out_w, columns);
      case 3: return copy_pixels<3>(from, to, sizes_.out_w, columns);
      default: return copy_pixels<4>(from, to, sizes_.out_w, columns);
    }
  }

  void write_row(const uint8_t* levels, T* out) const {
    if constexpr (std::is_same_v<T, float>) {
      if (channels_ == out_channels_) {
        const float *scale = scale_.data(), *shift = shift_.data();
#pragma GCC ivdep
        for (int64_t i = 0; i < row_; ++i) out[i] = std::fma(float(levels[i]), scale[i], shift[i]);
        return;
      }
    }
    if constexpr (std::is_same_v<T, uint8_t>) {
      if (channels_ == out_channels_) {
        std::copy_n(levels, row_, out);
        return;
      }
    }
    for (int32_t column = 0; column < sizes_.out_w; ++column, out += out_channels_) {
      for (int64_t c = 0; c < channels_; ++c) out[c] = levels_.of[c][*levels++];
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
  const int64_t row_;                     // levels of an output row
  const Workspace<float> scale_, shift_;  // of each of them
  const std::array<uint32_t, 2> key_;
  const int64_t epoch_;
};

// -- resampling ----------------------------------------------------------------------------------

constexpr int weight_bits = 22;

uint8_t level_of(int32_t sum) { return uint8_t(std::clamp(sum >> weight_bits, 0, 255)); }

// A row of weights (ResampleImages): sums of x at first, first + 1, ... for one place of y, over
// `inner` dense levels.
void sum_runs(const int32_t* row, const uint8_t* x, uint8_t* y, int64_t inner) {
  constexpr int64_t block = 256;
  int32_t sums[block];
  const int32_t first = row[0], count = row[1];
  const int32_t* weights = row + 2;
  for (int64_t begin = 0; begin < inner; begin += block) {
    const int64_t length = std::min(block, inner - begin);
    std::fill_n(sums, length, 1 << (weight_bits - 1));
    for (int32_t k = 0; k < count; ++k) {
      const uint8_t* from = x + (first + k) * inner + begin;
      for (int64_t j = 0; j < length; ++j) sums[j] += weights[k] * from[j];
    }
    for (int64_t j = 0; j < length; ++j) y[begin + j] = level_of(sums[j]);
  }
}

// The channels of a pixel, in lanes of 32 bits.
using Lanes = VectorOfLanes<int32_t, 4>::type;

// Reads four bytes whatever the number of channels, unless it must not read on.
template <int channels, bool reads_on>
Lanes pixel_lanes(const uint8_t* from) {
  int32_t bytes = 0;
  std::memcpy(&bytes, from, reads_on ? 4 : channels);
#if defined(__AVX2__)
  return Lanes(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));  // GCC 12 does not find it by itself
#else
  return Lanes{bytes, bytes >> 8, bytes >> 16, bytes >> 24} & 255;
#endif
}

// All places of a row of pixels.
template <int channels, bool reads_on>
void sum_pixels(const TensorView& weights, const uint8_t* x, uint8_t* y) {
  const int64_t places = weights.shape[0], columns = weights.shape[1];
  const int32_t* row = weights.as<int32_t>();
  for (int64_t i = 0; i < places; ++i, row += columns, y += channels) {
    Lanes sums = Lanes{} + (1 << (weight_bits - 1));
    const uint8_t* from = x + row[0] * int64_t(channels);
    for (int32_t k = 0; k < row[1]; ++k, from += channels) {
      sums += row[2 + k] * pixel_lanes<channels, reads_on>(from);
    }
    for (int c = 0; c < channels; ++c) y[c] = level_of(sums[c]);
  }
}

template <int channels>
void resample_rows(const ResampleImages& call) {
  const int64_t rows = call.x.shape[0] * call.x.shape[1];
  const int64_t from = call.x.shape[2] * channels, to = call.y.shape[2] * channels;
  parallel_for(
      rows, items_per_chunk(memory_grain, call.weights.numel() * channels),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const bool reads_on = (rows - 1 - i) * from >= 4;  // bytes behind the row
          const auto sum = reads_on ? sum_pixels<channels, true> : sum_pixels<channels, false>;
          sum(call.weights, call.x.as<uint8_t>() + i * from, call.y.as<uint8_t>() + i * to);
        }
      });
}

void resample_columns(const ResampleImages& call) {
  const int64_t places = call.y.shape[1], from = call.x.shape[1], columns = call.weights.shape[1];
  const int64_t inner = call.x.shape[2] * call.x.shape[3];
  parallel_for(call.x.shape[0] * places, items_per_chunk(memory_grain, inner * columns),
               [&](int64_t begin, int64_t end) {
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t image = item / places, place = item % places;
                   sum_runs(call.weights.as<int32_t>() + place * columns,
                            call.x.as<uint8_t>() + image * from * inner,
                            call.y.as<uint8_t>() + item * inner, inner);
                 }
               });
}

}  // namespace

void run(const kernels::AugmentImages& call) {
  if (call.y.numel() == 0) return;
  const int64_t images = call.y.shape[0];
  const auto augment = [&](auto zero) {
    const Augmenting<decltype(zero)> augmenting(call);
    parallel_for(images, items_per_chunk(memory_grain, call.y.numel() / images),
                 [&](int64_t begin, int64_t end) { augmenting.images(begin, end); });
  };
  if (call.y.dtype == DType::u8) return augment(uint8_t{});
  dispatch_all_floats(call.y.dtype, call.name, augment);
}

void run(const kernels::ResampleImages& call) {
  if (call.y.numel() == 0) return;
  if (call.dim == 1) return resample_columns(call);
  switch (call.x.shape[3]) {
    case 1: return resample_rows<1>(call);
    case 2: return resample_rows<2>(call);
    case 3: return resample_rows<3>(call);
    default: return resample_rows<4>(call);
  }
}

}  // namespace adret::cpu

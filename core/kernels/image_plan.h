// What is drawn for an augmented image, in integers alone: compiled for every device
// (Note [Augmentation]).
#pragma once

#include <adret/core/kernels/image.h>
#include <adret/core/philox.h>

namespace adret::kernels {

// The random words of one sample in one epoch.
class SampleWords {
 public:
  struct Block {
    uint32_t at[4];
  };

  constexpr SampleWords(uint32_t key0, uint32_t key1, uint32_t call, int64_t id, int64_t epoch)
      : key0_(key0), key1_(key1), call_(call), id_(uint64_t(id)), epoch_(uint32_t(epoch)) {}

  // Block 0..15.
  constexpr Block block(uint32_t index) const { return draw(index, epoch_); }
  // The same in all epochs.
  constexpr Block lasting_block(uint32_t index) const { return draw(index, 0); }
  constexpr uint32_t epoch() const { return epoch_; }

 private:
  constexpr Block draw(uint32_t index, uint32_t epoch) const {
    uint32_t words[4] = {uint32_t(id_), uint32_t(id_ >> 32), 16 * call_ + index, epoch};
    philox_rounds(words, key0_, key1_,
                  [](uint32_t word, uint64_t factor) { return uint64_t(word) * uint32_t(factor); });
    return {{words[0], words[1], words[2], words[3]}};
  }

  uint32_t key0_, key1_, call_;
  uint64_t id_;
  uint32_t epoch_;
};

// What each block is for.
inline constexpr uint32_t crop_and_flip_block = 0, cutout_block = 1, erasing_block = 2,
                          parity_block = 12, color_block = 13, color_order_block = 14;
inline constexpr uint32_t erasing_attempts = 10;

// Uniform in 0..count-1 to within 2^-32 of each other, for counts up to 2^32.
constexpr uint64_t below(uint32_t word, uint64_t count) { return (word * count) >> 32; }

// The root, rounded to the nearest integer.
constexpr uint64_t nearest_root(uint64_t square) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t(1) << 31; bit; bit >>= 1) {
    const uint64_t larger = root | bit;
    if (larger * larger <= square) root = larger;
  }
  return square - root * root > root ? root + 1 : root;
}

// Rows top..bottom-1 and columns left..right-1 of the output; empty when they are equal.
struct ImageBox {
  int32_t top, left, bottom, right;
  constexpr bool contains(int32_t row, int32_t column) const {
    return row >= top && row < bottom && column >= left && column < right;
  }
};

struct ImageSizes {
  int32_t h, w, out_h, out_w;
};

struct ImagePlan {
  int32_t top, left;  // of the crop in the image
  bool flip;          // the crop, left to right
  ImageBox cut, erased;
};

// A square around a pixel of the output, clipped at its border.
constexpr ImageBox cutout_box(int32_t side, ImageSizes sizes, const SampleWords& words) {
  const SampleWords::Block word = words.block(cutout_block);
  const int32_t top = int32_t(below(word.at[0], uint64_t(sizes.out_h))) - side / 2;
  const int32_t left = int32_t(below(word.at[1], uint64_t(sizes.out_w))) - side / 2;
  const auto clip = [](int64_t at, int32_t size) {
    return int32_t(at < 0 ? 0 : at > size ? size : at);
  };
  return {.top = clip(top, sizes.out_h),
          .left = clip(left, sizes.out_w),
          .bottom = clip(int64_t(top) + side, sizes.out_h),
          .right = clip(int64_t(left) + side, sizes.out_w)};
}

// Area and aspect are drawn until the box fits in the output; empty when it never does.
constexpr ImageBox erased_box(const AugmentParams& params, ImageSizes sizes,
                              const SampleWords& words) {
  const auto between = [](uint32_t word, const std::array<uint32_t, 2>& range) {
    return range[0] + below(word, uint64_t(range[1] - range[0]) + 1);
  };
  for (uint32_t attempt = 0; attempt < erasing_attempts; ++attempt) {
    const SampleWords::Block word = words.block(erasing_block + attempt);
    // Both times 2^16; areas have at most 24 bits before the point.
    const uint64_t area =
        between(word.at[0], params.erase_area) * uint64_t(sizes.out_h) * uint64_t(sizes.out_w);
    const uint64_t aspect = between(word.at[1], params.erase_aspect);
    const uint64_t h = nearest_root((area * aspect) >> 32), w = nearest_root(area / aspect);
    if (h == 0 || w == 0 || h >= uint64_t(sizes.out_h) || w >= uint64_t(sizes.out_w)) continue;
    const int32_t top = int32_t(below(word.at[2], uint64_t(sizes.out_h) - h + 1));
    const int32_t left = int32_t(below(word.at[3], uint64_t(sizes.out_w) - w + 1));
    return {top, left, top + int32_t(h), left + int32_t(w)};
  }
  return {};
}

constexpr ImagePlan plan_image(const AugmentParams& params, ImageSizes sizes,
                               const SampleWords& words) {
  ImagePlan plan{};
  const int32_t rows = sizes.h + 2 * params.padding - sizes.out_h,
                columns = sizes.w + 2 * params.padding - sizes.out_w;
  plan.top = rows / 2 - params.padding;
  plan.left = columns / 2 - params.padding;
  if (!params.draws()) return plan;

  const SampleWords::Block word = words.block(crop_and_flip_block);
  if (params.random_crop) {
    plan.top = int32_t(below(word.at[0], uint64_t(rows) + 1)) - params.padding;
    plan.left = int32_t(below(word.at[1], uint64_t(columns) + 1)) - params.padding;
  }
  if (params.flip == Flip::random) plan.flip = word.at[2] < params.flip_chance;
  if (params.flip == Flip::alternating) {
    plan.flip = ((words.lasting_block(parity_block).at[0] ^ words.epoch()) & 1) != 0;
  }
  if (params.cutout > 0) plan.cut = cutout_box(params.cutout, sizes, words);
  if (word.at[3] < params.erase_chance) plan.erased = erased_box(params, sizes, words);
  return plan;
}

// The row or column of an image of `size` that is seen at `at`, which may lie in the border; -1 for
// none.
constexpr int32_t seen_at(int32_t at, int32_t size, Border border) {
  if (at >= 0 && at < size) return at;
  if (border == Border::zero) return -1;
  return at < 0 ? -at : 2 * (size - 1) - at;
}

// Where the plan's output pixel comes from; -1 for black.
struct SourcePixel {
  int32_t row, column;
};
constexpr SourcePixel source_of(const ImagePlan& plan, ImageSizes sizes, Border border, int32_t row,
                                int32_t column) {
  const int32_t across = plan.flip ? sizes.out_w - 1 - column : column;
  return {seen_at(plan.top + row, sizes.h, border), seen_at(plan.left + across, sizes.w, border)};
}

}  // namespace adret::kernels

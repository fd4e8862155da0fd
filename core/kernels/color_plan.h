// What is drawn for the colours of an image, and what becomes of its pixels, in integers alone:
// compiled for every device (Note [Augmentation]).
#pragma once

#include <adret/core/kernels/image_plan.h>
#include <adret/core/kernels/jitter_colors.h>

namespace adret::kernels {

enum class ColorStep : uint8_t { brightness, contrast, saturation, hue };
inline constexpr int color_steps = 4;

struct JitterPlan {
  int32_t factor[color_steps];  // by step: times 2^16, of the hue in 2^16ths of a turn
  ColorStep order[color_steps];
  int32_t mean;  // gray level of the image where contrast has its turn

  constexpr bool needs_mean() const { return factor[int(ColorStep::contrast)] != 65536; }
};

struct Rgb {
  int32_t r, g, b;
};

// Without the mean, which takes the image.
constexpr JitterPlan plan_colors(const JitterParams& params, const SampleWords& words) {
  const auto between = [](uint32_t word, const std::array<int32_t, 2>& range) {
    return range[0] + int32_t(below(word, uint64_t(range[1] - range[0]) + 1));
  };
  const SampleWords::Block word = words.block(color_block);
  JitterPlan plan{
      {between(word.at[0], params.brightness), between(word.at[1], params.contrast),
       between(word.at[2], params.saturation), between(word.at[3], params.hue)},
      {ColorStep::brightness, ColorStep::contrast, ColorStep::saturation, ColorStep::hue},
      0};
  const SampleWords::Block swaps = words.block(color_order_block);
  for (uint32_t last = color_steps - 1; last > 0; --last) {  // Fisher and Yates 1938
    const auto other = uint32_t(below(swaps.at[last], last + 1));
    const ColorStep step = plan.order[last];
    plan.order[last] = plan.order[other];
    plan.order[other] = step;
  }
  return plan;
}

// ITU-R BT.601's luma in 2^16ths.
constexpr int32_t gray_level(Rgb p) {
  return (19595 * p.r + 38470 * p.g + 7471 * p.b + 32768) >> 16;
}

// From `from` towards `to` and beyond, as levels; factors up to 2^22 (of 2^16).
constexpr int32_t blend_levels(int32_t from, int32_t to, int32_t factor) {
  const int32_t level = (from * 65536 + factor * (to - from)) >> 16;
  return level < 0 ? 0 : level > 255 ? 255 : level;
}
constexpr Rgb blend_pixel(Rgb from, Rgb to, int32_t factor) {
  return {blend_levels(from.r, to.r, factor), blend_levels(from.g, to.g, factor),
          blend_levels(from.b, to.b, factor)};
}

// The hue, in 2^16ths of a sixth of a turn from red over yellow, green, cyan, blue and magenta,
// moved; largest and smallest level stay (Smith 1978).
constexpr Rgb turn_hue(Rgb p, int32_t turn) {
  constexpr int32_t sixth = 65536, whole = 6 * sixth;
  const int32_t most = p.r > p.g ? (p.r > p.b ? p.r : p.b) : (p.g > p.b ? p.g : p.b);
  const int32_t least = p.r < p.g ? (p.r < p.b ? p.r : p.b) : (p.g < p.b ? p.g : p.b);
  const int32_t range = most - least;
  if (range == 0) return p;
  const int32_t hue = most == p.r   ? (p.g - p.b) * sixth / range
                      : most == p.g ? 2 * sixth + (p.b - p.r) * sixth / range
                                    : 4 * sixth + (p.r - p.g) * sixth / range;
  const int32_t moved = ((hue + 6 * turn) % whole + whole) % whole;
  const int32_t part = (range * (moved % sixth) + sixth / 2) / sixth;
  switch (moved / sixth) {
    case 0: return {most, least + part, least};
    case 1: return {most - part, most, least};
    case 2: return {least, most, least + part};
    case 3: return {least, most - part, most};
    case 4: return {least + part, least, most};
    default: return {most, least, most - part};
  }
}

constexpr Rgb apply_step(const JitterPlan& plan, ColorStep step, Rgb p) {
  const int32_t factor = plan.factor[int(step)];
  switch (step) {
    case ColorStep::brightness: return blend_pixel({0, 0, 0}, p, factor);
    case ColorStep::contrast: return blend_pixel({plan.mean, plan.mean, plan.mean}, p, factor);
    case ColorStep::saturation: {
      const int32_t gray = gray_level(p);
      return blend_pixel({gray, gray, gray}, p, factor);
    }
    default: return turn_hue(p, factor);
  }
}

// The steps of a pixel, all of them or those before contrast.
constexpr Rgb apply_colors(const JitterPlan& plan, Rgb p, bool until_contrast) {
  for (int i = 0; i < color_steps; ++i) {
    if (until_contrast && plan.order[i] == ColorStep::contrast) break;
    p = apply_step(plan, plan.order[i], p);
  }
  return p;
}

constexpr int32_t mean_level(uint64_t sum, uint64_t count) {
  return int32_t((2 * sum + count) / (2 * count));
}

}  // namespace adret::kernels

// Colours of images on the CPU, an image a thread.
#include <adret/core/cpu/grain.h>
#include <adret/core/kernels/color_plan.h>
#include <adret/core/kernels/jitter_colors.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

namespace adret::kernels {
namespace {

Rgb pixel_at(const uint8_t* p) { return {p[0], p[1], p[2]}; }

void jitter_image(const JitterParams& params, const SampleWords& words, const uint8_t* x,
                  uint8_t* y, int64_t pixels) {
  JitterPlan plan = plan_colors(params, words);
  if (plan.needs_mean()) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < pixels; ++i) {
      sum += uint64_t(gray_level(apply_colors(plan, pixel_at(x + 3 * i), true)));
    }
    plan.mean = mean_level(sum, uint64_t(pixels));
  }
  for (int64_t i = 0; i < pixels; ++i) {
    const Rgb p = apply_colors(plan, pixel_at(x + 3 * i), false);
    y[3 * i] = uint8_t(p.r);
    y[3 * i + 1] = uint8_t(p.g);
    y[3 * i + 2] = uint8_t(p.b);
  }
}

}  // namespace

std::string JitterColors::params() const {
  const auto range = [](const std::array<int32_t, 2>& r) {
    return fmt::format("{:.4g}..{:.4g}", r[0] * 0x1p-16, r[1] * 0x1p-16);
  };
  return fmt::format("brightness {} contrast {} saturation {} hue {}", range(jitter.brightness),
                     range(jitter.contrast), range(jitter.saturation), range(jitter.hue));
}

void JitterColors::run_cpu(const CustomCall& call) const {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.numel() == 0) return;
  const int64_t images = x.shape[0], pixels = x.shape[1] * x.shape[2];
  const auto words = philox_key(key);
  const auto *ids = call.inputs[1].as<int64_t>(), *epoch = call.inputs[2].as<int64_t>();
  parallel_for(images, cpu::items_per_chunk(cpu::memory_grain, 8 * pixels),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const SampleWords drawn(words[0], words[1], key.call, ids ? ids[i] : 0,
                                           epoch ? *epoch : 0);
                   jitter_image(jitter, drawn, x.as<uint8_t>() + 3 * i * pixels,
                                y.as<uint8_t>() + 3 * i * pixels, pixels);
                 }
               });
}

}  // namespace adret::kernels

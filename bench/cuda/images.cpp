// Times the kernels of images on a GPU: a Markdown table.
#include <adret/core/random.h>
#include <adret/data/resize.h>
#include <adret/data/transforms.h>

#include "timing.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace adret;
using namespace adret::bench;

Tensor images_of(const Shape& shape) {
  const Tensor noise = Tensor::empty(shape, {.device = Device::cuda()});
  run(kernels::RandomUniform{.y = noise,
                             .step = random::step_word(Device::cuda()),
                             .key = {.seed = 1},
                             .low = 0,
                             .high = 256});
  return noise.to(DType::u8);
}

SampleIds shuffled(int64_t count, int64_t of) {
  std::vector<int64_t> ids = random::permutation(of, {.seed = 2}, 0);
  ids.resize(size_t(count));
  return SampleIds(ids, 3, Device::cuda());
}

void report(const std::string& name, double bytes, const std::function<void()>& call) {
  call();
  const double in_graph = captured(call, 0.05, compute_stream());
  fmt::print("| {} | {:.2f} | {:.0f} | {:.2f} |\n", name, in_graph, bytes / in_graph * 1e-3,
             eager(call, 0.05));
}

// Gathered from a set of `of` images.
void report_augment(const std::string& name, const Shape& batch, int64_t of,
                    const AugmentOptions& options) {
  const Augment augment(options);
  const Tensor images = images_of(batch.with(0, of));
  const SampleIds ids = shuffled(batch[0], of);
  const Tensor y = augment.gather(images, ids);
  report(fmt::format("{} {} {}", name, to_string(y.shape()), to_string(y.dtype())),
         double(batch.numel()) + double(y.bytes()), [&] { augment.gather(images, ids); });
}

}  // namespace

int main() {
  const Normalize normalize({0.49, 0.48, 0.45}, {0.25, 0.24, 0.26}, DType::bf16);
  const CropOptions reflect{.padding = 4, .border = Border::reflect};
  const Shape small = {512, 32, 32, 3}, large = {256, 224, 224, 3};
  try {
    fmt::print("| kernel | us | GB/s | eager us |\n|---|--:|--:|--:|\n");
    report_augment("normalise", small, 50000, {.normalize = normalize});
    report_augment("crop, flip", small, 50000,
                   {.crop = reflect, .flip = Flip::random, .normalize = normalize});
    report_augment(
        "crop, flip, cutout", small, 50000,
        {.crop = reflect, .flip = Flip::alternating, .cutout = 12, .normalize = normalize});
    report_augment("crop, flip, cutout, to 8 channels", small, 50000,
                   {.crop = reflect,
                    .flip = Flip::alternating,
                    .cutout = 12,
                    .normalize = normalize,
                    .channels = 8});
    report_augment("crop, flip, erasing", small, 50000,
                   {.crop = reflect,
                    .flip = Flip::random,
                    .erasing = {.probability = 0.5},
                    .normalize = normalize});
    report_augment("crop, flip", large, 1024,
                   {.crop = reflect, .flip = Flip::random, .normalize = normalize});

    const Tensor images = images_of(large);
    const SampleIds ids = shuffled(large[0], large[0]);
    const ColorJitter jitter({.brightness = {0.6, 1.4},
                              .contrast = {0.6, 1.4},
                              .saturation = {0.6, 1.4},
                              .hue = {-0.1, 0.1}});
    report("colour jitter (256, 224, 224, 3) u8", 2.0 * double(images.bytes()),
           [&] { jitter(images, ids); });
    // Eager alone: its weights are uploaded with each call.
    const double us = eager([&] { resize(images, 160); }, 0.05);
    fmt::print("| resize to 160 (256, 224, 224, 3) u8 | - | - | {:.2f} |\n", us);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda_images: {}\n", error.what());
    return 1;
  }
}

// What a mixed batch is made of, drawn on the host, and the call of its kernel.
#include <adret/core/error.h>
#include <adret/core/kernels/mix_images.h>
#include <adret/core/random.h>
#include <adret/data/mix.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

namespace adret {
namespace {

// Apart from the counters of samples (Note [Augmentation]), whose third word is small.
constexpr uint32_t partner_calls = uint32_t(1) << 30, share_calls = uint32_t(1) << 31;

// Uniform numbers in (0, 1) of one batch, one after the other.
class Uniforms {
 public:
  Uniforms(uint64_t seed, int64_t epoch, int64_t number)
      : key_(philox_key({.seed = seed, .stream = RandomStream::augment})),
        epoch_(uint32_t(epoch)),
        number_(uint64_t(number)) {}

  double next() {
    if (used_ == 2) {
      block_ = philox({uint32_t(number_), uint32_t(number_ >> 32), share_calls + blocks_++, epoch_},
                      key_);
      used_ = 0;
    }
    const size_t at = size_t(used_++) * 2;
    const uint64_t bits = block_[at] | uint64_t(block_[at + 1]) << 32;
    return (double(bits >> 11) + 0.5) * 0x1p-53;
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t epoch_;
  uint64_t number_;
  uint32_t blocks_ = 0;
  int used_ = 2;
  std::array<uint32_t, 4> block_{};
};

// Gamma(alpha, 1) (Marsaglia and Tsang 2000); normals by Box and Muller.
double draw_gamma(double alpha, Uniforms& uniforms) {
  if (alpha < 1) {
    const double u = uniforms.next();
    return draw_gamma(alpha + 1, uniforms) * std::pow(u, 1 / alpha);
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double radius = std::sqrt(-2 * std::log(uniforms.next()));
    const double x = radius * std::cos(2 * std::numbers::pi * uniforms.next());
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(uniforms.next()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double draw_beta(double alpha, Uniforms& uniforms) {
  const double a = draw_gamma(alpha, uniforms), b = draw_gamma(alpha, uniforms);
  // Both below the smallest double: in the limit of small alpha the share is 0 or 1.
  if (a + b == 0) return uniforms.next() < 0.5 ? 0 : 1;
  return a / (a + b);
}

void check_options(const char* function, const MixOptions& options) {
  if (options.num_classes < 1 || !(options.alpha > 0 && options.alpha <= 1e6) ||
      !(options.probability >= 0 && options.probability <= 1)) {
    throw Error(
        fmt::format("[{}] wants num_classes of 1 or more, alpha above 0 and a probability in 0..1, "
                    "got {}, {} and {}",
                    function, options.num_classes, options.alpha, options.probability));
  }
}

MixOptions with_seed(MixOptions options) {
  if (!options.seed) options.seed = random::seed();
  return options;
}

void check_batch(const char* function, const Batch& batch) {
  const Tensor &x = batch.inputs, &labels = batch.targets;
  if (x.rank() != 4 || !is_floating(x.dtype()) ||
      x.numel() / std::max<int64_t>(1, x.size(0)) > INT32_MAX) {
    throw ShapeError(fmt::format(
        "[{}] wants images (N, H, W, C) of a floating dtype, got {}; normalise them before",
        function, to_string(TensorView(x))));
  }
  if (labels.rank() != 1 || labels.size(0) != x.size(0) ||
      (labels.dtype() != DType::i32 && labels.dtype() != DType::i64)) {
    throw ShapeError(fmt::format("[{}] wants labels ({},) i32 or i64, got {}", function, x.size(0),
                                 to_string(TensorView(labels))));
  }
  if (labels.device() != x.device()) {
    throw DeviceError(fmt::format("[{}] images {} and labels {} are on two devices", function,
                                  to_string(TensorView(x)), to_string(TensorView(labels))));
  }
}

constexpr int64_t whole = int64_t(1) << 24;
int64_t in_words(double share) { return std::llround(share * double(whole)); }

// The batch mixed as the words say; words and partners go over in one upload.
void mix(Batch& batch, const MixOptions& options, const kernels::MixWords& mixed) {
  const int64_t count = batch.size();
  std::vector<int64_t> words = {mixed.kept,   mixed.top,   mixed.left,
                                mixed.bottom, mixed.right, mixed.target_kept};
  const RandomKey key{.seed = *options.seed,
                      .stream = RandomStream::augment,
                      .call = partner_calls + uint32_t(batch.number)};
  const std::vector<int64_t> partners = random::permutation(count, key, batch.epoch);
  words.insert(words.end(), partners.begin(), partners.end());
  const Device device = batch.inputs.device();
  const Tensor table = Tensor::from(words, {int64_t(words.size())}, device);
  const Tensor y =
      Tensor::empty(batch.inputs.shape(), {.dtype = batch.inputs.dtype(), .device = device});
  const Tensor targets = Tensor::empty({count, options.num_classes}, {.device = device});
  const Tensor partner_table = table.alias({count}, sizeof(kernels::MixWords)),
               word_table = table.alias({kernels::mix_words});
  run_custom(kernels::MixImages{}, {batch.inputs, batch.targets, partner_table, word_table},
             {y, targets});
  batch.inputs = y;
  batch.targets = targets;
}

}  // namespace

Mixup::Mixup(MixOptions options) : options_(with_seed(std::move(options))) {
  check_options("mixup", options_);
}

void Mixup::operator()(Batch& batch) const {
  check_batch("mixup", batch);
  Uniforms uniforms(*options_.seed, batch.epoch, batch.number);
  const bool mixes = uniforms.next() < options_.probability;
  const int64_t kept = mixes ? in_words(draw_beta(options_.alpha, uniforms)) : whole;
  mix(batch, options_, {.kept = kept, .target_kept = kept});
}

Cutmix::Cutmix(MixOptions options) : options_(with_seed(std::move(options))) {
  check_options("cutmix", options_);
}

void Cutmix::operator()(Batch& batch) const {
  check_batch("cutmix", batch);
  Uniforms uniforms(*options_.seed, batch.epoch, batch.number);
  kernels::MixWords words{.kept = whole, .target_kept = whole};
  if (uniforms.next() < options_.probability) {
    const int64_t h = batch.inputs.size(1), w = batch.inputs.size(2);
    const double side = std::sqrt(1 - draw_beta(options_.alpha, uniforms));
    const auto box_h = int64_t(double(h) * side), box_w = int64_t(double(w) * side);
    const auto top = int64_t(double(h) * uniforms.next()) - box_h / 2,
               left = int64_t(double(w) * uniforms.next()) - box_w / 2;
    words.top = std::clamp<int64_t>(top, 0, h);
    words.left = std::clamp<int64_t>(left, 0, w);
    words.bottom = std::clamp<int64_t>(top + box_h, 0, h);
    words.right = std::clamp<int64_t>(left + box_w, 0, w);
    const int64_t area = (words.bottom - words.top) * (words.right - words.left);
    words.target_kept = in_words(1 - double(area) / double(std::max<int64_t>(1, h * w)));
  }
  mix(batch, options_, words);
}

}  // namespace adret

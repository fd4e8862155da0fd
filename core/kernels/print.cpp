// Printing of the kernels' parameters.
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

namespace adret::kernels {

const char* to_string(UnaryOp op) {
  switch (op) {
    case UnaryOp::affine: return "affine";
    case UnaryOp::power: return "power";
    case UnaryOp::reciprocal: return "reciprocal";
    case UnaryOp::divide: return "divide";
    case UnaryOp::abs: return "abs";
    case UnaryOp::sign: return "sign";
    case UnaryOp::clamp: return "clamp";
    case UnaryOp::floor: return "floor";
    case UnaryOp::ceil: return "ceil";
    case UnaryOp::round: return "round";
    case UnaryOp::trunc: return "trunc";
    case UnaryOp::exp: return "exp";
    case UnaryOp::exp2: return "exp2";
    case UnaryOp::expm1: return "expm1";
    case UnaryOp::log: return "log";
    case UnaryOp::log2: return "log2";
    case UnaryOp::log1p: return "log1p";
    case UnaryOp::sqrt: return "sqrt";
    case UnaryOp::rsqrt: return "rsqrt";
    case UnaryOp::erf: return "erf";
    case UnaryOp::erfc: return "erfc";
    case UnaryOp::sin: return "sin";
    case UnaryOp::cos: return "cos";
    case UnaryOp::tan: return "tan";
    case UnaryOp::asin: return "asin";
    case UnaryOp::acos: return "acos";
    case UnaryOp::atan: return "atan";
    case UnaryOp::sinh: return "sinh";
    case UnaryOp::cosh: return "cosh";
    case UnaryOp::relu: return "relu";
    case UnaryOp::relu6: return "relu6";
    case UnaryOp::sigmoid: return "sigmoid";
    case UnaryOp::tanh: return "tanh";
    case UnaryOp::gelu: return "gelu";
    case UnaryOp::gelu_tanh: return "gelu_tanh";
    case UnaryOp::silu: return "silu";
    case UnaryOp::mish: return "mish";
    case UnaryOp::softplus: return "softplus";
    case UnaryOp::elu: return "elu";
    case UnaryOp::leaky_relu: return "leaky_relu";
    case UnaryOp::hardsigmoid: return "hardsigmoid";
    case UnaryOp::hardswish: return "hardswish";
    case UnaryOp::softsign: return "softsign";
  }
  return "?";
}

const char* to_string(BinaryOp op) {
  switch (op) {
    case BinaryOp::add: return "add";
    case BinaryOp::subtract: return "subtract";
    case BinaryOp::multiply: return "multiply";
    case BinaryOp::divide: return "divide";
    case BinaryOp::maximum: return "maximum";
    case BinaryOp::minimum: return "minimum";
    case BinaryOp::power: return "power";
    case BinaryOp::atan2: return "atan2";
    case BinaryOp::hypot: return "hypot";
    case BinaryOp::fmod: return "fmod";
    case BinaryOp::remainder: return "remainder";
    case BinaryOp::equal: return "equal";
    case BinaryOp::not_equal: return "not_equal";
    case BinaryOp::less: return "less";
    case BinaryOp::less_equal: return "less_equal";
    case BinaryOp::greater: return "greater";
    case BinaryOp::greater_equal: return "greater_equal";
  }
  return "?";
}

const char* to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::mean: return "mean";
    case ReduceOp::max: return "max";
    case ReduceOp::min: return "min";
    case ReduceOp::prod: return "prod";
    case ReduceOp::norm: return "norm";
    case ReduceOp::var: return "var";
    case ReduceOp::logsumexp: return "logsumexp";
  }
  return "?";
}

const char* to_string(Activation activation) {
  switch (activation) {
    case Activation::none: return "none";
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
  }
  return "?";
}

const char* to_string(PairLoss op) {
  switch (op) {
    case PairLoss::squared: return "squared";
    case PairLoss::absolute: return "absolute";
    case PairLoss::huber: return "huber";
    case PairLoss::binary: return "binary";
    case PairLoss::divergence: return "divergence";
    case PairLoss::log_divergence: return "log_divergence";
  }
  return "?";
}

const char* to_string(Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return "none";
    case Reduction::mean: return "mean";
    case Reduction::sum: return "sum";
  }
  return "?";
}

std::string to_string(const Conv2dParams& p) {
  return fmt::format("stride {} padding {} dilation {} groups {}", to_string(p.stride),
                     to_string(p.padding), to_string(p.dilation), p.groups);
}

std::string to_string(const Pool2dParams& p) {
  return fmt::format("kernel {} stride {} padding {}", to_string(p.kernel), to_string(p.stride),
                     to_string(p.padding));
}

const char* to_string(Border border) { return border == Border::zero ? "zero" : "reflect"; }

const char* to_string(Flip flip) {
  switch (flip) {
    case Flip::none: return "none";
    case Flip::random: return "random";
    case Flip::alternating: return "alternating";
  }
  return "?";
}

std::string to_string(const AugmentParams& p) {
  std::string text =
      fmt::format("{} crop padding {} {} flip {}", p.random_crop ? "random" : "centre", p.padding,
                  to_string(p.border), to_string(p.flip));
  if (p.flip == Flip::random) text += fmt::format(" {:.4g}", double(p.flip_chance) * 0x1p-32);
  if (p.cutout > 0) text += fmt::format(" cutout {}", p.cutout);
  if (p.erase_chance > 0) text += fmt::format(" erase {:.4g}", double(p.erase_chance) * 0x1p-32);
  return text;
}

const char* to_string(PadMode mode) {
  switch (mode) {
    case PadMode::constant: return "constant";
    case PadMode::reflect: return "reflect";
    case PadMode::replicate: return "replicate";
    case PadMode::circular: return "circular";
  }
  return "?";
}

const char* to_string(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::assign: return "assign";
    case ScatterMode::add: return "add";
    case ScatterMode::sum: return "sum";
  }
  return "?";
}

std::string to_string(const RemapParams& p, int rank) {
  std::string text = to_string(p.mode);
  if (p.mode == PadMode::constant) text += fmt::format(" {}", p.value);
  for (int i = 0; i < rank; ++i)
    text += fmt::format(" {}{:+}i", p.start[size_t(i)], p.step[size_t(i)]);
  return text;
}

std::string to_string(const PairLossParams& p) {
  return fmt::format("{} knee {} divisor {}", to_string(p.op), p.knee, p.divisor);
}

std::string to_string(const CrossEntropyParams& p) {
  return fmt::format("reduction {} label_smoothing {} ignore_index {}{}", to_string(p.reduction),
                     p.label_smoothing, p.ignore_index,
                     p.log_probabilities ? " log_probabilities" : "");
}

namespace {

// What a product's parameters end with when it is not exact.
const char* suffix(MathMode math) { return math == MathMode::tf32 ? " tf32" : ""; }

std::string draw(const RandomKey& key) {
  return fmt::format("seed {} stream {} call {}", key.seed, uint32_t(key.stream), key.call);
}

}  // namespace

const char* to_string(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::tanh: return "tanh";
    case RecurrentCell::relu: return "relu";
    case RecurrentCell::lstm: return "lstm";
    case RecurrentCell::gru: return "gru";
  }
  return "?";
}

std::string to_string(const RecurrentParams& p) {
  return std::string(to_string(p.cell)) + (p.reverse ? " reverse" : "");
}

std::string to_string(const AttentionParams& p) {
  std::string text = fmt::format("scale {}{}", p.scale, p.causal ? " causal" : "");
  if (p.dropout > 0) text += fmt::format(" dropout {} {}", p.dropout, draw(p.key));
  return text + suffix(p.math);
}

std::string Fill::params() const { return fmt::format("value {}", value); }
std::string Arange::params() const { return fmt::format("from {} to {} by {}", first, last, step); }
std::string Unary::params() const {
  return fmt::format("{} alpha {} beta {}", to_string(op), alpha, beta);
}
std::string UnaryBackward::params() const {
  return fmt::format("{} alpha {} beta {}", to_string(op), alpha, beta);
}
std::string Binary::params() const { return to_string(op); }
std::string reduce_params(ReduceOp op, uint32_t dims, double correction) {
  return fmt::format("{} dims {:#b}{}", to_string(op), dims,
                     op == ReduceOp::var ? fmt::format(" correction {}", correction) : "");
}
std::string Reduce::params() const { return reduce_params(op, dims, correction); }
std::string ReduceBackward::params() const { return reduce_params(op, dims, correction); }
std::string Extreme::params() const {
  return fmt::format("{} dim {}", largest ? "max" : "min", dim);
}
std::string Gather::params() const { return fmt::format("dim {}", dim); }
std::string Scatter::params() const { return fmt::format("dim {} {}", dim, to_string(mode)); }
std::string Sort::params() const {
  return fmt::format("dim {}{}", dim, descending ? " descending" : "");
}
std::string GroupNormForward::params() const {
  return fmt::format("groups {} epsilon {}{}", groups, epsilon, centered ? "" : " not centered");
}
std::string GroupNormBackward::params() const {
  return fmt::format("groups {}{}", groups, centered ? "" : " not centered");
}
std::string Matmul::params() const {
  return fmt::format("transpose_a {} transpose_b {} accumulate {}{}", transpose_a, transpose_b,
                     accumulate, suffix(math));
}
std::string LinearForward::params() const {
  return fmt::format("activation {}{}", to_string(activation), suffix(math));
}
std::string LinearBackwardInput::params() const {
  return fmt::format("activation {}{}", to_string(activation), suffix(math));
}
std::string LinearBackwardWeight::params() const { return math == MathMode::tf32 ? "tf32" : ""; }
std::string Conv2dForward::params() const {
  return fmt::format("{} activation {}{}", to_string(conv), to_string(activation), suffix(math));
}
std::string Conv2dBackwardInput::params() const { return to_string(conv) + suffix(math); }
std::string Conv2dBackwardWeight::params() const { return to_string(conv) + suffix(math); }
std::string MaxPool2dForward::params() const {
  return fmt::format("{} activation {}", to_string(pool), to_string(activation));
}
std::string BatchNormForward::params() const {
  return fmt::format("momentum {} epsilon {} activation {}", momentum, epsilon,
                     to_string(activation));
}
std::string BatchNormInference::params() const {
  return fmt::format("epsilon {} activation {}", epsilon, to_string(activation));
}
std::string BatchNormBackward::params() const {
  return fmt::format("activation {}", to_string(activation));
}
std::string SoftmaxForward::params() const { return fmt::format("dim {} log {}", dim, log); }
std::string SoftmaxBackward::params() const { return fmt::format("dim {} log {}", dim, log); }
std::string Permute::params() const {
  std::string text = "order";
  for (int i = 0; i < x.shape.rank(); ++i) text += fmt::format(" {}", order[size_t(i)]);
  return text;
}
std::string CopyRuns::params() const {
  return fmt::format("count {} length {} from {} every {} to {} every {}", count, length, x_offset,
                     x_stride, y_offset, y_stride);
}
std::string RandomUniform::params() const {
  return fmt::format("{} in {}..{}", draw(key), low, high);
}
std::string RandomNormal::params() const {
  return fmt::format("{} mean {} std {}", draw(key), mean, std);
}
std::string DropoutForward::params() const {
  return fmt::format("{} p {} activation {}", draw(key), p, to_string(activation));
}
std::string DropoutBackward::params() const { return fmt::format("p {}", p); }
std::string AugmentImages::params() const {
  return fmt::format("{} {}", draw(key), to_string(augment));
}
const char* to_string(Resampling mode) {
  switch (mode) {
    case Resampling::nearest: return "nearest";
    case Resampling::bilinear: return "bilinear";
    case Resampling::area: return "area";
  }
  return "?";
}
std::string to_string(const ResampleParams& params) {
  return std::string(to_string(params.mode)) + (params.align_corners ? " align_corners" : "");
}
std::string ResampleImages::params() const { return fmt::format("dim {}", dim); }
std::string ClipByNorm::params() const { return fmt::format("max_norm {}", max_norm); }
std::string ClipByValue::params() const { return fmt::format("limit {}", limit); }
std::string UpdateLossScale::params() const {
  return fmt::format("lowest {} largest {} growth_interval {}", lowest, largest, growth_interval);
}
std::string AverageWeights::params() const {
  return uniform ? "uniform" : fmt::format("decay {} warm_up {}", decay, warm_up);
}
const char* to_string(AdamRule rule) {
  switch (rule) {
    case AdamRule::adam: return "adam";
    case AdamRule::nadam: return "nadam";
    case AdamRule::radam: return "radam";
  }
  return "?";
}
std::string AdamStep::params() const { return fmt::format("rule {}", to_string(rule)); }

}  // namespace adret::kernels

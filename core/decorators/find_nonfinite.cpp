// Looks at each call's results on the host.
#include <adret/core/decorators/find_nonfinite.h>
#include <adret/core/decorators/relocate.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

namespace adret {
namespace {

using kernels::Operand;

struct Count {
  int64_t elements = 0, nan = 0, infinite = 0;
  int64_t first = -1;  // that is not finite
  double first_value = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;  // of the finite ones

  bool finite() const { return first < 0; }
};

template <class T>
Count count(const T* data, int64_t elements) {
  Count result{.elements = elements};
  for (int64_t i = 0; i < elements; ++i) {
    const double value = double(data[i]);
    if (std::isfinite(value)) {
      result.low = std::min(result.low, value);
      result.high = std::max(result.high, value);
      continue;
    }
    ++(std::isnan(value) ? result.nan : result.infinite);
    if (result.first >= 0) continue;
    result.first = i;
    result.first_value = value;
  }
  return result;
}

Count count(const TensorView& view) {
  if (!view.device.is_cpu()) return count(copy_on_cpu(view));
  switch (view.dtype) {
    case DType::f32: return count(view.as<float>(), view.numel());
    case DType::f64: return count(view.as<double>(), view.numel());
    case DType::bf16: return count(view.as<bfloat16>(), view.numel());
    case DType::f16: return count(view.as<float16>(), view.numel());
    default: return {};
  }
}

// The floating ones that hold something.
std::vector<OperandPart> floating_parts(const Kernel& call, const std::vector<Operand>& operands) {
  std::vector<OperandPart> parts = operand_parts(call, operands);
  std::erase_if(
      parts, [](const OperandPart& part) { return !is_floating(part.view.dtype) || !part.active; });
  return parts;
}

// An input, with a copy from before the call if the call writes there.
struct Input {
  OperandPart part;
  Tensor before;

  Count count() const { return adret::count(before.defined() ? before : part.view); }
};

bool overlap(const TensorView& a, const TensorView& b) {
  const auto *a_data = a.as<std::byte>(), *b_data = b.as<std::byte>();
  return a.storage == b.storage && a_data < b_data + b.bytes() && b_data < a_data + a.bytes();
}

std::vector<Input> keep_inputs(const Kernel& call, const std::vector<OperandPart>& results) {
  std::vector<Operand> operands = inputs(call);
  const auto* product = std::get_if<kernels::Matmul>(&call.any());
  if (product && product->accumulate) operands.push_back({"y", product->y});
  std::vector<Input> kept;
  for (OperandPart& part : floating_parts(call, operands)) {
    const bool written = std::ranges::any_of(
        results, [&](const OperandPart& result) { return overlap(part.view, result.view); });
    Tensor before = written ? copy_on_cpu(part.view) : Tensor();
    kept.push_back({std::move(part), std::move(before)});
  }
  return kept;
}

// The constant of a call whose results are elements of its operands, perhaps converted, or that
// constant; 0 if it has none. Nothing for other calls.
std::optional<double> constant_of_choice(const Kernel& kernel) {
  using namespace kernels;
  return std::visit(
      [](const auto& call) -> std::optional<double> {
        using K = std::decay_t<decltype(call)>;
        constexpr bool chooses =
            std::is_same_v<K, Copy> || std::is_same_v<K, Cast> || std::is_same_v<K, Broadcast> ||
            std::is_same_v<K, Permute> || std::is_same_v<K, Gather> || std::is_same_v<K, Select> ||
            std::is_same_v<K, Sort> || std::is_same_v<K, Extreme> ||
            std::is_same_v<K, MaxPool2dForward> || std::is_same_v<K, MaxPool2dGather>;
        if constexpr (chooses) return 0.0;
        if constexpr (std::is_same_v<K, Fill>) return call.value;
        if constexpr (std::is_same_v<K, Remap>) return call.remap.value;
        bool does = false;
        if constexpr (std::is_same_v<K, Scatter>) does = call.mode == ScatterMode::assign;
        if constexpr (std::is_same_v<K, Reduce>)
          does = call.op == ReduceOp::max || call.op == ReduceOp::min;
        if constexpr (std::is_same_v<K, Binary>)
          does = call.op == BinaryOp::maximum || call.op == BinaryOp::minimum;
        return does ? std::optional(0.0) : std::nullopt;
      },
      kernel.any());
}

// -- the report ----------------------------------------------------------------------------------

std::string index_text(const Shape& shape, int64_t element) {
  std::string text;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    text = fmt::format("{}{}{}", element % shape[dim], text.empty() ? "" : ", ", text);
    element /= shape[dim];
  }
  return "[" + text + "]";
}

// The sign of a NaN says nothing.
std::string value_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

std::string describe(const Count& count, const Shape& shape) {
  if (count.elements == 0) return "is empty";
  if (count.elements == 1)
    return "is " + value_text(count.first < 0 ? count.low : count.first_value);
  const std::string range =
      fmt::format("from {} to {}", value_text(count.low), value_text(count.high));
  if (count.finite()) return "is finite, " + range;
  std::string what;
  if (count.nan > 0) what = fmt::format("{} NaN", count.nan);
  if (count.infinite > 0) {
    what += fmt::format("{}{} {}", what.empty() ? "" : " and ", count.infinite,
                        count.infinite == 1 ? "infinity" : "infinities");
  }
  return fmt::format(
      "has {} among {} elements, the first ({}) at {}; {}", what, count.elements,
      value_text(count.first_value), index_text(shape, count.first),
      count.nan + count.infinite == count.elements ? "none is finite" : "the others are " + range);
}

std::string report(const Kernel& call, const OperandPart& result, const Count& count,
                   const std::vector<Input>& inputs) {
  const std::string place = current_place();
  std::string text =
      fmt::format("[FindNonFinite] {}: {}: {} {}. ", place.empty() ? "(no scope)" : place,
                  to_string(call), result.name, describe(count, result.view.shape));
  if (inputs.empty()) return text + "It has no floating inputs";
  for (const Input& input : inputs) {
    text += fmt::format("{}{}{} {}", &input == &inputs[0] ? "" : "; ", input.part.name,
                        input.before.defined() ? ", before the call," : "",
                        describe(input.count(), input.part.view.shape));
  }
  return text;
}

}  // namespace

void FindNonFinite::run(const Kernel& call) {
  // Writes parts of an output, elements of its input alone; the rest may not be there yet.
  if (std::holds_alternative<kernels::CopyRuns>(call.any())) return forward(call);
  const std::vector<OperandPart> results = floating_parts(call, outputs(call));
  const std::vector<Input> kept = keep_inputs(call, results);
  forward(call);
  ++checked_;
  for (const OperandPart& result : results) {
    const Count found = count(result.view);
    if (found.finite()) continue;
    bool may_be_nan = false, may_be_infinite = options_.allow_infinity;
    if (std::holds_alternative<kernels::AttentionForward>(call.any())) {
      may_be_infinite |= result.name == "log_sum_exp";
    }
    if (const auto constant = constant_of_choice(call)) {
      may_be_nan |= std::isnan(*constant);
      may_be_infinite |= std::isinf(*constant);
      for (const Input& input : kept) {
        const Count came = input.count();
        may_be_nan |= came.nan > 0;
        may_be_infinite |= came.infinite > 0;
      }
    }
    if ((found.nan == 0 || may_be_nan) && (found.infinite == 0 || may_be_infinite)) continue;
    throw Error(report(call, result, found, kept));
  }
}

}  // namespace adret

// Looks at each call's results on the host, and follows what is not finite to where it began.
#include <adret/core/decorators/find_nonfinite.h>
#include <adret/core/decorators/relocate.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/storage.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

struct Range {
  const std::byte *begin, *end;
  explicit Range(const TensorView& view) : begin(view.as<std::byte>()), end(begin + view.bytes()) {}
  bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
};

bool overlap(const TensorView& a, const TensorView& b) {
  return a.storage == b.storage && Range(a).meets(Range(b));
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

// "Net/head/log: unary x=...: y has 1 NaN among ...".
std::string result_text(const Kernel& call, const std::string& name, const Shape& shape,
                        const Count& count) {
  const std::string place = current_place();
  return fmt::format("{}: {}: {} {}", place.empty() ? "(no scope)" : place, to_string(call), name,
                     describe(count, shape));
}

std::string inputs_text(const std::vector<Input>& inputs) {
  if (inputs.empty()) return "It has no floating inputs";
  std::string text;
  for (const Input& input : inputs) {
    text += fmt::format("{}{}{} {}", text.empty() ? "" : "; ", input.part.name,
                        input.before.defined() ? ", before the call," : "",
                        describe(input.count(), input.part.view.shape));
  }
  return text;
}

// -- where it began ---------------------------------------------------------------------

// A call from which something that is not finite came down.
struct Origin {
  bool given = false;  // its operands brought it along, and no call is known that made it
  int64_t number = 0;  // of the call
  std::string text;

  bool before(const Origin& other) const {
    return std::pair(given, number) < std::pair(other.given, other.number);
  }
};
using OriginPtr = std::shared_ptr<const Origin>;

OriginPtr earlier(const OriginPtr& a, const OriginPtr& b) {
  if (!a || !b) return a ? a : b;
  return b->before(*a) ? b : a;
}

}  // namespace

// Of what lies in memory.
class FindNonFinite::Origins {
 public:
  // The earliest of those of the view's memory; null if none is known.
  OriginPtr of(const TensorView& view) const {
    OriginPtr first;
    for (const Mark& mark : marks_) {
      if (mark.meets(view)) first = earlier(first, mark.origin);
    }
    return first;
  }

  void add(const TensorView& view, const OriginPtr& origin) {
    std::erase_if(marks_, [](const Mark& mark) { return mark.life->over(); });
    if (!origin) return;
    marks_.push_back({view.storage->id(), view.storage->life(), Range(view), origin});
  }

  // The view's memory was written to.
  void forget(const TensorView& view) {
    const Range written(view);
    std::vector<Mark> behind;
    for (Mark& mark : marks_) {
      if (!mark.meets(view)) continue;
      if (mark.range.end > written.end) {
        behind.push_back(mark);
        behind.back().range.begin = written.end;
      }
      mark.range.end = written.begin;
    }
    std::erase_if(marks_, [](const Mark& mark) { return mark.range.begin >= mark.range.end; });
    marks_.insert(marks_.end(), behind.begin(), behind.end());
  }

 private:
  struct Mark {
    uint64_t storage;
    IntrusivePtr<StorageLife> life;
    Range range;
    OriginPtr origin;

    bool meets(const TensorView& view) const {
      return storage == view.storage->id() && range.meets(Range(view));
    }
  };
  std::vector<Mark> marks_;
};

// A call that was run.
struct FindNonFinite::Seen {
  const Kernel& call;
  std::vector<Input> inputs;
  std::vector<OperandPart> results;
  std::vector<Count> found;                            // in the results
  bool brought_nan = false, brought_infinity = false;  // by inputs, or by the constant of a choice
  bool chooses = false;
  OriginPtr first;  // of what the inputs brought

  bool brought() const { return brought_nan || brought_infinity; }
  void look_at_inputs(const Origins& origins) {
    if (const auto constant = constant_of_choice(call)) {
      chooses = true;
      brought_nan = std::isnan(*constant);
      brought_infinity = std::isinf(*constant);
    }
    for (const Input& input : inputs) {
      const Count came = input.count();
      if (came.finite()) continue;
      brought_nan |= came.nan > 0;
      brought_infinity |= came.infinite > 0;
      first = earlier(first, origins.of(input.part.view));
    }
  }
  std::string text(size_t result) const {
    return result_text(call, results[result].name, results[result].view.shape, found[result]) +
           ". " + inputs_text(inputs);
  }
};

namespace {

// Of parameters that have a gradient. Whatever is not finite there is lost with the next step.
bool works_on_an_arena(const Kernel& call) {
  return std::ranges::any_of(inputs(call), [](const Operand& operand) {
    return std::string_view(operand.name) == "segments";
  });
}

[[noreturn]] void fail(const OriginPtr& origin, const std::string& text) {
  throw Error(origin ? fmt::format("[FindNonFinite] {}. It came to {}", origin->text, text)
                     : "[FindNonFinite] " + text);
}

// -inf of queries that see no key.
bool is_meant(const Kernel& call, const OperandPart& result, const Count& count) {
  return std::holds_alternative<kernels::AttentionForward>(call.any()) &&
         result.name == "log_sum_exp" && count.nan == 0;
}

}  // namespace

FindNonFinite::FindNonFinite(FindNonFiniteOptions options)
    : options_(options), origins_(std::make_unique<Origins>()) {}
FindNonFinite::~FindNonFinite() = default;

void FindNonFinite::run(const Kernel& call) {
  // Writes parts of an output, elements of its input alone; the rest may not be there yet.
  if (const auto* runs = std::get_if<kernels::CopyRuns>(&call.any())) {
    forward(call);
    return origins_->add(runs->y, origins_->of(runs->x));
  }
  Seen seen{
      .call = call, .inputs = {}, .results = floating_parts(call, outputs(call)), .found = {}};
  seen.inputs = keep_inputs(call, seen.results);
  if (works_on_an_arena(call)) {
    for (const Input& input : seen.inputs) {
      const Count count = input.count();
      if (count.finite() || !input.part.name.starts_with("grads")) continue;
      fail(origins_->of(input.part.view),
           result_text(call, input.part.name, input.part.view.shape, count));
    }
  }
  forward(call);
  ++checked_;
  bool finite = true;
  for (const OperandPart& result : seen.results) {
    seen.found.push_back(count(result.view));
    if (is_meant(call, result, seen.found.back())) seen.found.back() = {};
    finite = finite && seen.found.back().finite();
  }
  if (!finite) {
    seen.look_at_inputs(*origins_);
    judge(seen);
  }
  take_note(seen);
}

void FindNonFinite::judge(const Seen& seen) const {
  const bool arena = works_on_an_arena(seen.call);
  const bool passes = seen.chooses && seen.brought_nan;
  for (size_t i = 0; i < seen.results.size(); ++i) {
    const bool throws =
        arena ? !seen.found[i].finite() : options_.at_once && seen.found[i].nan > 0 && !passes;
    if (!throws) continue;
    fail(seen.first && !seen.first->given ? seen.first : nullptr, seen.text(i));
  }
}

void FindNonFinite::take_note(const Seen& seen) {
  for (size_t i = 0; i < seen.results.size(); ++i) {
    origins_->forget(seen.results[i].view);
    const Count& found = seen.found[i];
    if (found.finite()) continue;
    OriginPtr origin = seen.first;
    if (!origin || origin->given) {
      const bool made = (found.nan > 0 && !seen.brought_nan) || !seen.brought();
      if (made || (!origin && !seen.chooses)) {
        origin = std::make_shared<Origin>(
            Origin{.given = !made, .number = checked_, .text = seen.text(i)});
      }
    }
    origins_->add(seen.results[i].view, origin);
  }
}

void FindNonFinite::check(const Tensor& tensor, const std::string& what) const {
  const TensorView view = tensor;
  const Count found = count(view);
  if (found.finite()) return;
  const OriginPtr origin = origins_->of(view);
  fail(origin, fmt::format("{}: {}{}", what, to_string(view),
                           (origin ? " " : ", in which no kernel made it, ") +
                               describe(found, view.shape)));
}

}  // namespace adret

// Moments of the device around each call, read when somebody asks.
#include <adret/core/decorators/profile.h>
#include <adret/core/kernels/kernel.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace adret {

using kernels::Operand;

const char* to_string(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f64: return "f64";
    case Arithmetic::f32: return "f32";
    case Arithmetic::tf32: return "tf32";
    case Arithmetic::bf16: return "bf16";
    case Arithmetic::f16: return "f16";
  }
  return "?";
}

Arithmetic arithmetic_of(const Kernel& kernel) {
  return std::visit(
      [](const auto& call) {
        const auto list = call.inputs();
        const DType dtype = list.empty() ? DType::f32 : list[0].view.dtype;
        if (dtype == DType::f64) return Arithmetic::f64;
        if constexpr (requires { call.math; }) {  // a product
          if (dtype == DType::bf16) return Arithmetic::bf16;
          if (dtype == DType::f16) return Arithmetic::f16;
          if (call.math == MathMode::tf32) return Arithmetic::tf32;
        }
        return Arithmetic::f32;
      },
      kernel.any());
}

namespace {

// Vectors beside larger operands, as a bias, say little.
bool tells_something(const Operand& operand, int64_t largest) {
  const TensorView& view = operand.view;
  return view.defined() && (view.shape.rank() > 1 || view.numel() == largest);
}

// What the same call has in each step: shapes, dtypes where they change, parameters.
std::string describe(const Kernel& kernel) {
  const std::vector<Operand> in = inputs(kernel), out = outputs(kernel);
  int64_t largest = 0;
  for (const auto* list : {&in, &out}) {
    for (const Operand& operand : *list) {
      if (operand.view.defined()) largest = std::max(largest, operand.view.numel());
    }
  }
  std::string text, dtype;
  const auto add = [&](const Operand& operand) {
    if (!tells_something(operand, largest)) return;
    text += fmt::format("{}={} ", operand.name, to_string(operand.view.shape));
    const std::string own(name(operand.view.dtype));
    if (own != dtype) text += own + " ";
    dtype = own;
  };
  for (const Operand& operand : in) add(operand);
  text += "-> ";
  for (const Operand& operand : out) add(operand);
  std::visit(
      [&](auto call) {
        if constexpr (requires { call.key; }) call.key = {};  // counts calls
        if constexpr (requires { call.params(); }) text += call.params();
      },
      kernel.any());
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

constexpr size_t most_running = 1 << 14;

}  // namespace

void Profile::run(const Kernel& call) {
  DeviceServices& services = backend_for(device_of(call)).services();
  const Moment begin = services.timestamp();
  forward(call);
  const Moment end = services.timestamp();
  running_.push_back({row_of(call), begin, end});
  if (running_.size() >= most_running) settle();
}

size_t Profile::row_of(const Kernel& call) {
  ProfileRow row{.kernel = kernel_name(call),
                 .operands = describe(call),
                 .place = current_place(),
                 .device = device_of(call),
                 .arithmetic = arithmetic_of(call)};
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}", row.kernel, row.operands, row.place, to_string(row.device));
  const auto [at, is_new] = index_.try_emplace(key, rows_.size());
  if (is_new) rows_.push_back(std::move(row));
  ProfileRow& sum = rows_[at->second];
  ++sum.calls;
  sum.flops += flops(call);
  sum.bytes += bytes_moved(call);
  return at->second;
}

void Profile::settle() {
  for (const Timed& call : std::exchange(running_, {})) {
    rows_[call.row].seconds += call.end->seconds_since(*call.begin);
  }
}

const std::vector<ProfileRow>& Profile::rows() {
  settle();
  return rows_;
}

std::vector<ProfileRow> merge_places(const std::vector<ProfileRow>& rows) {
  std::vector<ProfileRow> merged;
  std::vector<int> places;
  for (const ProfileRow& row : rows) {
    const auto same = std::ranges::find_if(merged, [&](const ProfileRow& other) {
      return other.kernel == row.kernel && other.operands == row.operands &&
             other.device == row.device;
    });
    if (same == merged.end()) {
      merged.push_back(row);
      places.push_back(1);
      continue;
    }
    same->calls += row.calls;
    same->seconds += row.seconds;
    same->flops += row.flops;
    same->bytes += row.bytes;
    ++places[size_t(same - merged.begin())];
  }
  for (size_t i = 0; i < merged.size(); ++i) {
    if (places[i] > 1) merged[i].place += fmt::format(" and {} more", places[i] - 1);
  }
  return merged;
}

}  // namespace adret

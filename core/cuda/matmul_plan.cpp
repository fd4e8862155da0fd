// The table of plans, their making and their race.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/cublas_epilogue.h>
#include <adret/core/cuda/cublas_objects.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/matmul_plan.h>
#include <adret/core/cuda/matmul_tensor.h>
#include <adret/core/cuda/matmul_wide.h>
#include <adret/core/cuda/plan_file.h>
#include <adret/core/cuda/stopwatch.h>
#include <adret/core/cuda/workspace.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace adret::cuda {
namespace {

// Note [Row-major operands]
// cuBLASLt's matrices are column-major: our (R, C) is its C x R with leading dimension C. So it is
// asked for the transposed product y^T = op(b)^T op(a)^T: its A is our b, its B our a, both turned
// exactly when ours are. Its bias runs along the rows of D, which are our columns, and the bias
// gradient of its B sums our op(a) over the depth.

// A way to compute a product, ready to run.
struct Plan {
  Descriptor operation;
  Layout a, b, y;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace_bytes = 0;
  bool fused = true;                   // the operation has the product's epilogue
  Beside beside;                       // that the operation points to
  bool small = false;                  // multiply_small, without any of the above
  bool wide = false;                   // multiply_wide, likewise
  std::optional<TensorTiling> tiling;  // multiply_tensor, likewise
  bool raced = false;
};

Plan small_plan() {
  Plan plan;
  plan.small = true;
  return plan;
}
Plan wide_plan() {
  Plan plan;
  plan.wide = true;
  return plan;
}
Plan tensor_plan(const TensorTiling& tiling) {
  Plan plan;
  plan.tiling = tiling;
  return plan;
}

// -- the table -----------------------------------------------------------------------------------

// Of what a plan depends on.
struct Key {
  int64_t rows, columns, depth, batch;
  uint64_t bits;
  bool operator==(const Key&) const = default;
};

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = key.bits;
    for (const int64_t word : {key.rows, key.columns, key.depth, key.batch}) {
      hash = (hash ^ uint64_t(word)) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 32;
    }
    return size_t(hash);
  }
};

// The largest power of two up to 16 that divides the address; 16 for null.
uint32_t alignment_of(const TensorView& view) {
  const auto address = uintptr_t(view.data) | 16;
  return uint32_t(address & (~address + 1));
}

// What NVIDIA recommends for Hopper, the most of all devices.
constexpr size_t most_workspace = size_t(32) << 20;
size_t workspace_limit() { return std::min(most_workspace, compute_mode().workspace_limit); }

// The bits of a key but the device's number, which means nothing to the next process.
constexpr uint64_t without_device = (uint64_t(1) << 54) - 1;

Key key_of(const Context& context, const Product& p, const ProductOperands& operands) {
  uint64_t bits = 0;
  const auto add = [&](uint64_t value, int width) { bits = bits << width | value; };
  add(uint64_t(context.index), 8);
  add(workspace_limit(), 26);
  add(uint64_t(operands.y.dtype), 4);
  add(uint64_t(p.epilogue), 4);
  add(uint64_t(p.math), 1);
  add(p.transpose_a, 1);
  add(p.transpose_b, 1);
  add(p.accumulate, 1);
  add(compute_mode().deterministic, 1);
  for (const TensorView* view :
       {&operands.a, &operands.b, &operands.y, &operands.beside, &operands.before}) {
    add(uint64_t(std::countr_zero(alignment_of(*view))), 3);
  }
  return {p.rows, p.columns, p.depth, p.batch, bits};
}

// -- descriptors ---------------------------------------------------------------------------------

void point_to(Plan& plan, const Beside& beside) {
  if (beside == plan.beside) return;
  if (beside.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, beside.bias);
  if (beside.matrix) set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside.matrix);
  plan.beside = beside;
}

Descriptor make_operation(const Product& p, DType dtype, Epilogue epilogue) {
  Descriptor operation;
  ADRET_CHECK(cublas().cublasLtMatmulDescCreate(operation.out(), compute_type(dtype, p.math),
                                                dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue, dtype));
  return operation;
}

Plan make_plan(const Product& p, const ProductOperands& operands, bool fused) {
  const DType dtype = operands.y.dtype;
  fused = fused && has_fusion(p, dtype);
  Plan plan;
  plan.operation = make_operation(p, dtype, fused ? p.epilogue : epilogue_apart(p.epilogue));
  plan.a = p.transpose_a ? make_layout(dtype, p.depth, p.rows, p.batch)
                         : make_layout(dtype, p.rows, p.depth, p.batch);
  plan.b = p.transpose_b ? make_layout(dtype, p.columns, p.depth, p.batch)
                         : make_layout(dtype, p.depth, p.columns, p.batch);
  plan.y = make_layout(dtype, p.rows, p.columns, p.batch);
  plan.fused = fused;
  const Beside beside = beside_of(p, operands, fused);
  if (beside.matrix) set(plan.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.columns);
  point_to(plan, beside);
  return plan;
}

// -- suggestions ---------------------------------------------------------------------------------

// In 16 bits, partial sums of a split depth are kept in f32. Reduction in place is left out where
// the same bits are wanted each time.
uint32_t reduction_schemes(DType dtype) {
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (size_of(dtype) == 2) return schemes;
  schemes |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  return compute_mode().deterministic ? schemes : schemes | CUBLASLT_REDUCTION_SCHEME_INPLACE;
}

Preference make_preference(const ProductOperands& operands) {
  Preference preference;
  ADRET_CHECK(cublas().cublasLtMatmulPreferenceCreate(preference.out()));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(workspace_limit()));
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes(operands.y.dtype));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(operands.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(operands.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(operands.y));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(operands.y));
  return preference;
}

// Up to `most` plans, the likely best first.
std::vector<Plan> suggestions(Context& context, const Product& p, const ProductOperands& operands,
                              bool fused, int most) {
  Plan asked = make_plan(p, operands, fused);
  // Of addresses only the alignment is looked at: the key's, not what it happens to be.
  const auto aligned_alike = [](const void* address) {
    const uintptr_t bits = uintptr_t(address) | 16;
    return reinterpret_cast<const void*>(address ? bits & (~bits + 1) : 0);
  };
  point_to(asked, {aligned_alike(asked.beside.bias), aligned_alike(asked.beside.matrix)});
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int found = 0;
  const cublasStatus_t status = cublas().cublasLtMatmulAlgoGetHeuristic(
      context.cublas(), asked.operation, asked.b, asked.a, asked.y, asked.y,
      make_preference(operands), most, results.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE) {
    ADRET_CHECK(status);
  } else {
    found = 0;
  }
  std::vector<Plan> plans;
  for (size_t i = 0; i < size_t(found); ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    Plan& plan = plans.emplace_back(make_plan(p, operands, fused));
    plan.algorithm = results[i].algo;
    plan.workspace_bytes = results[i].workspaceSize;
  }
  return plans;
}

[[noreturn]] void refuse(const Product& p, DType dtype) {
  throw DeviceError(fmt::format(
      "[matmul] cuBLASLt {} has no algorithm for {} products ({}, {}){} ({}, {}){} in "
      "{} with at most {} bytes of workspace",
      cublas().version, p.batch, p.rows, p.depth, p.transpose_a ? " transposed" : "", p.depth,
      p.columns, p.transpose_b ? " transposed" : "", adret::name(dtype), workspace_limit()));
}

// -- our own kernels -----------------------------------------------------------------------------

// Multiply-adds up to which a kernel takes part in races, and up to which it is the choice without
// one.
struct Reach {
  double race, win;
};
// Where it is at least level, and saves a launch with ReLU and 6 to 10 us on the host.
constexpr Reach small_reach{1 << 24, 1 << 22};
constexpr Reach tensor_reach{1 << 30, 1 << 26};

bool is_within(double most, const Product& p) {
  return p.epilogue != Epilogue::bias_gelu_tanh &&
         double(p.rows) * double(p.columns) * double(p.depth) * double(p.batch) <= most;
}

// In sizes that multiply_small takes.
bool is_small(const Product& p, double most) {
  return p.rows <= (int64_t(1) << 19) && is_within(most, p);
}

bool is_wide(const Context& context, const Product& p, const ProductOperands& operands) {
  return can_multiply_wide(context, p, operands) &&
         multiply_wide_workspace(context, p) <= workspace_limit();
}

// Up to `most` tilings of multiply_tensor, the likely best first.
std::vector<TensorTiling> tilings(const Context& context, const Product& p, DType dtype,
                                  size_t most) {
  std::vector<TensorTiling> found = tensor_tilings(context.properties, p, dtype);
  found.resize(std::min(found.size(), most));
  return found;
}

// -- choices on disk -----------------------------------------------------------------------------

PlanFile& plan_file(const Context& context) {
  return PlanFile::of(context, "matmul", cublas().version);
}

// With the number of the kernels' generation: a choice from before there were as many to choose
// from is not found.
std::string name_of(const Key& key, DType dtype) {
  constexpr int generation = 4;
  return fmt::format("{} {}x{}x{} batch {} {:x} of {}", adret::name(dtype), key.rows, key.columns,
                     key.depth, key.batch, key.bits & without_device, generation);
}

// The algorithm's words are opaque, and good for the same version of cuBLASLt.
std::string choice_of(const Plan& plan) {
  if (plan.small) return "small";
  if (plan.wide) return "wide";
  if (plan.tiling) return fmt::format("tensor {} {}", plan.tiling->tile, plan.tiling->splits);
  std::string text = plan.fused ? "fused" : "apart";
  for (const uint64_t word : plan.algorithm.data) text += fmt::format(" {:x}", word);
  return text;
}

// The plan of an algorithm's words, if it can be run.
std::optional<Plan> with_algorithm(Context& context, Plan plan, std::istream& words) {
  for (uint64_t& word : plan.algorithm.data) words >> std::hex >> word;
  cublasLtMatmulHeuristicResult_t result{};
  if (!words ||
      cublas().cublasLtMatmulAlgoCheck(context.cublas(), plan.operation, plan.b, plan.a, plan.y,
                                       plan.y, &plan.algorithm, &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > workspace_limit()) {
    return {};
  }
  plan.workspace_bytes = result.workspaceSize;
  return plan;
}

// What a race once chose, if it can still be run.
std::optional<Plan> restored(Context& context, const Product& p, const ProductOperands& operands,
                             const std::string& choice) {
  std::istringstream text(choice);
  std::string way;
  text >> way;
  std::optional<Plan> plan;
  if (way == "small" && is_small(p, small_reach.race)) {
    plan = small_plan();
  } else if (way == "wide" && is_wide(context, p, operands)) {
    plan = wide_plan();
  } else if (way == "tensor") {
    TensorTiling tiling{};
    text >> tiling.tile >> tiling.splits;
    const auto possible = tensor_tilings(context.properties, p, operands.y.dtype);
    if (std::ranges::find(possible, tiling) != possible.end()) plan = tensor_plan(tiling);
  } else if (way == "fused" || way == "apart") {
    plan = with_algorithm(context, make_plan(p, operands, way == "fused"), text);
  }
  if (plan) plan->raced = true;
  return plan;
}

// -- running -------------------------------------------------------------------------------------

// What cuBLASLt's kernel did not do of the epilogue.
void run_epilogue(Context& context, const Product& p, const ProductOperands& operands, bool fused) {
  const auto slope = [&](kernels::UnaryOp op) {
    run(context, kernels::UnaryBackward{
                     .saved = operands.beside, .dy = operands.y, .dx = operands.y, .op = op});
  };
  switch (p.epilogue) {
    case Epilogue::none: return;
    case Epilogue::bias:
      if (!fused) add_bias(context, operands.y, operands.beside, false);
      return;
    case Epilogue::relu: return add_bias(context, operands.y, {}, true);
    case Epilogue::bias_relu:
      return add_bias(context, operands.y, fused ? TensorView() : operands.beside, true);
    case Epilogue::bias_gradient:
      if (fused) return;
      return run(context, kernels::Reduce{.x = operands.a, .y = operands.beside, .dims = 1});
    case Epilogue::relu_slope: return slope(kernels::UnaryOp::relu);
    case Epilogue::gelu_slope: return slope(kernels::UnaryOp::gelu);
    case Epilogue::gelu_tanh_slope:
      if (!fused) slope(kernels::UnaryOp::gelu_tanh);
      return;
    case Epilogue::bias_gelu_tanh:
      if (fused) return;
      return run(
          context,
          kernels::Unary{.x = operands.before, .y = operands.y, .op = kernels::UnaryOp::gelu_tanh});
  }
}

cublasStatus_t try_run(Context& context, Plan& plan, const Product& p,
                       const ProductOperands& operands) {
  if (plan.small) {
    multiply_small(context, p, operands);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (plan.wide) {
    multiply_wide(context, p, operands);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (plan.tiling) {
    multiply_tensor(context, p, operands, *plan.tiling);
    return CUBLAS_STATUS_SUCCESS;
  }
  point_to(plan, beside_of(p, operands, plan.fused));
  const TensorView& y = result_of(p, operands, plan.fused);
  std::optional<Workspace> workspace;
  if (plan.workspace_bytes > 0) workspace.emplace(context, plan.workspace_bytes);
  const DType dtype = operands.y.dtype;
  const cublasStatus_t status = cublas().cublasLtMatmul(
      context.cublas(), plan.operation, scalar(dtype, true), operands.b.data, plan.b,
      operands.a.data, plan.a, scalar(dtype, p.accumulate), y.data, plan.y, y.data, plan.y,
      &plan.algorithm, workspace ? workspace->data() : nullptr, plan.workspace_bytes,
      context.compute);
  if (status == CUBLAS_STATUS_SUCCESS) run_epilogue(context, p, operands, plan.fused);
  return status;
}

// -- choosing ------------------------------------------------------------------------------------

Plan suggested(Context& context, const Product& p, const ProductOperands& operands) {
  const DType dtype = operands.y.dtype;
  if (is_within(tensor_reach.win, p)) {
    for (const TensorTiling& tiling : tilings(context, p, dtype, 1)) return tensor_plan(tiling);
  }
  if (is_small(p, small_reach.win)) return small_plan();
  for (const bool fused : {true, false}) {
    std::vector<Plan> plans = suggestions(context, p, operands, fused, 4);
    if (!plans.empty()) return std::move(plans.front());
    if (!has_fusion(p, operands.y.dtype)) break;
  }
  refuse(p, dtype);
}

// Microseconds of one run; nothing for a plan that does not run.
std::optional<double> time(Context& context, Plan& plan, const Product& p,
                           const ProductOperands& operands) {
  if (try_run(context, plan, p, operands) != CUBLAS_STATUS_SUCCESS) return {};
  const auto of_runs = [&](int runs) {
    return Stopwatch(context).microseconds(
        runs, [&] { check(try_run(context, plan, p, operands), "cublasLtMatmul"); });
  };
  constexpr double short_time = 30;  // where the clock's steps and the first launch show
  const double taken = of_runs(3);
  return taken < short_time ? of_runs(20) : taken;
}

// All that a race is between.
std::vector<Plan> candidates(Context& context, const Product& p, const ProductOperands& operands) {
  constexpr int most = 24;
  constexpr size_t most_tilings = 6;
  std::vector<Plan> plans = suggestions(context, p, operands, true, most);
  if (has_fusion(p, operands.y.dtype)) {
    for (Plan& plan : suggestions(context, p, operands, false, most)) {
      plans.push_back(std::move(plan));
    }
  }
  if (is_within(tensor_reach.race, p)) {
    for (const TensorTiling& tiling : tilings(context, p, operands.y.dtype, most_tilings)) {
      plans.push_back(tensor_plan(tiling));
    }
  }
  if (is_wide(context, p, operands)) plans.push_back(wide_plan());
  if (is_small(p, small_reach.race)) plans.push_back(small_plan());
  return plans;
}

// For whoever reads the file: what a time is of, if not of cuBLASLt's whole operation.
std::string label_of(const Plan& plan) {
  if (plan.small || plan.wide || plan.tiling) return choice_of(plan) + " ";
  return plan.fused ? "" : "apart ";
}

// The fastest on the real operands; a later one has to win by 3 %, which is noise.
Plan raced(Context& context, const Product& p, const ProductOperands& operands,
           const std::string& key) {
  std::vector<Plan> plans = candidates(context, p, operands);
  // What is added to must not change while it is tried.
  std::optional<Workspace> scratch;
  TensorView y = operands.y;
  if (p.accumulate) {
    scratch.emplace(context, size_t(p.batch * p.rows * p.columns) * size_of(y.dtype));
    y.data = scratch->data();
  }
  Plan* best = nullptr;
  double best_time = 0;
  std::string times;
  for (Plan& plan : plans) {
    const auto taken =
        time(context, plan, p, {operands.a, operands.b, y, operands.beside, operands.before});
    if (!taken) continue;
    times += fmt::format(" {}{:.2f}", label_of(plan), *taken);
    if (best && *taken > 0.97 * best_time) continue;
    best = &plan;
    best_time = *taken;
  }
  if (!best) refuse(p, y.dtype);
  plan_file(context).store(key, fmt::format("{} us{}", choice_of(*best), times));
  best->raced = true;
  return std::move(*best);
}

// The race, or the first suggestion where there is no memory for one.
Plan searched(Context& context, const Product& p, const ProductOperands& operands,
              const std::string& key) {
  try {
    return raced(context, p, operands, key);
  } catch (const OutOfMemory&) {
    Plan plan = suggested(context, p, operands);
    plan.raced = true;  // as far as it can be
    return plan;
  }
}

Plan& plan_for(Context& context, const Product& p, const ProductOperands& operands) {
  // Never destroyed: at the process's end the libraries may be gone first.
  static auto& of_devices = *new std::array<std::unordered_map<Key, Plan, KeyHash>, 256>;
  auto& plans = of_devices[size_t(context.index)];
  const Key key = key_of(context, p, operands);
  const auto found = plans.find(key);
  const bool measure = compute_mode().plans == PlanSearch::measure;
  if (found != plans.end() && (!measure || found->second.raced)) return found->second;
  context.capture_gate.refuse_capture("a matrix product's plan is chosen", run_once_before);
  const std::string name = name_of(key, operands.y.dtype);
  std::optional<Plan> plan;
  if (const auto choice = plan_file(context).find(name)) {
    plan = restored(context, p, operands, *choice);
  }
  if (!plan && measure) plan = searched(context, p, operands, name);
  if (!plan) plan = suggested(context, p, operands);
  constexpr size_t most_plans = 4096;  // sizes that change at every step must not fill the memory
  if (plans.size() >= most_plans) plans.clear();
  return plans.insert_or_assign(key, std::move(*plan)).first->second;
}

}  // namespace

void multiply(Context& context, const Product& product, const ProductOperands& operands) {
  Plan& plan = plan_for(context, product, operands);
  const cublasStatus_t status = try_run(context, plan, product, operands);
  check(status, "cublasLtMatmul");
}

}  // namespace adret::cuda

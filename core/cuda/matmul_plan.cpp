// The table of plans, their making and their race.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/matmul_plan.h>
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

void destroy_descriptor(cublasLtMatmulDesc_t value) { cublas().cublasLtMatmulDescDestroy(value); }
void destroy_layout(cublasLtMatrixLayout_t value) { cublas().cublasLtMatrixLayoutDestroy(value); }
void destroy_preference(cublasLtMatmulPreference_t value) {
  cublas().cublasLtMatmulPreferenceDestroy(value);
}
using Descriptor = Handle<cublasLtMatmulDesc_t, destroy_descriptor>;
using Layout = Handle<cublasLtMatrixLayout_t, destroy_layout>;
using Preference = Handle<cublasLtMatmulPreference_t, destroy_preference>;

// A way to compute a product, ready to run.
struct Plan {
  Descriptor operation;
  Layout a, b, y;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace_bytes = 0;
  bool fused = true;           // the operation has the product's epilogue
  const void* bias = nullptr;  // that the operation points to
  bool own = false;            // our own kernel, without any of the above
  bool raced = false;
};

Plan own_plan() {
  Plan plan;
  plan.own = true;
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
constexpr uint64_t without_device = (uint64_t(1) << 50) - 1;

Key key_of(const Context& context, const Product& p, const ProductOperands& operands) {
  uint64_t bits = 0;
  const auto add = [&](uint64_t value, int width) { bits = bits << width | value; };
  add(uint64_t(context.index), 8);
  add(workspace_limit(), 26);
  add(uint64_t(operands.y.dtype), 4);
  add(uint64_t(p.epilogue), 3);
  add(uint64_t(p.math), 1);
  add(p.transpose_a, 1);
  add(p.transpose_b, 1);
  add(p.accumulate, 1);
  add(compute_mode().deterministic, 1);
  for (const TensorView* view : {&operands.a, &operands.b, &operands.y, &operands.bias}) {
    add(uint64_t(std::countr_zero(alignment_of(*view))), 3);
  }
  return {p.rows, p.columns, p.depth, p.batch, bits};
}

// -- descriptors ---------------------------------------------------------------------------------

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default:
      throw ShapeError(
          fmt::format("[matmul] runs in floating dtypes, not in {}", adret::name(dtype)));
  }
}

// Factors of the product and of what it is added to, in the type that sums are in.
const void* scalar(DType dtype, bool is_one) {
  static constexpr float floats[] = {0, 1};
  static constexpr double doubles[] = {0, 1};
  return dtype == DType::f64 ? static_cast<const void*>(&doubles[is_one]) : &floats[is_one];
}

// ReLU is left to our own kernel: cuBLASLt's turns NaN into 0, and a model whose weights are NaN
// would train on without a sign of it.
cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
    case Epilogue::relu: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
    case Epilogue::bias_relu: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gradient: return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Whether the product can be computed with and without fusion.
bool has_fusion(const Product& p) { return epilogue_of(p.epilogue) != CUBLASLT_EPILOGUE_DEFAULT; }

template <class T>
void set(const Descriptor& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  ADRET_CHECK(cublas().cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}
template <class T>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
  ADRET_CHECK(cublas().cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
}
template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  ADRET_CHECK(
      cublas().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

void point_to_bias(Plan& plan, const void* bias) {
  set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  plan.bias = bias;
}

// f32 sums in f32, of products of f32 operands that are exact unless TF32 was asked for.
cublasComputeType_t compute_type(DType dtype, MathMode math) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  const bool tf32 = dtype == DType::f32 && math == MathMode::tf32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

Descriptor make_operation(const Product& p, DType dtype, Epilogue epilogue) {
  Descriptor operation;
  ADRET_CHECK(cublas().cublasLtMatmulDescCreate(operation.out(), compute_type(dtype, p.math),
                                                dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(epilogue));
  return operation;
}

// Of a (rows, columns) row-major, `batch` of them in a row.
Layout make_layout(DType dtype, int64_t rows, int64_t columns, int64_t batch) {
  Layout layout;
  ADRET_CHECK(cublas().cublasLtMatrixLayoutCreate(layout.out(), data_type(dtype), uint64_t(columns),
                                                  uint64_t(rows), columns));
  if (batch > 1) {
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns);
  }
  return layout;
}

Plan make_plan(const Product& p, const ProductOperands& operands, bool fused) {
  const DType dtype = operands.y.dtype;
  Plan plan;
  plan.operation = make_operation(p, dtype, fused ? p.epilogue : Epilogue::none);
  plan.a = p.transpose_a ? make_layout(dtype, p.depth, p.rows, p.batch)
                         : make_layout(dtype, p.rows, p.depth, p.batch);
  plan.b = p.transpose_b ? make_layout(dtype, p.columns, p.depth, p.batch)
                         : make_layout(dtype, p.depth, p.columns, p.batch);
  plan.y = make_layout(dtype, p.rows, p.columns, p.batch);
  plan.fused = fused;
  if (fused && operands.bias.defined()) point_to_bias(plan, operands.bias.data);
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
  // Of a bias, only the address's alignment is looked at: the key's, not what it happens to be.
  if (asked.bias) {
    point_to_bias(asked, reinterpret_cast<const void*>(uintptr_t(alignment_of(operands.bias))));
  }
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

// -- our own kernel ------------------------------------------------------------------------------

// Up to `multiply_adds` of them, in sizes that our own kernel takes.
bool is_small(const Product& p, double multiply_adds) {
  return p.rows <= (int64_t(1) << 19) &&
         double(p.rows) * double(p.columns) * double(p.depth) * double(p.batch) <= multiply_adds;
}
constexpr double small_enough_to_race = 1 << 24;
// Where our own kernel is at least level, and saves a launch with ReLU and 6 to 10 us on the host.
constexpr double small_enough_to_win = 1 << 22;

// -- choices on disk -----------------------------------------------------------------------------

PlanFile& plan_file(const Context& context) {
  return PlanFile::of(context, "matmul", cublas().version);
}

std::string name_of(const Key& key, DType dtype) {
  return fmt::format("{} {}x{}x{} batch {} {:x}", adret::name(dtype), key.rows, key.columns,
                     key.depth, key.batch, key.bits & without_device);
}

// The algorithm's words are opaque, and good for the same version of cuBLASLt.
std::string choice_of(const Plan& plan) {
  if (plan.own) return "own";
  std::string text = plan.fused ? "fused" : "apart";
  for (const uint64_t word : plan.algorithm.data) text += fmt::format(" {:x}", word);
  return text;
}

// What a race once chose, if it can still be run.
std::optional<Plan> restored(Context& context, const Product& p, const ProductOperands& operands,
                             const std::string& choice) {
  std::istringstream text(choice);
  std::string way;
  text >> way >> std::hex;
  std::optional<Plan> plan;
  if (way == "own" && is_small(p, small_enough_to_race)) {
    plan = own_plan();
  } else if (way == "fused" || way == "apart") {
    plan = make_plan(p, operands, way == "fused");
    for (uint64_t& word : plan->algorithm.data) text >> word;
    cublasLtMatmulHeuristicResult_t result{};
    if (!text ||
        cublas().cublasLtMatmulAlgoCheck(context.cublas(), plan->operation, plan->b, plan->a,
                                         plan->y, plan->y, &plan->algorithm,
                                         &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > workspace_limit()) {
      return {};
    }
    plan->workspace_bytes = result.workspaceSize;
  }
  if (plan) plan->raced = true;
  return plan;
}

// -- running -------------------------------------------------------------------------------------

// What the product's own kernel did not do: all of the epilogue, or its ReLU.
void run_epilogue(Context& context, const Product& p, const ProductOperands& operands, bool fused) {
  const bool relu = p.epilogue == Epilogue::relu || p.epilogue == Epilogue::bias_relu;
  if (p.epilogue == Epilogue::none || (fused && !relu)) return;
  if (p.epilogue == Epilogue::bias_gradient) {
    return run(context, kernels::Reduce{.x = operands.a, .y = operands.bias, .dims = 1});
  }
  add_bias(context, operands.y, fused ? TensorView() : operands.bias, relu);
}

cublasStatus_t try_run(Context& context, Plan& plan, const Product& p,
                       const ProductOperands& operands) {
  if (plan.own) {
    multiply_small(context, p, operands);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (plan.fused && plan.bias != operands.bias.data) point_to_bias(plan, operands.bias.data);
  std::optional<Workspace> workspace;
  if (plan.workspace_bytes > 0) workspace.emplace(context, plan.workspace_bytes);
  const DType dtype = operands.y.dtype;
  const cublasStatus_t status = cublas().cublasLtMatmul(
      context.cublas(), plan.operation, scalar(dtype, true), operands.b.data, plan.b,
      operands.a.data, plan.a, scalar(dtype, p.accumulate), operands.y.data, plan.y,
      operands.y.data, plan.y, &plan.algorithm, workspace ? workspace->data() : nullptr,
      plan.workspace_bytes, context.compute);
  if (status == CUBLAS_STATUS_SUCCESS) run_epilogue(context, p, operands, plan.fused);
  return status;
}

// -- choosing ------------------------------------------------------------------------------------

Plan suggested(Context& context, const Product& p, const ProductOperands& operands) {
  if (is_small(p, small_enough_to_win)) return own_plan();
  for (const bool fused : {true, false}) {
    std::vector<Plan> plans = suggestions(context, p, operands, fused, 4);
    if (!plans.empty()) return std::move(plans.front());
    if (!has_fusion(p)) break;
  }
  refuse(p, operands.y.dtype);
}

// Microseconds of one run; nothing for a plan that does not run.
std::optional<double> time(Context& context, Plan& plan, const Product& p,
                           const ProductOperands& operands) {
  constexpr int runs = 3;
  if (try_run(context, plan, p, operands) != CUBLAS_STATUS_SUCCESS) return {};
  return Stopwatch(context).microseconds(
      runs, [&] { check(try_run(context, plan, p, operands), "cublasLtMatmul"); });
}

// The fastest on the real operands; a later one has to win by 3 %, which is noise.
Plan raced(Context& context, const Product& p, const ProductOperands& operands,
           const std::string& key) {
  constexpr int most = 8;
  std::vector<Plan> plans = suggestions(context, p, operands, true, most);
  if (has_fusion(p)) {
    for (Plan& plan : suggestions(context, p, operands, false, most)) {
      plans.push_back(std::move(plan));
    }
  }
  if (is_small(p, small_enough_to_race)) plans.push_back(own_plan());
  // What is added to must not change while it is tried.
  std::optional<Workspace> scratch;
  TensorView y = operands.y;
  if (p.accumulate) {
    scratch.emplace(context, size_t(p.batch * p.rows * p.columns) * size_of(y.dtype));
    y.data = scratch->data();
  }
  Plan* best = nullptr;
  double best_time = 0;
  std::string times;  // for whoever reads the file
  for (Plan& plan : plans) {
    const auto taken = time(context, plan, p, {operands.a, operands.b, y, operands.bias});
    if (!taken) continue;
    times += fmt::format(" {}{:.2f}", plan.own ? "own " : plan.fused ? "" : "apart ", *taken);
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

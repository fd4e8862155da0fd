// Attention's calls, and the race between our kernels and cuDNN's engines.
#include <adret/core/compute_mode.h>
#include <adret/core/cuda/attention.h>
#include <adret/core/cuda/attention_plan.h>
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/stopwatch.h>
#include <adret/core/cuda/workspace.h>
#include <adret/core/error.h>

#include <algorithm>
#include <cmath>

namespace adret::cuda {
namespace {

constexpr double least_flops = 0x1p28;  // of a forward pass: less is launching
constexpr int64_t widest = 128;
constexpr size_t most_engines = 3;  // each is compiled, which takes a second
constexpr std::string_view own_name = "own", cudnn_name = "cudnn ";

char* part(const TensorView& packed, int index) {
  const int64_t row = packed.shape[-1] * packed.shape[-2];
  return static_cast<char*>(packed.data) + size_t(index * row) * size_of(packed.dtype);
}

// What both directions have; `dtype` and options that cuDNN has engines for.
template <class Call>
std::optional<AttentionCall> common_call(const Call& call) {
  const TensorView& q = call.q;
  const int64_t width = q.shape[-1];
  const double flops = 4.0 * double(call.y.numel()) * double(call.keys());
  if (size_of(q.dtype) != 2 || width % 8 != 0 || width > widest || call.mask.defined() ||
      call.lengths.defined() || call.attention.dropout > 0 ||
      flops * (call.attention.causal ? 0.5 : 1) < least_flops) {
    return std::nullopt;
  }
  const bool packed = call.packed();
  AttentionCall made{.shape = {.samples = q.shape[0],
                               .heads = q.shape[-2],
                               .queries = q.shape[1],
                               .keys = call.keys(),
                               .width = width,
                               .scale = call.attention.scale,
                               .dtype = q.dtype,
                               .causal = call.attention.causal,
                               .packed = packed,
                               .backward = false,
                               .with_log_sum_exp = call.log_sum_exp.defined()}};
  made.operands = {{attention_id::q, q.data},
                   {attention_id::k, packed ? part(q, 1) : call.k.data},
                   {attention_id::v, packed ? part(q, 2) : call.v.data},
                   {attention_id::y, call.y.data}};
  if (call.log_sum_exp.defined()) {
    made.operands.emplace_back(attention_id::log_sum_exp, call.log_sum_exp.data);
  }
  return made;
}

bool is_aligned(const AttentionCall& call) {
  return std::ranges::all_of(call.operands, [](const auto& operand) {
    return reinterpret_cast<uintptr_t>(operand.second) % 16 == 0;
  });
}

}  // namespace

std::optional<AttentionCall> attention_call(const kernels::AttentionForward& call) {
  std::optional<AttentionCall> made = common_call(call);
  return made && is_aligned(*made) ? made : std::nullopt;
}

std::optional<AttentionCall> attention_call(const kernels::AttentionBackward& call) {
  std::optional<AttentionCall> made = common_call(call);
  // Up to 9.15.0 keys that fill no tile want a mask of lengths.
  if (!made || (cudnn().version <= 91500 && call.keys() % 128 != 0)) return std::nullopt;
  made->shape.backward = true;
  const bool packed = call.packed();
  made->operands.insert(made->operands.end(),
                        {{attention_id::dy, call.dy.data},
                         {attention_id::dq, call.dq.data},
                         {attention_id::dk, packed ? part(call.dq, 1) : call.dk.data},
                         {attention_id::dv, packed ? part(call.dq, 2) : call.dv.data}});
  return is_aligned(*made) ? made : std::nullopt;
}

AttentionPlan::AttentionPlan(EngineConfig config, cudnnHandle_t handle, const AttentionShape& shape)
    : name_(std::string(cudnn_name) + to_string(config)),
      plan_(std::move(config), handle),
      numbers_(new std::array<float, 3>{float(shape.scale), 1, -INFINITY}) {}

void AttentionPlan::run(Context& context, const AttentionCall& call) {
  const AttentionShape& s = call.shape;
  std::vector<int64_t> ids;
  std::vector<void*> data;
  const auto add = [&](int64_t id, void* place) {
    ids.push_back(id);
    data.push_back(place);
  };
  for (const auto& [id, place] : call.operands) add(id, place);
  add(attention_id::scale, &(*numbers_)[0]);
  if (s.causal) add(attention_id::unseen, &(*numbers_)[2]);
  const size_t own_bytes = s.backward ? size_t(s.samples * s.heads * s.queries) * sizeof(float) : 0;
  const size_t behind = (own_bytes + 255) / 256 * 256;
  std::optional<Workspace> workspace;
  char* memory = nullptr;
  if (behind + size_t(plan_.workspace()) > 0) {
    workspace.emplace(context, behind + size_t(plan_.workspace()));
    memory = workspace->as<char>();
  }
  if (s.backward) {
    add(attention_id::means, memory);
    add(attention_id::one, &(*numbers_)[1]);
  }
  plan_.run(context.cudnn(), ids, data, memory + behind);
}

AttentionPlans& AttentionPlans::of(Context& context) {
  static std::array<AttentionPlans*, 256> all{};  // by the device's number
  AttentionPlans*& plans = all[size_t(context.index)];
  if (!plans) {
    plans = new AttentionPlans(context, &PlanFile::of(context, "attention", cudnn().version));
  }
  return *plans;
}

void AttentionPlans::run(const AttentionCall& call, const std::function<void()>& own) {
  auto found = plans_.find(call.shape);
  const bool races = compute_mode().plans == PlanSearch::measure;
  if (found == plans_.end() || (races && !found->second.was_chosen)) {
    context_.capture_gate.refuse_capture("attention's plan is chosen", run_once_before);
    found = plans_.insert_or_assign(call.shape, choose(call, own)).first;
  }
  std::optional<AttentionPlan>& plan = found->second.plan;
  if (!plan) return own();
  try {
    plan->run(context_, call);
  } catch (const OutOfMemory&) {
    if (context_.capture_gate.is_capturing()) throw;
    plan.reset();  // ours needs next to nothing
    own();
  }
}

AttentionPlans::Entry AttentionPlans::choose(const AttentionCall& call,
                                             const std::function<void()>& own) {
  const std::string key = to_string(call.shape);
  std::string choice = file_ ? file_->find(key).value_or("") : "";
  if (choice == own_name) return {.was_chosen = true};
  if (choice.starts_with(cudnn_name)) {
    try {
      const cudnnHandle_t handle = context_.cudnn();
      EngineConfig config =
          attention_graph(call.shape, handle).config(choice.substr(cudnn_name.size()));
      return {AttentionPlan(std::move(config), handle, call.shape), true};
    } catch (const DeviceError&) {
      // A damaged line, or an engine that is gone.
    }
  }
  if (compute_mode().plans != PlanSearch::measure) return {};
  Entry winner = race(call, own);
  if (file_) file_->store(key, winner.plan ? winner.plan->name() : std::string(own_name));
  return winner;
}

std::vector<AttentionPlans::Sample> AttentionPlans::measure_all(const AttentionCall& call,
                                                                const std::function<void()>& own) {
  std::vector<Sample> samples;
  race(call, own, &samples);
  return samples;
}

AttentionPlans::Entry AttentionPlans::race(const AttentionCall& call,
                                           const std::function<void()>& own,
                                           std::vector<Sample>* samples) {
  Stopwatch stopwatch(context_);
  const auto time = [&](const std::string& name, const auto& launch) {
    launch();  // loads it
    ADRET_CHECK(cudaStreamSynchronize(context_.compute));
    std::array<double, 5> times;
    for (double& t : times) t = stopwatch.microseconds(2, launch);
    std::ranges::sort(times);
    if (samples) samples->push_back({name, times[2]});
    return times[2];
  };
  double best = time(std::string(own_name), own);
  Entry winner{.was_chosen = true};
  const auto limit = int64_t(compute_mode().workspace_limit);
  try {
    const cudnnHandle_t handle = context_.cudnn();
    const Graph graph = attention_graph(call.shape, handle);
    size_t tried = 0;
    for (EngineConfig& engine : graph.suggestions(CUDNN_HEUR_MODE_A)) {
      if (engine.workspace > limit || tried++ == most_engines) continue;
      try {
        AttentionPlan plan(std::move(engine), handle, call.shape);
        const double t = time(plan.name(), [&] { plan.run(context_, call); });
        if (t < best) {
          best = t;
          winner.plan = std::move(plan);
        }
      } catch (const DeviceError&) {
        // An engine that does not do what it said.
      } catch (const OutOfMemory&) {
        // One with less workspace may do.
      }
    }
  } catch (const DeviceError&) {
    // A graph that this cuDNN does not take.
  }
  return winner;
}

void run(Context& context, const kernels::AttentionForward& call) {
  if (call.y.numel() == 0) return;
  const std::optional<AttentionCall> other = attention_call(call);
  if (!other) return attend(context, call);
  AttentionPlans::of(context).run(*other, [&] { attend(context, call); });
}

void run(Context& context, const kernels::AttentionBackward& call) {
  if (call.q.numel() == 0 && call.k.numel() == 0) return;
  const std::optional<AttentionCall> other = attention_call(call);
  if (!other) return attend(context, call);
  AttentionPlans::of(context).run(*other, [&] { attend(context, call); });
}

}  // namespace adret::cuda

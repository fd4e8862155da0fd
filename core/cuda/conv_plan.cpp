// Finding of plans: the order in which candidates are asked for, tried and raced.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/conv_plan.h>
#include <adret/core/cuda/libraries.h>
#include <adret/core/cuda/matmul_plan.h>
#include <adret/core/cuda/stopwatch.h>
#include <adret/core/cuda/workspace.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <set>

namespace adret::cuda {
namespace {

// A race goes on while it may: engines load when they first run, up to 0.1 s each.
constexpr double longest_race = 0.22, long_race = 0.1;  // seconds
constexpr int enough_tries = 12;                        // of a long race
constexpr size_t few = 3;                               // suggestions
constexpr double hopeless = 1.3;                        // times the best
constexpr double tie = 1.03;
constexpr double events = 2;  // microseconds that a single run may seem longer

constexpr std::string_view measured = "measured ", suggested = "suggested ";
constexpr std::string_view fused_name = "cudnn ", separate_name = "cudnn+bias ",
                           direct_name = "direct ";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// What may be a plan: an engine, or one of our kernels.
struct Candidate {
  std::shared_ptr<const Graph> graph;  // the engine's
  EngineConfig engine;
  bool fused = true;  // the engine adds the bias too
  std::optional<DirectKernel> direct;
};

// Engines read 16 bytes at once also of tensors that are described as aligned to fewer.
bool is_aligned(const ConvProblem& problem, bool fused) {
  return std::min({problem.x_alignment, problem.weight_alignment, problem.y_alignment}) == 16 &&
         (!fused || !problem.adds_bias() || problem.bias_alignment == 16);
}

// The engines that cuDNN suggests and the compute mode allows, best first; none where it cannot
// make a graph of the problem.
std::vector<Candidate> suggestions(const ConvProblem& problem, cudnnHandle_t handle,
                                   cudnnBackendHeurMode_t mode, bool fused) {
  std::vector<Candidate> candidates;
  if (!is_aligned(problem, fused)) return candidates;
  try {
    const auto graph = std::make_shared<const Graph>(graph_of(problem, fused), handle);
    for (EngineConfig& engine : graph->suggestions(mode)) {
      if (is_allowed(engine, problem)) candidates.push_back({graph, std::move(engine), fused, {}});
    }
  } catch (const DeviceError&) {
    // Dims or strides that it does not take.
  }
  return candidates;
}

// Whether the bias is in the engine's graph, the better way first. Where ReLU follows, our kernel
// does both in one go.
std::vector<bool> ways_to_add(const ConvProblem& problem) {
  if (!problem.adds_bias()) return {true};
  return problem.relu ? std::vector{false} : std::vector{true, false};
}

// The first ones in cuDNN's order, then one of each further engine, then the others: what is best
// is mostly near the top, and else rarely of an engine that was seen to be slower.
void mix_engines(std::vector<Candidate>& candidates) {
  constexpr size_t trusted = 4;
  std::set<int64_t> seen;
  for (size_t i = 0; i < std::min(trusted, candidates.size()); ++i) {
    seen.insert(candidates[i].engine.engine);
  }
  if (candidates.size() <= trusted) return;
  std::stable_partition(
      candidates.begin() + trusted, candidates.end(),
      [&](const Candidate& candidate) { return seen.insert(candidate.engine.engine).second; });
}

}  // namespace

ConvPlan::ConvPlan(EngineConfig config, cudnnHandle_t handle, bool fused,
                   const ConvProblem& problem)
    : fused_(fused || !problem.adds_bias()),
      name_(std::string(fused_ ? fused_name : separate_name) + to_string(config)) {
  cudnn_.emplace(std::move(config), handle);
  workspace_ = size_t(cudnn_->workspace());
  if (cudnn_->workspace() > problem.workspace_limit) {
    throw DeviceError(fmt::format("[cuda] {} needs {} bytes of workspace, {} are allowed", name_,
                                  workspace_, problem.workspace_limit));
  }
}

ConvPlan::ConvPlan(DirectKernel kernel, const Context& context, const ConvProblem& problem)
    : direct_(kernel),
      workspace_(workspace_of(context, kernel, problem)),
      name_(fmt::format("{}{}", direct_name, int(kernel))) {}

void ConvPlan::run(Context& context, const ConvProblem& problem, const ConvOperands& operands,
                   void* workspace) {
  if (problem.sums_bias() && (cudnn_ || !sums_bias(direct_))) {
    column_sums(context, problem.dtype, operands.y, operands.bias,
                problem.n * problem.oh * problem.ow, problem.o);
  }
  if (!cudnn_) return run_direct(context, direct_, problem, operands, workspace);
  static constexpr std::array<int64_t, 4> ids = {Graph::x_id, Graph::weight_id, Graph::y_id,
                                                 Graph::bias_id};
  const std::array<void*, 4> data = {operands.x, operands.weight, operands.y, operands.bias};
  const size_t count = problem.adds_bias() && fused_ ? 4 : 3;
  cudnn_->run(context.cudnn(), std::span(ids).first(count), std::span(data).first(count),
              workspace);
  if (problem.relu || !fused_) {
    TensorView y, bias;
    y.data = operands.y;
    y.shape = {problem.n * problem.oh * problem.ow, problem.o};
    y.dtype = bias.dtype = problem.dtype;
    bias.data = fused_ ? nullptr : operands.bias;
    bias.shape = {problem.o};
    add_bias(context, y, bias, problem.relu);
  }
}

ConvPlanCache& ConvPlanCache::of(Context& context) {
  static std::array<ConvPlanCache*, 256> caches{};  // by the device's number
  ConvPlanCache*& cache = caches[size_t(context.index)];
  if (!cache) {
    cache = new ConvPlanCache(context, &PlanFile::of(context, "conv", cudnn().version));
  }
  return *cache;
}

size_t ConvPlanCache::Hash::operator()(const ConvProblem& problem) const {
  std::array<uint64_t, sizeof(ConvProblem) / 8> words;
  static_assert(sizeof(words) == sizeof(problem));
  std::memcpy(words.data(), &problem, sizeof(problem));
  uint64_t hash = 0;
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

ConvPlan& ConvPlanCache::find(const ConvProblem& problem, const ConvOperands& operands) {
  auto found = plans_.find(problem);
  if (found == plans_.end()) {
    context_.capture_gate.refuse_capture("a convolution's plan is chosen", run_once_before);
    if (plans_.size() >= most_plans) drop_oldest();
    found = plans_.emplace(problem, Entry{search(problem, operands), 0}).first;
  }
  found->second.used = ++finds_;
  return found->second.plan;
}

// Half of them, so that it is rarely done.
void ConvPlanCache::drop_oldest() {
  std::vector<uint64_t> used;
  for (const auto& [problem, entry] : plans_) used.push_back(entry.used);
  const auto middle = used.begin() + long(used.size() / 2);
  std::nth_element(used.begin(), middle, used.end());
  std::erase_if(plans_, [&](const auto& plan) { return plan.second.used < *middle; });
}

void ConvPlanCache::run(const ConvProblem& problem, const ConvOperands& operands) {
  for (ConvPlan* plan = &find(problem, operands);;) {
    if (plan->workspace() == 0) return plan->run(context_, problem, operands, nullptr);
    std::optional<Workspace> workspace;
    try {
      workspace.emplace(context_, plan->workspace());
    } catch (const OutOfMemory&) {
      if (context_.capture_gate.is_capturing()) throw;
      // The one with less stays for the next calls: asking in vain empties the pool's cache. The
      // last resort needs nothing.
      ConvProblem smaller = problem;
      smaller.workspace_limit = int64_t(plan->workspace()) - 1;
      *plan = first_suggestion(smaller);
      continue;
    }
    return plan->run(context_, problem, operands, workspace->data());
  }
}

ConvPlan ConvPlanCache::search(const ConvProblem& problem, const ConvOperands& operands) {
  const std::string key = file_ ? to_string(problem) : "";
  const std::string choice = file_ ? file_->find(key).value_or("") : "";
  if (std::optional<ConvPlan> plan = from_text(problem, choice, measured)) return std::move(*plan);
  const bool races = problem.search == PlanSearch::measure;
  if (!races) {
    if (const std::optional<DirectKernel> direct = direct_favourite(context_, problem)) {
      return ConvPlan(*direct, context_, problem);
    }
    if (std::optional<ConvPlan> plan = from_text(problem, choice, suggested)) {
      return std::move(*plan);
    }
  }
  if (races) {
    if (std::optional<ConvPlan> winner = race(problem, operands)) {
      if (file_) file_->store(key, std::string(measured) + winner->name());
      return std::move(*winner);
    }
  }
  ConvPlan plan = first_suggestion(problem);
  // A kernel of ours stands in for engines that failed, perhaps for want of memory just now.
  if (file_ && !plan.name().starts_with(direct_name)) {
    file_->store(key, std::string(suggested) + plan.name());
  }
  return plan;
}

std::optional<ConvPlan> ConvPlanCache::from_text(const ConvProblem& problem, std::string_view text,
                                                 std::string_view origin) {
  const auto takes = [&](std::string_view prefix) {
    const bool there = text.starts_with(prefix);
    if (there) text.remove_prefix(prefix.size());
    return there;
  };
  if (!takes(origin)) return std::nullopt;
  if (takes(direct_name)) {
    for (const DirectKernel kernel : direct_kernels) {
      if (text == std::to_string(int(kernel)) && can_run(context_, kernel, problem)) {
        return ConvPlan(kernel, context_, problem);
      }
    }
    return std::nullopt;
  }
  const bool separate = takes(separate_name);
  if (!separate && !takes(fused_name)) return std::nullopt;
  try {
    const cudnnHandle_t handle = context_.cudnn();
    const Graph graph(graph_of(problem, !separate), handle);
    EngineConfig engine = graph.config(text);
    if (!is_allowed(engine, problem)) return std::nullopt;
    return ConvPlan(std::move(engine), handle, !separate, problem);
  } catch (const DeviceError&) {
    return std::nullopt;  // a damaged line, or an engine that is gone
  }
}

ConvPlan ConvPlanCache::first_suggestion(const ConvProblem& problem) {
  if (const std::optional<DirectKernel> direct = direct_favourite(context_, problem)) {
    return ConvPlan(*direct, context_, problem);
  }
  const cudnnHandle_t handle = context_.cudnn();
  std::vector<Candidate> compiled_at_run_time;
  const auto first_of = [&](std::vector<Candidate>& candidates) -> std::optional<ConvPlan> {
    for (Candidate& candidate : candidates) {
      try {
        return ConvPlan(std::move(candidate.engine), handle, candidate.fused, problem);
      } catch (const DeviceError&) {
        // The next one.
      }
    }
    return std::nullopt;
  };
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const bool fused : ways_to_add(problem)) {
      std::vector<Candidate> candidates = suggestions(problem, handle, mode, fused);
      const auto middle = std::stable_partition(
          candidates.begin(), candidates.end(),
          [](const Candidate& candidate) { return !candidate.engine.is_compiled_at_run_time(); });
      std::move(middle, candidates.end(), std::back_inserter(compiled_at_run_time));
      candidates.erase(middle, candidates.end());
      if (std::optional<ConvPlan> plan = first_of(candidates)) return std::move(*plan);
    }
  }
  // Compiling takes seconds, once; ours may be slow each time.
  if (std::optional<ConvPlan> plan = first_of(compiled_at_run_time)) return std::move(*plan);
  for (const DirectKernel kernel : {DirectKernel::depthwise, DirectKernel::tiled}) {
    if (can_run(context_, kernel, problem)) return ConvPlan(kernel, context_, problem);
  }
  return ConvPlan(DirectKernel::general, context_, problem);
}

// The candidates of a problem, and their times on its operands.
class ConvPlanCache::Race {
 public:
  Race(Context& context, const ConvProblem& problem, const ConvOperands& operands)
      : context_(context), problem_(problem), operands_(operands), stopwatch_(context) {
    for (const DirectKernel kernel : direct_kernels) {
      if (can_run(context, kernel, problem) && can_win(kernel, problem)) {
        candidates_.push_back({.direct = kernel});
      }
    }
    const size_t own = candidates_.size();
    for (const bool fused : ways_to_add(problem)) {
      if (candidates_.size() - own < few) add_suggestions(CUDNN_HEUR_MODE_A, fused);
    }
  }

  void add_suggestions(cudnnBackendHeurMode_t mode, bool fused) {
    std::vector<Candidate> more = suggestions(problem_, context_.cudnn(), mode, fused);
    std::erase_if(more, [](const Candidate& candidate) {
      return candidate.engine.is_compiled_at_run_time();
    });
    mix_engines(more);
    std::move(more.begin(), more.end(), std::back_inserter(candidates_));
  }

  size_t size() const { return candidates_.size(); }
  std::vector<Entrant>& entrants() { return entrants_; }

  // Times candidate i, which is used up; what fails is left out.
  void run(size_t i, bool thoroughly) {
    Candidate& candidate = candidates_[i];
    try {
      ConvPlan plan = candidate.direct ? ConvPlan(*candidate.direct, context_, problem_)
                                       : ConvPlan(std::move(candidate.engine), context_.cudnn(),
                                                  candidate.fused, problem_);
      std::optional<Workspace> workspace;
      if (plan.workspace() > 0) workspace.emplace(context_, plan.workspace());
      const auto launch = [&] {
        plan.run(context_, problem_, operands_, workspace ? workspace->data() : nullptr);
      };
      launch();  // loads it
      ADRET_CHECK(cudaStreamSynchronize(context_.compute));
      double time = stopwatch_.microseconds(1, launch);
      if (!thoroughly && time > hopeless * best_ + events) return;
      // Short kernels several times, so that the events count less.
      const int runs = std::clamp(int(60 / std::max(time, 1.0)), 1, 6);
      std::array<double, 5> times;
      const size_t samples = thoroughly ? 5 : 2;
      for (size_t s = 0; s < samples; ++s) times[s] = stopwatch_.microseconds(runs, launch);
      std::sort(times.begin(), times.begin() + long(samples));
      time = thoroughly ? times[2] : times[0];
      best_ = std::min(best_, time);
      entrants_.push_back({std::move(plan), time});
    } catch (const DeviceError&) {
      // An engine that does not do what it said.
    } catch (const OutOfMemory&) {
      // One with less workspace may do.
    }
  }

 private:
  Context& context_;
  const ConvProblem& problem_;
  const ConvOperands& operands_;
  Stopwatch stopwatch_;
  std::vector<Candidate> candidates_;
  std::vector<Entrant> entrants_;
  double best_ = 1e30;  // microseconds
};

std::optional<ConvPlan> ConvPlanCache::race(const ConvProblem& problem,
                                            const ConvOperands& operands) {
  Race race(context_, problem, operands);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < race.size(); ++i) {
    const double seconds = seconds_since(start);
    const bool has_one = !race.entrants().empty();
    if (has_one && (seconds > longest_race || (seconds > long_race && i >= enough_tries))) break;
    race.run(i, false);
  }
  std::vector<Entrant>& entrants = race.entrants();
  if (entrants.empty()) return std::nullopt;
  const auto by_time = [](const Entrant& a, const Entrant& b) {
    return a.microseconds < b.microseconds;
  };
  const double best = std::min_element(entrants.begin(), entrants.end(), by_time)->microseconds;
  // Of those that are as good as the best, the one with the least workspace.
  std::erase_if(entrants, [&](const Entrant& e) { return e.microseconds > tie * best; });
  const auto winner =
      std::min_element(entrants.begin(), entrants.end(), [](const Entrant& a, const Entrant& b) {
        return std::pair(a.plan.workspace(), a.microseconds) <
               std::pair(b.plan.workspace(), b.microseconds);
      });
  return std::move(winner->plan);
}

std::vector<ConvSample> ConvPlanCache::measure_all(const ConvProblem& problem,
                                                   const ConvOperands& operands) {
  Race race(context_, problem, operands);
  for (size_t i = 0; i < race.size(); ++i) race.run(i, true);
  std::vector<ConvSample> samples;
  for (const Entrant& entrant : race.entrants()) {
    samples.push_back({entrant.plan.name(), entrant.microseconds, entrant.plan.workspace()});
  }
  return samples;
}

}  // namespace adret::cuda

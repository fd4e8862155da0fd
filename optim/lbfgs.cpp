// L-BFGS on flat vectors of all parameters, led by the host.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/step_trace.h>
#include <adret/core/error.h>
#include <adret/optim/lbfgs.h>
#include <adret/optim/line_search.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace adret {
namespace {

enum Column { lr, max_iter, max_eval, tolerance_grad, tolerance_change, history_size, searches };

void check_count(const char* what, double value, double least) {
  check_range("lbfgs", what, value, least, 1e9);
  if (value != std::floor(value)) {
    throw Error(fmt::format("[lbfgs] {} is {}; it must be a whole number", what, value));
  }
}

void check_row(const std::vector<double>& row) {
  check_range("lbfgs", "lr", row[Column::lr], 0);
  check_count("max_iter", row[Column::max_iter], 1);
  check_count("max_eval", row[Column::max_eval], 1);
  check_range("lbfgs", "tolerance_grad", row[Column::tolerance_grad], 0);
  check_range("lbfgs", "tolerance_change", row[Column::tolerance_change], 0);
  check_count("history_size", row[Column::history_size], 1);
}

const std::vector<std::shared_ptr<Parameter>>& checked(
    const std::vector<std::shared_ptr<Parameter>>& parameters) {
  const Parameter* first = nullptr;
  for (const auto& parameter : parameters) {
    if (!parameter->value.defined()) continue;
    if (!first) first = parameter.get();
    const DType dtype = parameter->value.dtype();
    if (dtype == first->value.dtype() && size_of(dtype) > 2) continue;
    throw Error(fmt::format(
        "[lbfgs] the parameter \"{}\" is {}; all must be f32 or all f64: convert the model with "
        "to(DType::f32)",
        parameter->name, name(dtype)));
  }
  return parameters;
}

double number(const Tensor& scalar) { return scalar.detach().to(DType::f64).item<double>(); }
double dot(const Tensor& a, const Tensor& b) { return number(sum(a * b)); }
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : number(max(abs(x))); }

}  // namespace

// What a run must restore beside the vectors: a record of f64.
struct Lbfgs::Progress {
  double iterations = 0, evaluations = 0;  // of the whole run
  double t = 0;                            // of the last move
  double scale = 1;                        // of the identity that the inverse Hessian starts from
  double pairs = 0;                        // remembered so far; the last history_size are there
  std::vector<double> inverse_products;    // 1 / (change . move) of each place in the history
};

Lbfgs::Lbfgs(const std::vector<std::shared_ptr<Parameter>>& parameters, const LbfgsOptions& options)
    : Optimizer(
          {.name = "lbfgs",
           .columns = {"lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change",
                       "history_size", "strong_wolfe"},
           .check = check_row,
           .states = [](const std::vector<Row>& rows) -> std::vector<StateSpec> {
             const auto history = int64_t(rows[0][Column::history_size]);
             std::vector<StateSpec> specs = {
                 {.name = "progress", .kind = StateKind::record, .length = 5 + history},
                 {.name = "direction"},
                 {.name = "gradient"}};
             for (int64_t i = 0; i < history; ++i) {
               specs.push_back({.name = fmt::format("move_{}", i)});
               specs.push_back({.name = fmt::format("change_{}", i)});
             }
             return specs;
           }},
          std::vector<ParameterGroup<LbfgsOptions>>{{checked(parameters), options}},
          +[](const LbfgsOptions& o) {
            const int64_t evaluations = o.max_eval == 0 ? o.max_iter * 5 / 4 : o.max_eval;
            return Row{o.lr,
                       double(o.max_iter),
                       double(evaluations),
                       o.tolerance_grad,
                       o.tolerance_change,
                       double(o.history_size),
                       double(o.line_search == LineSearch::strong_wolfe)};
          }) {}

void Lbfgs::run_step() {
  throw Error(
      "[lbfgs] a step evaluates the loss several times; give it the function that does: "
      "step([&] { zero_grad(); loss = ...; loss.backward(); return loss; })");
}

double Lbfgs::step(const Closure& closure) {
  if (!closure) {
    throw Error(
        "[lbfgs] the closure is empty; give step() the function that computes loss and gradients");
  }
  if (StepTrace::current()) {
    throw Error(
        "[lbfgs] a step of L-BFGS reads losses on the host, so it cannot be part of a recorded "
        "Step; call it outside, or use StepMode::eager");
  }
  const NameScope scope("lbfgs");
  const NoGrad no_grad;
  const Row& options = row(0);
  Progress progress = read_progress();
  Evaluation now = evaluate(closure);
  const double loss_at_first = now.loss, evaluations_before = progress.evaluations++;
  bool done = largest(now.gradient) <= options[Column::tolerance_grad];
  for (int64_t i = 1; !done; ++i) {
    const Tensor direction = next_direction(now.gradient, progress);
    const double slope = dot(now.gradient, direction), loss_before = now.loss;
    progress.t = options[Column::lr];
    if (progress.iterations == 1) progress.t *= std::min(1.0, 1 / number(sum(abs(now.gradient))));
    if (!(slope <= -options[Column::tolerance_change])) break;
    const bool last = double(i) == options[Column::max_iter];
    if (options[Column::searches] != 0) {
      now = search(closure, direction, now, slope, progress);
    } else {
      move_to(flat(arena().values()) + direction * progress.t);
      if (last) break;
      now = evaluate(closure);
      ++progress.evaluations;
    }
    done = last || progress.evaluations - evaluations_before >= options[Column::max_eval] ||
           ends(now, loss_before, direction, progress);
  }
  write_progress(progress);
  return loss_at_first;
}

bool Lbfgs::ends(const Evaluation& now, double loss_before, const Tensor& direction,
                 const Progress& progress) const {
  const Row& options = row(0);
  return largest(now.gradient) <= options[Column::tolerance_grad] ||
         largest(direction * progress.t) <= options[Column::tolerance_change] ||
         std::abs(now.loss - loss_before) < options[Column::tolerance_change];
}

Lbfgs::Evaluation Lbfgs::evaluate(const Closure& closure) {
  Evaluation now;
  {
    const GradMode recording(true);
    now.loss = number(closure());
  }
  if (arena().awaits_unscale() || arena().decided_on_device()) {
    throw Error("[lbfgs] loss scaling does not go with L-BFGS; train in f32 without it");
  }
  check_decided();
  check_strays(arena().collect());
  now.gradient = flat(arena().gradients()).clone();
  for (size_t i = 0; i < arena().parameters().size(); ++i) {
    if (!arena().parameters()[i]->value.grad().defined())
      fill_(arena().state_of(now.gradient, i), 0);
  }
  return now;
}

// Along the direction; the model ends at the point that is returned.
Lbfgs::Evaluation Lbfgs::search(const Closure& closure, const Tensor& direction,
                                const Evaluation& start, double slope, Progress& progress) {
  const Tensor values = flat(arena().values()).clone();
  const auto along = [&](double t) {
    move_to(values + direction * t);
    const Evaluation there = evaluate(closure);
    ++progress.evaluations;
    return LinePoint{.t = t,
                     .value = there.loss,
                     .slope = dot(there.gradient, direction),
                     .gradient = there.gradient};
  };
  const LinePoint from{.value = start.loss, .slope = slope, .gradient = start.gradient};
  const double narrowest = row(0)[Column::tolerance_change] / largest(direction);
  const LinePoint to = strong_wolfe(along, from, progress.t, narrowest);
  move_to(values + direction * to.t);
  progress.t = to.t;
  return {.loss = to.value, .gradient = to.gradient};
}

// Takes the last move and the change of the gradient into the history.
void Lbfgs::remember(const Tensor& gradient, Progress& progress) const {
  const Tensor change = gradient - flat(state_tensor("gradient"));
  const Tensor move = flat(state_tensor("direction")) * progress.t;
  const double product = dot(change, move);
  if (!(product > 1e-10)) return;
  const auto next = int64_t(progress.pairs++);
  copy_(pair("move", next), move);
  copy_(pair("change", next), change);
  progress.inverse_products[size_t(next) % progress.inverse_products.size()] = 1 / product;
  progress.scale = product / dot(change, change);
}

// The two loops of algorithm 7.4.
Tensor Lbfgs::next_direction(const Tensor& gradient, Progress& progress) const {
  if (progress.iterations++ > 0) remember(gradient, progress);
  const auto history = int64_t(progress.inverse_products.size()), end = int64_t(progress.pairs);
  const int64_t begin = std::max<int64_t>(0, end - history);
  const auto inverse = [&](int64_t i) { return progress.inverse_products[size_t(i % history)]; };
  std::vector<double> shares(size_t(end - begin));
  Tensor direction = -gradient;
  for (int64_t i = end; i-- > begin;) {
    const double share = dot(pair("move", i), direction) * inverse(i);
    shares[size_t(i - begin)] = share;
    direction = direction - pair("change", i) * share;
  }
  direction = direction * progress.scale;
  for (int64_t i = begin; i < end; ++i) {
    const double other = dot(pair("change", i), direction) * inverse(i);
    direction = direction + pair("move", i) * (shares[size_t(i - begin)] - other);
  }
  copy_(flat(state_tensor("direction")), direction);
  copy_(flat(state_tensor("gradient")), gradient);
  return direction;
}

Lbfgs::Progress Lbfgs::read_progress() const {
  const std::vector<double> record = state_tensor("progress").to_vector<double>();
  return {.iterations = record[0],
          .evaluations = record[1],
          .t = record[2],
          .scale = record[0] == 0 ? 1 : record[3],
          .pairs = record[4],
          .inverse_products = {record.begin() + 5, record.end()}};
}

void Lbfgs::write_progress(const Progress& progress) const {
  std::vector<double> record = {progress.iterations, progress.evaluations, progress.t,
                                progress.scale, progress.pairs};
  record.insert(record.end(), progress.inverse_products.begin(), progress.inverse_products.end());
  upload(state_tensor("progress"), record.data());
}

void Lbfgs::move_to(const Tensor& values) const {
  copy_(flat(arena().values()), values);
  for (const auto& parameter : arena().parameters()) parameter->value.bump_version();
}

// Values, gradients and state lie alike, as all have one dtype; what is between them is 0.
Tensor Lbfgs::flat(const Tensor& arena_tensor) const {
  const DType dtype = arena().parameters()[0]->value.dtype();
  return arena_tensor.segment({int64_t(arena_tensor.bytes() / size_of(dtype))}, 0, dtype);
}

Tensor Lbfgs::pair(const char* kind, int64_t number) const {
  const int64_t place = number % int64_t(row(0)[Column::history_size]);
  return flat(state_tensor(fmt::format("{}_{}", kind, place)));
}

}  // namespace adret

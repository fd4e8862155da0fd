// A quasi-Newton method for problems without noise, as full batches.
#pragma once

#include <adret/optim/optimizer.h>

#include <functional>
#include <vector>

namespace adret {

enum class LineSearch { none, strong_wolfe };

struct LbfgsOptions {
  double lr = 1;                   // the step's length, with a line search its first guess
  int64_t max_iter = 20;           // iterations of a step
  int64_t max_eval = 0;            // evaluations that end a step; 0: 1.25 * max_iter
  double tolerance_grad = 1e-7;    // ends when no gradient's element is larger
  double tolerance_change = 1e-9;  // ends when values or the loss change less
  int64_t history_size = 100;      // pairs kept, two tensors of all parameters' size each
  LineSearch line_search = LineSearch::none;
};

// Limited-memory BFGS (Nocedal and Wright 2006, algorithm 7.5), as PyTorch: each iteration moves
// all parameters by t * d, d being the gradient times minus an inverse Hessian estimated from the
// last history_size moves, t = lr (in the first iteration times min(1, 1 / |gradient|_1)) or by a
// line search.
//
//   Lbfgs optimizer(net, {.line_search = LineSearch::strong_wolfe});
//   for (int i = 0; i < 10; ++i) {
//     optimizer.step([&] {
//       optimizer.zero_grad();
//       Tensor loss = cross_entropy(net(images), labels);
//       loss.backward();
//       return loss;
//     });
//   }
//
// The host decides by losses and products that it reads, so a step waits for the device often and
// cannot be part of a recorded Step; trainers, clipping and loss scaling do not go with it.
class Lbfgs final : public Optimizer {
 public:
  using Closure = std::function<Tensor()>;  // computes gradients anew, and returns the loss

  // Throws Error for options out of range and for parameters that are not all f32 or all f64, and
  // as ParameterArena.
  explicit Lbfgs(const Module& model, const LbfgsOptions& options = {})
      : Lbfgs(model.parameters(), options) {}
  explicit Lbfgs(const std::vector<std::shared_ptr<Parameter>>& parameters,
                 const LbfgsOptions& options = {});

  // Up to max_iter iterations; returns the loss before them. Throws Error for an empty closure,
  // within a recorded Step and after LossScaler::unscale.
  double step(const Closure& closure);

 private:
  struct Progress;
  struct Evaluation {
    double loss = 0;
    Tensor gradient;  // of all parameters, flat; 0 for one without
  };

  void run_step() override;  // throws Error
  Evaluation evaluate(const Closure& closure);
  Evaluation search(const Closure& closure, const Tensor& direction, const Evaluation& start,
                    double slope, Progress& progress);
  Tensor next_direction(const Tensor& gradient, Progress& progress) const;
  void remember(const Tensor& gradient, Progress& progress) const;
  bool ends(const Evaluation& now, double loss_before, const Tensor& direction,
            const Progress& progress) const;
  Progress read_progress() const;
  void write_progress(const Progress& progress) const;
  void move_to(const Tensor& values) const;
  Tensor flat(const Tensor& arena) const;
  Tensor pair(const char* kind, int64_t number) const;
};

}  // namespace adret

// Momentum orthogonalised by Newton and Schulz's iteration, for weights that are matrices.
#pragma once

#include <adret/optim/optimizer.h>

#include <vector>

namespace adret {

struct MuonOptions {
  double lr = 0.02;        // of an update whose singular values are near 1
  double momentum = 0.95;  // in 0..1
  bool nesterov = true;
  double weight_decay = 0;  // value -= lr * weight_decay * value, apart from the update
  // Scales each weight to the norm sqrt(rows) before the update, so that its size relative to the
  // update stays as it is.
  bool normalize = false;
  int iterations = 5;  // of Newton and Schulz, in 1..20; no part of the saved state
};

// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"): the
// momentum of a weight (rows, ...), taken as a matrix (rows, columns), is replaced by nearly the
// closest matrix of orthonormal rows or columns: its singular values come to lie in about 0.7..1.2.
// For convolutions and hidden linear layers; biases, norms and the first and last layer belong to
// another optimizer, such as Sgd.
//
// The iteration runs in the parameters' dtype, from X = momentum / |momentum|:
//   X <- a X + (b G + c G G) X with G = X X^T and a = 3.4445, b = -4.7750, c = 2.0315
class Muon final : public Optimizer {
 public:
  // Throws Error for options out of range and for parameters of less than two dimensions, and as
  // ParameterArena.
  Muon(const Module& model, const MuonOptions& options) : Muon({{model.parameters(), options}}) {}
  explicit Muon(const std::vector<ParameterGroup<MuonOptions>>& groups);

 private:
  void run_step() override;
  void update(size_t parameter);

  std::vector<int> iterations_;  // of each group
};

}  // namespace adret

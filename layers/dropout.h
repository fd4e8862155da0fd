// Dropout as a layer.
#pragma once

#include <adret/autograd/ops/dropout.h>
#include <adret/layers/module.h>

namespace adret {

// In training zeroes elements with probability p and scales the others by 1 / (1 - p); the identity
// in evaluation.
class Dropout : public Layer<Dropout> {
 public:
  explicit Dropout(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout(x, p, training()); }
  Dropout rebuild() const { return Dropout(p); }

  const double p;
};

// The same for whole channels of sequences (N, L, C); see dropout2d.
class Dropout1d : public Layer<Dropout1d> {
 public:
  explicit Dropout1d(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout2d(x, p, training()); }
  Dropout1d rebuild() const { return Dropout1d(p); }

  const double p;
};

// Of images (N, H, W, C).
class Dropout2d : public Layer<Dropout2d> {
 public:
  explicit Dropout2d(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout2d(x, p, training()); }
  Dropout2d rebuild() const { return Dropout2d(p); }

  const double p;
};

// Of volumes (N, D, H, W, C).
class Dropout3d : public Layer<Dropout3d> {
 public:
  explicit Dropout3d(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return dropout2d(x, p, training()); }
  Dropout3d rebuild() const { return Dropout3d(p); }

  const double p;
};

// Keeps mean 0 and variance 1 in networks of SELU; see alpha_dropout.
class AlphaDropout : public Layer<AlphaDropout> {
 public:
  explicit AlphaDropout(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return alpha_dropout(x, p, training()); }
  AlphaDropout rebuild() const { return AlphaDropout(p); }

  const double p;
};

// The same for whole channels; see feature_alpha_dropout.
class FeatureAlphaDropout : public Layer<FeatureAlphaDropout> {
 public:
  explicit FeatureAlphaDropout(double p = 0.5);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return feature_alpha_dropout(x, p, training()); }
  FeatureAlphaDropout rebuild() const { return FeatureAlphaDropout(p); }

  const double p;
};

// Dropout for whole samples (N, ...); see drop_path.
class DropPath : public Layer<DropPath> {
 public:
  explicit DropPath(double p = 0.1);  // throws Error outside 0..1
  Tensor forward(const Tensor& x) { return drop_path(x, p, training()); }
  DropPath rebuild() const { return DropPath(p); }

  const double p;
};

}  // namespace adret

// Activation functions as layers.
#pragma once

#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/layers/module.h>

namespace adret {

struct ReLU : Layer<ReLU> {
  Tensor forward(const Tensor& x) { return relu(x); }
  ReLU rebuild() const { return ReLU(); }
};

struct ReLU6 : Layer<ReLU6> {
  Tensor forward(const Tensor& x) { return relu6(x); }
  ReLU6 rebuild() const { return ReLU6(); }
};

struct Sigmoid : Layer<Sigmoid> {
  Tensor forward(const Tensor& x) { return sigmoid(x); }
  Sigmoid rebuild() const { return Sigmoid(); }
};

struct Tanh : Layer<Tanh> {
  Tensor forward(const Tensor& x) { return tanh(x); }
  Tanh rebuild() const { return Tanh(); }
};

struct GELU : Layer<GELU> {
  Tensor forward(const Tensor& x) { return gelu(x); }
  GELU rebuild() const { return GELU(); }
};

struct Softmax : Layer<Softmax> {
  explicit Softmax(int dim = -1) : dim(dim) {}
  Tensor forward(const Tensor& x) { return softmax(x, dim); }
  Softmax rebuild() const { return Softmax(dim); }
  const int dim;
};

struct LogSoftmax : Layer<LogSoftmax> {
  explicit LogSoftmax(int dim = -1) : dim(dim) {}
  Tensor forward(const Tensor& x) { return log_softmax(x, dim); }
  LogSoftmax rebuild() const { return LogSoftmax(dim); }
  const int dim;
};

}  // namespace adret

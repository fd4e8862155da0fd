// Activation functions as layers.
#pragma once

#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/shrink.h>
#include <adret/autograd/ops/softmax.h>
#include <adret/layers/module.h>

namespace adret {

// x itself, in the place of a layer.
struct Identity : Layer<Identity> {
  Tensor forward(const Tensor& x) { return x; }
  Identity rebuild() const { return Identity(); }
};

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

enum class GeluForm { exact, tanh };  // tanh: the approximation gelu_tanh

struct GELU : Layer<GELU> {
  explicit GELU(GeluForm form = GeluForm::exact) : form(form) {}
  Tensor forward(const Tensor& x) { return form == GeluForm::exact ? gelu(x) : gelu_tanh(x); }
  GELU rebuild() const { return GELU(form); }
  const GeluForm form;
};

struct SiLU : Layer<SiLU> {
  Tensor forward(const Tensor& x) { return silu(x); }
  SiLU rebuild() const { return SiLU(); }
};

struct Mish : Layer<Mish> {
  Tensor forward(const Tensor& x) { return mish(x); }
  Mish rebuild() const { return Mish(); }
};

struct Softplus : Layer<Softplus> {
  explicit Softplus(const SoftplusOptions& options = {});  // throws Error for a beta of 0
  Tensor forward(const Tensor& x) { return softplus(x, options); }
  Softplus rebuild() const { return Softplus(options); }
  const SoftplusOptions options;
};

struct ELU : Layer<ELU> {
  explicit ELU(double alpha = 1) : alpha(alpha) {}
  Tensor forward(const Tensor& x) { return elu(x, alpha); }
  ELU rebuild() const { return ELU(alpha); }
  const double alpha;
};

struct SELU : Layer<SELU> {
  Tensor forward(const Tensor& x) { return selu(x); }
  SELU rebuild() const { return SELU(); }
};

struct LeakyReLU : Layer<LeakyReLU> {
  explicit LeakyReLU(double slope = 0.01) : slope(slope) {}
  Tensor forward(const Tensor& x) { return leaky_relu(x, slope); }
  LeakyReLU rebuild() const { return LeakyReLU(slope); }
  const double slope;
};

// The slopes of prelu as the parameter "weight": one, or one for each channel, the last dimension
// of x. PyTorch's names and shapes.
class PReLU : public Layer<PReLU> {
 public:
  explicit PReLU(int64_t channels = 1, double slope = 0.25);  // throws Error for no channels
  Tensor forward(const Tensor& x);
  PReLU rebuild() const { return PReLU(channels); }

  const int64_t channels;
  Parameter& weight;
};

struct Hardswish : Layer<Hardswish> {
  Tensor forward(const Tensor& x) { return hardswish(x); }
  Hardswish rebuild() const { return Hardswish(); }
};

struct Hardsigmoid : Layer<Hardsigmoid> {
  Tensor forward(const Tensor& x) { return hardsigmoid(x); }
  Hardsigmoid rebuild() const { return Hardsigmoid(); }
};

struct Hardtanh : Layer<Hardtanh> {
  explicit Hardtanh(double low = -1, double high = 1);  // throws Error unless low <= high
  Tensor forward(const Tensor& x) { return hardtanh(x, low, high); }
  Hardtanh rebuild() const { return Hardtanh(low, high); }
  const double low, high;
};

struct Softsign : Layer<Softsign> {
  Tensor forward(const Tensor& x) { return softsign(x); }
  Softsign rebuild() const { return Softsign(); }
};

struct LogSigmoid : Layer<LogSigmoid> {
  Tensor forward(const Tensor& x) { return logsigmoid(x); }
  LogSigmoid rebuild() const { return LogSigmoid(); }
};

struct CELU : Layer<CELU> {
  explicit CELU(double alpha = 1);  // throws Error unless alpha is above 0
  Tensor forward(const Tensor& x) { return celu(x, alpha); }
  CELU rebuild() const { return CELU(alpha); }
  const double alpha;
};

struct Threshold : Layer<Threshold> {
  Threshold(double limit, double value) : limit(limit), value(value) {}
  Tensor forward(const Tensor& x) { return threshold(x, limit, value); }
  Threshold rebuild() const { return Threshold(limit, value); }
  const double limit, value;
};

struct Hardshrink : Layer<Hardshrink> {
  explicit Hardshrink(double lambda = 0.5) : lambda(lambda) {}
  Tensor forward(const Tensor& x) { return hardshrink(x, lambda); }
  Hardshrink rebuild() const { return Hardshrink(lambda); }
  const double lambda;
};

struct Softshrink : Layer<Softshrink> {
  explicit Softshrink(double lambda = 0.5);  // throws Error for a negative lambda
  Tensor forward(const Tensor& x) { return softshrink(x, lambda); }
  Softshrink rebuild() const { return Softshrink(lambda); }
  const double lambda;
};

struct Tanhshrink : Layer<Tanhshrink> {
  Tensor forward(const Tensor& x) { return tanhshrink(x); }
  Tanhshrink rebuild() const { return Tanhshrink(); }
};

struct GLU : Layer<GLU> {
  explicit GLU(int dim = -1) : dim(dim) {}
  Tensor forward(const Tensor& x) { return glu(x, dim); }
  GLU rebuild() const { return GLU(dim); }
  const int dim;
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

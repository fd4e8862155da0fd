// Proves a layer or a function right, or says what is wrong with it.
#pragma once

#include <adret/certify/certificate.h>
#include <adret/certify/options.h>
#include <adret/certify/subject.h>
#include <adret/core/shape.h>

#include <concepts>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace adret {

// Note [Certificates]
//   EXPECT_TRUE(certify(layer, {{4, 8, 8, 3}}).passed());
//   const Certificate c = certify("swish", [](const Tensor& x) { return swish(x); }, {{4, 8}});
//   std::cout << c;
// The shapes are those of the inputs, the leading dimension being the batch. Small ones do: every
// element counts in a gradient check. The checks, each a row:
//   runs               forward and backward, in training and evaluation
//   copies             a copy behaves as the layer given (it keeps no state that is not registered)
//   gradients          of inputs and parameters, against central differences in f64
//   second derivative  likewise; a function that has none and says so is no failure
//   parameters         all that learns or is kept is registered, and a gradient reaches what learns
//   state              saved weights give a new layer the same outputs, bit for bit
//   conversion         to another dtype, or device, and back changes nothing
//   batch sizes        0, 1 and odd, in training and evaluation, gradients too
//   samples apart      in evaluation a sample's result does not depend on the others of its batch
//   repeatable         the same seed gives the same bits, forward and backward; and the same
//                      results under NoGrad
//   inputs untouched   neither their elements nor their versions change, nor a parameter's
//   evaluation         changes no state and draws no random numbers
//   dtypes             outputs and gradients in the other dtypes, near those in f32
//   devices            outputs and gradients on a GPU, near those on the CPU, in every dtype
//   captured step      replayed training steps are as eager ones
//   memory             what is held does not grow over 1,000 calls
// A check that throws has failed with that text; the others go on. When a layer cannot run or be
// copied, the rest is skipped. The layer, the thread's random state and its modes stay as they
// were: work is done with copies, each call on the same numbers.

Certificate certify(const Subject& subject, const std::vector<Shape>& shapes,
                    const CertifyOptions& options = {});

// A layer with `forward` of one to six tensors, which returns a tensor or several. Throws Error for
// options that do not fit, as an unknown check to skip.
template <class L>
requires std::derived_from<std::remove_reference_t<L>, Module> Certificate
certify(L&& layer, const std::vector<Shape>& shapes, const CertifyOptions& options = {}) {
  return certify(subject_of(layer.type_name(), layer), shapes, options);
}
// A function of one to six tensors; or one without arguments that makes a layer, which then needs
// no rebuild().
template <class F>
Certificate certify(const std::string& name, F function, const std::vector<Shape>& shapes,
                    const CertifyOptions& options = {}) {
  return certify(subject_of(name, std::move(function)), shapes, options);
}

// What a program can certify: {"swish", swish, {{4, 8}}}, arguments as of certify().
struct Certification {
  template <class F>
  Certification(const std::string& name, F function, std::vector<Shape> shapes,
                const CertifyOptions& options = {})
      : name(name),
        options(options),
        run([=](const CertifyOptions& chosen) { return certify(name, function, shapes, chosen); }) {
  }

  std::string name;
  CertifyOptions options;
  std::function<Certificate(const CertifyOptions&)> run;
};

// The main function of a program: arguments are names (all by default), `--device D` and `--list`.
// Prints the tables. The exit status is 0 when all passed, 1 when one failed, 2 for wrong use.
int certify_main(int argc, const char* const* argv, const std::vector<Certification>& list);

}  // namespace adret

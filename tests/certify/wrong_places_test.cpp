// Layers that are wrong for some batches, dtypes, devices or replays: each fails in the check that
// is about it.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/core/error.h>

#include "tests/certify/wrong_layers.h"
#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

TEST(WrongBatches, MixedSamples) {
  const auto centred = [](const Tensor& x) {
    return x.size(0) == 0 ? x * 1.0 : x - mean(x, {.dims = {0}, .keepdim = true});
  };
  expect_failure(certify("centred", centred, {{4, 3}}, quick()), "samples apart",
                 "in evaluation, of sample 0: output (1, 3), element");
  const Certificate meant = certify("centred", centred, {{4, 3}}, quick({.mixes_samples = true}));
  EXPECT_TRUE(meant.passed()) << meant;
}

TEST(WrongBatches, OfNoSamples) {
  const auto wrong = [](const Tensor& x) {
    if (x.size(0) == 0) throw ShapeError("[wrong] no samples");
    return x * 2.0;
  };
  expect_failure(certify("wrong", wrong, {{4, 3}}, quick()), "batch sizes",
                 "a batch of 0 in training: [wrong] no samples; let any number of samples pass");
}

TEST(WrongBatches, NaN) {
  const auto wrong = [](const Tensor& x) { return x.size(0) == 1 ? x * 0.0 / 0.0 : x * 2.0; };
  expect_failure(certify("wrong", wrong, {{4, 3}}, quick({.mixes_samples = true})), "batch sizes",
                 "a batch of 1 in training: output (1, 3) has NaN");
}

TEST(WrongDTypes, AnOutputInAnother) {
  const auto wrong = [](const Tensor& x) {
    return x.dtype() == DType::f16 ? (x * 2.0).to(DType::f32) : x * 2.0;
  };
  expect_failure(certify("wrong", wrong, {{4, 3}}, quick()), "dtypes: f16",
                 "output is f32 for inputs of f16; make outputs in the dtype of the inputs");
  EXPECT_TRUE(certify("wrong", wrong, {{4, 3}}, quick({.f32_outputs = true})).passed());
}

TEST(WrongDTypes, OtherValues) {
  const auto wrong = [](const Tensor& x) { return x * (x.dtype() == DType::bf16 ? 2.5 : 2.0); };
  expect_failure(certify("wrong", wrong, {{4, 3}}, quick()), "dtypes: bf16",
                 "in f32, with the same numbers");
}

struct CoarseInEvaluation : Layer<CoarseInEvaluation> {
  Tensor forward(const Tensor& x) const {
    return x * (!training() && x.dtype() == DType::f16 ? 1.5 : 2.0);
  }
  CoarseInEvaluation rebuild() const { return {}; }
};

TEST(WrongDTypes, OtherValuesInEvaluation) {
  expect_failure(certify(CoarseInEvaluation(), {{4, 3}}, quick()), "dtypes: f16",
                 "in evaluation: output (4, 3)");
}

TEST(WrongDTypes, ARefusalIsNoFailure) {
  const auto some = [](const Tensor& x) {
    if (x.dtype() == DType::f16) throw Error("[some] takes no f16");
    return x * 2.0;
  };
  const Certificate c = certify("some", some, {{4, 3}}, quick());
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(c.row("dtypes: f16").verdict, Verdict::refused);
  EXPECT_EQ(c.row("dtypes: f16").reason, "[some] takes no f16");
}

TEST(WrongDevices, OtherValues) {
  const SecondDevice second;
  const MirrorPause on_the_cpu;
  const auto wrong = [](const Tensor& x) { return x * (x.device().is_cpu() ? 2.0 : 2.5); };
  CertifyOptions options = quick({.dtypes = {DType::f32}});
  options.device = "cuda";
  expect_failure(certify("wrong", wrong, {{4, 3}}, options), "devices: cuda:0 f32", "on cuda:0");
  const Certificate right = certify(
      "right", [](const Tensor& x) { return x * 2.0; }, {{4, 3}}, options);
  EXPECT_TRUE(right.passed()) << right;
  EXPECT_EQ(right.row("memory: cuda:0").verdict, Verdict::passed);
}

TEST(WrongDevices, AResultThatStaysOnTheCpu) {
  const SecondDevice second;
  const MirrorPause on_the_cpu;
  const auto wrong = [](const Tensor& x) { return (x * 2.0).to(Device::cpu()); };
  CertifyOptions options = quick({.dtypes = {DType::f32}, .eager_step = true});
  options.device = "cuda";
  expect_failure(certify("wrong", wrong, {{4, 3}}, options), "devices: cuda:0 f32",
                 "output is on cpu, the inputs on cuda:0");
}

TEST(WrongDevices, OneThatIsNotThere) {
  CertifyOptions options = quick();
  options.device = "cuda:77";
  const Certificate c = certify(
      "right", [](const Tensor& x) { return x * 2.0; }, {{4, 3}}, options);
  expect_failure(c, "devices: cuda:77", "cuda:77");
}

// Its factor changes with each call, so that no two steps are equal.
struct Counts : Layer<Counts> {
  Tensor forward(const Tensor& x) {
    return x.dtype() == DType::f32 && training() ? x * (1 + 1e-9 * double(++calls)) : x * 1.0;
  }
  Counts rebuild() const { return {}; }
  int64_t calls = 0;
};

TEST(WrongSteps, AHostScalarThatChanges) {
  const Certificate c = certify(Counts(), {{4, 3}}, quick());
  expect_failure(c, "captured step", "a step is not replayed: ");
  const Certificate meant = certify(Counts(), {{4, 3}}, quick({.eager_step = true}));
  EXPECT_TRUE(meant.passed()) << meant;
}

// Its factor changes later, when steps are replayed already.
struct ChangesLate : Layer<ChangesLate> {
  Tensor forward(const Tensor& x) {
    const bool late = x.dtype() == DType::f32 && x.size(0) == 4 && ++calls > 5;
    return x * (late && calls < 9 ? 3.0 : 2.0);
  }
  ChangesLate rebuild() const { return {}; }
  int64_t calls = 0;
};

TEST(WrongSteps, AHostScalarThatChangesLate) {
  expect_failure(certify(ChangesLate(), {{4, 3}}, quick()), "captured step", "replayed");
}

TEST(WrongOptions, AreErrors) {
  const auto right = [](const Tensor& x) { return x * 2.0; };
  const auto with = [&](const CertifyOptions& options) {
    return certify("right", right, {{4, 3}}, options);
  };
  expect_error<Error>(
      [&] {
        return with({.skip = {{"gradient", "x"}}});
      },
      "there is no check \"gradient\" to skip; there are: runs, copies");
  expect_error<Error>(
      [&] {
        return with({.skip = {{"gradients", ""}}});
      },
      "say why \"gradients\" is skipped");
  expect_error<Error>([&] { return with({.inputs = {{}, {}}}); }, ".inputs describes 2 inputs");
  expect_error<Error>([&] { return with({.inputs = {{.low = 1, .high = 1}}}); },
                      "wants low < high");
  expect_error<Error>([&] { return with({.dtypes = {DType::f16}}); }, "f32 among them");
  expect_error<Error>([&] { return certify("right", right, {}); }, "give the shape of each input");
  const Certificate c = certify("right", right, {{4, 3}, {4, 3}}, quick());
  EXPECT_THAT(c.row("runs").reason, testing::HasSubstr("cannot be called with 2 tensor(s)"));
}

}  // namespace
}  // namespace adret

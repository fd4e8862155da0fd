// Tables, the command line, and that what is certified stays as it was.
#include <adret/autograd/ops/arithmetic.h>
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/layers/dropout.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/layers/sequential.h>

#include <iostream>
#include <sstream>

#include "tests/certify/wrong_layers.h"
#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

Tensor doubled(const Tensor& x) { return x * 2.0; }
Tensor wrong(const Tensor& x) { return x.size(0) == 0 ? throw Error("[wrong] none") : x * 2.0; }

TEST(Certificate, IsATable) {
  const Certificate c{.subject = "layer (4, 8)",
                      .rows = {{"runs", Verdict::passed, ""},
                               {"gradients", Verdict::failed, "x (4, 8), element 3 ..."},
                               {"dtypes: f16", Verdict::refused, "no"},
                               {"devices", Verdict::skipped, "no GPU here"}}};
  EXPECT_EQ(to_string(c),
            "layer (4, 8): 1 passed, 1 failed, 1 refused, 1 skipped\n"
            "  check       | result  | reason\n"
            "  runs        | passed  |\n"
            "  gradients   | FAILED  | x (4, 8), element 3 ...\n"
            "  dtypes: f16 | refused | no\n"
            "  devices     | skipped | no GPU here\n");
  EXPECT_FALSE(c.passed());
  expect_error<Error>([&] { return c.row("memory"); },
                      "layer (4, 8) has no row \"memory\"; it has runs, gradients, dtypes: f16");
}

TEST(Certificate, RefusedAndSkippedRowsPass) {
  EXPECT_TRUE(
      (Certificate{.rows = {{"a", Verdict::refused, ""}, {"b", Verdict::skipped, ""}}}).passed());
}

TEST(Certificate, HasARowForEachCheck) {
  const Certificate c =
      certify("doubled", doubled, {{4, 3}}, quick({.skip = {{"gradients", "shown elsewhere"}}}));
  std::vector<std::string> names;
  for (const CertificateRow& row : c.rows) names.push_back(row.check);
  EXPECT_THAT(names, testing::ElementsAre("runs", "copies", "gradients", "second derivative",
                                          "parameters", "state", "batch sizes", "samples apart",
                                          "inputs untouched", "evaluation", "dtypes: f64",
                                          "dtypes: f16", "dtypes: bf16", "repeatable",
                                          "captured step", "memory", "conversion", "devices"));
  EXPECT_EQ(c.subject, "doubled (4, 3)");
  EXPECT_EQ(c.row("gradients").verdict, Verdict::skipped);
  EXPECT_EQ(c.row("gradients").reason, "shown elsewhere");
  EXPECT_TRUE(c.passed()) << c;
}

TEST(Certify, LeavesTheLayerAndTheThreadAsTheyWere) {
  random::manual_seed(7);
  random::begin_step(3);
  Sequential layer(Linear(3, 4), BatchNorm1d(4), Dropout(0.5), Linear(4, 2));
  layer.children()[1]->eval();
  Tensor weight = layer.parameters()[0]->value;
  weight.set_grad(Tensor::full(weight.shape(), 2));
  std::vector<std::vector<float>> before;
  const auto state = [&] {
    std::vector<std::vector<float>> all;
    for (const auto& parameter : layer.parameters()) all.push_back(parameter->value.to_vector());
    for (const auto& buffer : layer.named_buffers()) {
      all.push_back(buffer.tensor.to(DType::f32).to_vector());
    }
    all.push_back(weight.grad().to_vector());
    return all;
  };
  before = state();
  const uint32_t version = weight.version();
  const RandomKey key = random::next(RandomStream::dropout);
  const Certificate c = certify(layer, {{4, 3}}, quick({.batches = {3}}));
  EXPECT_TRUE(c.passed()) << c;
  EXPECT_EQ(state(), before);
  EXPECT_TRUE(weight.is_same(layer.parameters()[0]->value));
  EXPECT_EQ(weight.version(), version);
  EXPECT_TRUE(layer.training());
  EXPECT_FALSE(layer.children()[1]->training());
  EXPECT_EQ(random::seed(), 7u);
  EXPECT_EQ(random::step(), 3);
  EXPECT_EQ(random::next(RandomStream::dropout).call, key.call + 1);
}

// -- the command line -----------------------------------------------------------------------------

struct Outcome {
  int status;
  std::string out, err;
};

Outcome run(const std::vector<const char*>& arguments) {
  std::vector<const char*> all = {"certify_layers"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::ostringstream out, err;
  auto* const old_out = std::cout.rdbuf(out.rdbuf());
  auto* const old_err = std::cerr.rdbuf(err.rdbuf());
  const int status = certify_main(int(all.size()), all.data(),
                                  {{"doubled", doubled, {{4, 3}}, quick()},
                                   {"wrong", wrong, {{4, 3}}, quick()},
                                   {"linear", [] { return Linear(3, 2); }, {{4, 3}}, quick()}});
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_err);
  return {status, out.str(), err.str()};
}

TEST(CertifyMain, RunsAllAndFailsWithOne) {
  const Outcome all = run({});
  EXPECT_EQ(all.status, 1);
  EXPECT_THAT(all.out, testing::HasSubstr("doubled (4, 3): "));
  EXPECT_THAT(all.out, testing::HasSubstr("linear (4, 3): "));
  EXPECT_THAT(all.out, testing::HasSubstr("failed: wrong\n"));
  EXPECT_EQ(all.err, "");
}

TEST(CertifyMain, RunsThoseThatAreNamed) {
  const Outcome some = run({"linear", "doubled", "--device", "cpu"});
  EXPECT_EQ(some.status, 0);
  EXPECT_THAT(some.out, testing::HasSubstr("certified: all 2\n"));
  EXPECT_THAT(some.out, testing::HasSubstr("no GPU here: the CPU alone was asked for"));
  EXPECT_THAT(some.out, testing::Not(testing::HasSubstr("wrong")));
}

TEST(CertifyMain, Lists) {
  const Outcome list = run({"--list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_EQ(list.out, "doubled\nwrong\nlinear\n");
  EXPECT_THAT(run({"--help"}).out, testing::HasSubstr("Exit status: 0 when all passed"));
}

TEST(CertifyMain, RefusesWrongUse) {
  for (const auto& [arguments, text] :
       std::vector<std::pair<std::vector<const char*>, std::string>>{
           {{"swish"}, "there is no \"swish\"; there are: doubled, wrong, linear"},
           {{"--fast"}, "unknown option --fast"},
           {{"--device"}, "--device wants cpu, cuda, cuda:N or auto"},
           {{"--device=tpu"}, "unknown device \"tpu\""}}) {
    const Outcome refused = run(arguments);
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.out, "");
    EXPECT_PRED_FORMAT2(testing::IsSubstring, text, refused.err);
  }
  EXPECT_EQ(certify_main(0, nullptr, {}), 2);
}

}  // namespace
}  // namespace adret

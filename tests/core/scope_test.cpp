// Names of where a thread is: modules, functions, backward passes; and who is told of them.
#include <adret/autograd/engine.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/conv.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/regression_loss.h>
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/scope.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mirror.h"

namespace adret {
namespace {

using namespace test;

TEST(Scopes, NameModulesAndTheOutermostFunction) {
  EXPECT_EQ(current_place(), "");
  const NameScope fit("fit");
  {
    const NameScope layer("conv1");
    const FunctionScope function("conv2d");
    const FunctionScope inner("reshape");
    EXPECT_EQ(NameScope::path(), "fit/conv1");
    EXPECT_EQ(current_place(), "fit/conv1/conv2d");
    EXPECT_STREQ(current_function().name, "conv2d");
  }
  EXPECT_EQ(current_place(), "fit");
}

TEST(Scopes, NameABackwardPassBeforeTheFunctionsItCalls) {
  const FunctionScope outer("checkpoint");
  {
    const FunctionScope node = FunctionScope::backward("conv2d");
    const FunctionScope inner("sum_to");
    EXPECT_EQ(current_place(), "conv2d backward");
  }
  EXPECT_EQ(current_place(), "checkpoint");
}

TEST(Scopes, NameFunctionsAnewInAModuleThatAFunctionCalls) {
  const FunctionScope outer("checkpoint");
  {
    const NameScope layer("fc");
    EXPECT_EQ(current_function().name, nullptr);
    const FunctionScope function("linear");
    EXPECT_EQ(current_place(), "fc/linear");
  }
  EXPECT_EQ(current_place(), "checkpoint");
}

TEST(Scopes, BelongToTheirThread) {
  const NameScope scope("fit");
  std::string elsewhere = "?";
  std::thread([&] { elsewhere = current_place(); }).join();
  EXPECT_EQ(elsewhere, "");
}

std::vector<std::string> told;
constexpr ScopeObserver recorder{.begin = [](const char* name) { told.emplace_back(name); },
                                 .end = [] { told.emplace_back("end"); }};

TEST(Scopes, TellAnObserverOfThoseThatBeginWhileItIsThere) {
  told.clear();
  {
    const NameScope before("before");
    observe_scopes(&recorder);
    const NameScope layer("conv1");
    {
      const FunctionScope function("conv2d");
      const FunctionScope inner("reshape");
    }
    observe_scopes(nullptr);
    const FunctionScope after("after");
  }
  EXPECT_EQ(told, (std::vector<std::string>{"conv1", "conv2d", "reshape", "end", "end", "end"}));
}

// Names of what is in use on the shadow device.
std::map<std::string, int64_t> blocks_by_holder() {
  std::map<std::string, int64_t> blocks;
  for (const MemoryHolder& holder : backend_for(Device::cuda()).services().pool().holders(1000)) {
    blocks[holder.name] = holder.blocks;
  }
  return blocks;
}

TEST(Holders, AreTheFunctionsThatMadeATensor) {
  ADRET_CPU_ONLY("counts the blocks of a pool of its own");
  const SecondDevice device;
  Tensor weight = Tensor::ones({2, 1, 1, 3}).to(Device::cuda()).detach();
  weight.set_requires_grad(true);
  {
    const NameScope fit("fit");
    const NameScope batch("batch");
    const Tensor x = Tensor::empty({1, 4, 4, 3}, {.device = Device::cuda()});
    const Tensor y = conv2d(x, weight);
    const Tensor loss = mse_loss(y, y.detach());
    EXPECT_EQ(blocks_by_holder(),
              (std::map<std::string, int64_t>{
                  {"to", 1}, {"fit/batch", 1}, {"conv2d", 1}, {"mse_loss", 1}}));
    loss.backward();
  }
  EXPECT_EQ(blocks_by_holder(),
            (std::map<std::string, int64_t>{{"to", 1}, {"conv2d backward", 1}}));
}

}  // namespace
}  // namespace adret

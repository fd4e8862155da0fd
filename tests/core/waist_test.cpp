// The waist: calls as values, decorators, backends in their slots.
#include <adret/core/backend.h>
#include <adret/core/error.h>
#include <adret/core/kernels/fields.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <variant>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using namespace kernels;

TEST(Kernel, PrintsItselfAndKnowsItsCost) {
  const Tensor x = Tensor::zeros({2, 8, 8, 3}), weight = Tensor::zeros({4, 3, 3, 3}),
               y = Tensor::empty({2, 6, 6, 4});
  const Kernel call(Conv2dForward{.x = x, .weight = weight, .y = y});
  EXPECT_EQ(to_string(call),
            "conv2d_forward x=(2, 8, 8, 3) f32 cpu weight=(4, 3, 3, 3) f32 cpu bias=none -> y=(2, "
            "6, 6, 4) f32 cpu "
            "stride 1x1 padding 0x0 dilation 1x1 groups 1 activation none");
  // 2 * 6 * 6 * 4 outputs of 3 * 3 * 3 multiply-adds; bytes: (384 + 108 + 288) floats.
  EXPECT_EQ(flops(call), 2.0 * 288 * 27);
  EXPECT_EQ(bytes_moved(call), 4.0 * (384 + 108 + 288));
}

struct Log : Decorator {
  std::vector<std::string>& lines;
  std::string label;
  Log(std::vector<std::string>& out, std::string name) : lines(out), label(std::move(name)) {}
  void run(const Kernel& call) override {
    lines.push_back(label + " " + kernel_name(call));
    // A decorator's own kernels go outwards: this must not recurse.
    if (label == "inner") Tensor::zeros({1});
    forward(call);
  }
};

TEST(Decorator, SeesEveryCallFromTheInsideOut) {
  std::vector<std::string> lines;
  {
    Log outer(lines, "outer");
    Log inner(lines, "inner");
    Tensor::zeros({2});
  }
  Tensor::zeros({2});
  EXPECT_EQ(lines, (std::vector<std::string>{"inner fill", "outer fill", "outer fill"}));
}

struct Failing : Decorator {
  void run(const Kernel&) override { throw Error("refused"); }
};

TEST(Decorator, StaysInPlaceAfterAnError) {
  std::vector<std::string> lines;
  Log outer(lines, "outer");
  {
    Failing failing;
    EXPECT_THROW(Tensor::zeros({2}), Error);
    EXPECT_THROW(Tensor::zeros({2}), Error);
  }
  EXPECT_NO_THROW(Tensor::zeros({2}));
  EXPECT_EQ(lines.size(), 1u);
}

// Decorators see operands by these lists alone.
template <class K>
void expect_all_operands_listed() {
  if constexpr (!std::is_same_v<K, Custom>) {
    std::vector<std::byte> places(64);
    K call;
    size_t count = 0;
    for_each_operand(call, [&](TensorView& view) { view.data = &places[count++]; });
    const auto is_listed = [&](const TensorView& view) {
      const auto holds = [&](const auto& list) {
        return std::ranges::any_of(list,
                                   [&](const Operand& o) { return o.view.data == view.data; });
      };
      return holds(call.inputs()) || holds(call.outputs());
    };
    size_t number = 0;
    for_each_operand(call, [&](const TensorView& view) {
      EXPECT_TRUE(is_listed(view)) << K::name << ", operand " << number;
      ++number;
    });
  }
}

template <class... K>
void expect_all_operands_listed(std::variant<K...>*) {
  (expect_all_operands_listed<K>(), ...);
}

TEST(Kernel, ListsEveryOperand) {
  expect_all_operands_listed(static_cast<kernels::AnyKernel*>(nullptr));
}

TEST(NameScope, IsAPathPerThread) {
  const NameScope outer("net");
  {
    const NameScope inner("conv1");
    EXPECT_EQ(NameScope::path(), "net/conv1");
    std::string elsewhere = "not asked";
    std::thread([&] { elsewhere = NameScope::path(); }).join();
    EXPECT_EQ(elsewhere, "");
  }
  EXPECT_EQ(NameScope::path(), "net");
}

}  // namespace
}  // namespace adret

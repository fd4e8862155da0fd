// The shadow run, against a device that computes wrongly, and the operands it copies.
#include <adret/core/decorators/relocate.h>
#include <adret/core/decorators/shadow.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"
#include "tests/support/shadow_backend.h"

namespace adret {
namespace {

using namespace test;
using kernels::BinaryOp;

// Products come out larger by `error` in their element 1, and so do the values of an SGD step.
class WrongBackend final : public Backend {
 public:
  explicit WrongBackend(float error) : error_(error) {}
  void run(const Kernel& call) override {
    right_.run(call);
    const auto* product = std::get_if<kernels::Binary>(&call.any());
    if (product && product->op == BinaryOp::multiply) product->y.as<float>()[1] += error_;
    const auto* step = std::get_if<kernels::SgdStep>(&call.any());
    if (step) step->values.as<float>()[17] += error_;
  }
  DeviceServices& services() override { return right_.services(); }

 private:
  ShadowBackend right_;
  float error_;
};

struct ShadowRun : testing::Test {
  void SetUp() override { ADRET_CPU_ONLY("it puts a wrong device in the second one's place"); }
  void put(float error) { set_backend(Device::cuda(), std::make_unique<WrongBackend>(error)); }
  void TearDown() override {
    if (!mirrored()) set_backend(Device::cuda(), nullptr);
  }
};

void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  run(kernels::Binary{.a = a, .b = b, .y = y, .op = op});
}

TEST_F(ShadowRun, NamesTheCallTheOutputAndTheElement) {
  put(0.5f);
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3}), y = Tensor::empty({3});
  const NameScope scope("net");
  Shadow shadow;
  binary(BinaryOp::add, a, a, y);
  EXPECT_TRUE(shadow.differences().empty());
  binary(BinaryOp::multiply, a, a, y);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 4, 9}));  // its own device's
  EXPECT_EQ(shadow.compared(), 2);
  ASSERT_EQ(shadow.differences().size(), 1u);
  EXPECT_EQ(to_string(shadow.differences()[0]),
            "net: binary a=(3,) f32 cpu b=(3,) f32 cpu -> y=(3,) f32 cpu multiply: y[1] is 4 here "
            "and 4.5 there, 0.0556 of the largest");
}

TEST_F(ShadowRun, CountsNaNAsADifferenceAndRoundingAsNone) {
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3}), y = Tensor::empty({3});
  put(NAN);
  {
    Shadow shadow;
    binary(BinaryOp::multiply, a, a, y);
    ASSERT_EQ(shadow.differences().size(), 1u);
    EXPECT_EQ(shadow.differences()[0].relative, HUGE_VAL);
  }
  put(5e-4f);
  for (const double factor : {1.0, 0.1}) {  // 1.2e-4 of 9 is 1.1e-3
    Shadow shadow({.factor = factor});
    binary(BinaryOp::multiply, a, a, y);
    EXPECT_EQ(shadow.differences().size(), factor < 1 ? 1u : 0u);
  }
}

TEST_F(ShadowRun, StopsWhenAsked) {
  put(1);
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3}), y = Tensor::empty({3});
  Shadow shadow({.stop = true});
  expect_error<Error>(
      [&] {
        binary(BinaryOp::multiply, a, a, y);
        return 0;
      },
      "[Shadow] (no scope): binary a=(3,)");
}

TEST_F(ShadowRun, GivesBothDevicesTheOperandsAsTheyWere) {
  put(0);
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3});
  Shadow shadow;
  binary(BinaryOp::multiply, a, a, a);
  EXPECT_EQ(a.to_vector(), (std::vector<float>{1, 4, 9}));
  EXPECT_TRUE(shadow.differences().empty());
}

TEST_F(ShadowRun, TakesAModelOnTheSecondDeviceAndLeavesCallsThereAlone) {
  put(0.5f);
  const Tensor a = Tensor::from<float>({1, 2, 3}, {3}, Device::cuda());
  const Tensor y = Tensor::empty({3}, {.device = Device::cuda()});
  {
    Shadow shadow;
    binary(BinaryOp::multiply, a, a, y);
    EXPECT_EQ(shadow.compared(), 0);
  }
  Shadow shadow({.device = Device::cpu()});
  binary(BinaryOp::multiply, a, a, y);
  ASSERT_EQ(shadow.differences().size(), 1u);
  EXPECT_EQ(shadow.differences()[0].here, 4.5);
  EXPECT_EQ(shadow.differences()[0].there, 4);
}

// Two parameters of 3 and 2 elements at bytes 0 and 64 of their arena.
void sgd_step(const Tensor& values) {
  const int64_t f32 = int64_t(DType::f32);
  const std::vector<kernels::Segment> rows{
      {.value_offset = 0, .state_offset = 0, .length = 3, .group = 0, .dtype = f32, .active = 1},
      {.value_offset = 64, .state_offset = 64, .length = 2, .group = 0, .dtype = f32, .active = 1}};
  const auto* words = reinterpret_cast<const int64_t*>(rows.data());
  const kernels::SgdGroup group{.lr = 1};
  const auto* columns = reinterpret_cast<const double*>(&group);
  run(kernels::SgdStep{.values = values,
                       .grads = Tensor::zeros({128}, {.dtype = DType::u8}),
                       .segments = Tensor::from(std::span(words, 2 * kernels::segment_columns),
                                                {2, kernels::segment_columns}),
                       .groups = Tensor::from(std::span(columns, sizeof(group) / sizeof(double)),
                                              {1, int64_t(sizeof(group) / sizeof(double))})});
}

TEST_F(ShadowRun, ComparesArenasByTheirParameters) {
  const Tensor values = Tensor::from(std::vector<float>(32, 2), {32}).segment({128}, 0, DType::u8);
  for (const float error : {1e-6f, 0.5f}) {  // rounding passes, though bytes differ
    put(error);
    Shadow shadow;
    sgd_step(values);
    if (error < 1e-3f) {
      EXPECT_TRUE(shadow.differences().empty());
      continue;
    }
    ASSERT_EQ(shadow.differences().size(), 1u);
    EXPECT_EQ(shadow.differences()[0].output, "values of parameter 1");
    EXPECT_EQ(shadow.differences()[0].element, 1);
    EXPECT_EQ(shadow.differences()[0].there, 2.5);
  }
}

// -- relocation ----------------------------------------------------------------------------------

struct Relocation : testing::Test {
  SecondDevice second;
};

TEST_F(Relocation, KeepsOperandsOfOneStorageTogetherWithWhatIsAroundThem) {
  const Tensor whole = Tensor::full({1000}, 7), x = whole.alias({10}, 400), y = x.alias({10}, 120);
  const Kernel call(kernels::Copy{.x = x, .y = y});
  const RelocatedCall there(call, Device::cuda());
  const auto& moved = std::get<kernels::Copy>(there.call().any());
  EXPECT_EQ(moved.x.device, Device::cuda());
  EXPECT_EQ(moved.x.storage, moved.y.storage);
  EXPECT_EQ(static_cast<std::byte*>(moved.y.data) - static_cast<std::byte*>(moved.x.data), 120);
  backend_for(Device::cuda())
      .services()
      .copy(moved.y.data, std::vector<float>(11, 1).data(), 11 * sizeof(float),
            CopyKind::host_to_device);
  there.copy_back();
  const std::vector<float> after = whole.to_vector();
  EXPECT_EQ(after[129], 7);
  for (size_t i = 130; i < 141; ++i) EXPECT_EQ(after[i], 1) << i;  // one beyond y
  EXPECT_EQ(after[141], 7);
}

TEST_F(Relocation, KeepsPlacesModuloTheAlignmentInLargeStorages) {
  const Tensor whole = Tensor::zeros({100'000}), x = whole.alias({10}, 200'004);
  const RelocatedCall there(Kernel(kernels::Fill{.y = x, .value = 3}), Device::cuda());
  const TensorView moved = outputs(there.call())[0].view;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(moved.data) % 512, 200'004 % 512);
  EXPECT_LT(moved.storage->bytes(), 10'000u);
  backend_for(Device::cuda()).run(there.call());
  EXPECT_EQ(output_parts(there.call())[0].tensor.to_vector(), std::vector<float>(10, 3));
  EXPECT_EQ(x.to_vector(), std::vector<float>(10, 0));
}

TEST_F(Relocation, TakesUndefinedAndEmptyOperands) {
  const Tensor x = Tensor::zeros({0, 4}), weight = Tensor::zeros({3, 4}), y = Tensor::empty({0, 3});
  const Kernel call(kernels::LinearForward{.x = x, .weight = weight, .y = y});
  const RelocatedCall there(call, Device::cuda());
  EXPECT_FALSE(std::get<kernels::LinearForward>(there.call().any()).bias.defined());
  backend_for(Device::cuda()).run(there.call());
  there.copy_back();
  EXPECT_EQ(output_parts(there.call())[0].tensor.shape(), Shape({0, 3}));
}

}  // namespace
}  // namespace adret

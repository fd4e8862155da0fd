// Tensors: making, reading, sharing, printing, and what happens when asked for nonsense.
#include <adret/autograd/ops/shape.h>
#include <adret/core/error.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

TEST(Tensor, KeepsShapeDtypeAndValues) {
  const Tensor x = Tensor::from({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3});
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
  EXPECT_EQ(x.size(-1), 3);
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ(x.device(), Device::cpu());
  EXPECT_EQ(x.bytes(), 24u);
  EXPECT_EQ(x.to_vector(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 64, 0u);
}

TEST(Tensor, FillsEveryDtype) {
  EXPECT_EQ(Tensor::zeros({2}).to_vector(), (std::vector<float>{0, 0}));
  EXPECT_EQ(Tensor::full({2}, 7, {.dtype = DType::i64}).to_vector<int64_t>(),
            (std::vector<int64_t>{7, 7}));
  EXPECT_EQ(Tensor::ones({1}, {.dtype = DType::boolean}).to_vector<bool>(),
            std::vector<bool>{true});
  EXPECT_EQ(float(Tensor::full({1}, 1.5, {.dtype = DType::bf16}).item<bfloat16>()), 1.5f);
  EXPECT_EQ(Tensor::full({}, 0.1, {.dtype = DType::f64}).item<double>(), 0.1);
}

TEST(Tensor, HoldsNothingInEmptyShapes) {
  const Tensor x = Tensor::ones({0, 3});
  EXPECT_EQ(x.numel(), 0);
  EXPECT_TRUE(x.to_vector().empty());
  EXPECT_EQ(to_string(x), "[] (0, 3) f32 cpu");
}

TEST(Tensor, CopiesOfAHandleShareElementsAndClonesDoNot) {
  const Tensor x = Tensor::zeros({3});
  const Tensor same = x, copy = x.clone();
  x.span<float>()[1] = 5;
  EXPECT_EQ(same.to_vector()[1], 5);
  EXPECT_EQ(copy.to_vector()[1], 0);
}

TEST(Tensor, SaysWhatIsWrongWithARead) {
  const Tensor x = Tensor::zeros({2, 3});
  expect_error<ShapeError>([&] { return x.item(); },
                           "[item] wants a tensor of one element, got (2, 3)");
  expect_error<ShapeError>(
      [&] { return x.to_vector<double>(); },
      "[to_vector] the tensor (2, 3) holds f32, not f64; convert it with to(DType::f64)");
  expect_error<ShapeError>(
      [] {
        return Tensor::from({1.f, 2.f}, {3});
      },
      "[from] 2 values for shape (3,), which has 3 elements");
  expect_error<Error>([] { return Tensor().shape(); }, "[tensor] an undefined tensor was used");
  // What keeps it from being used depends on the build and the machine.
  expect_error<DeviceError>([] { return Tensor::zeros({1}, {.device = Device::cuda(15)}); }, "");
}

TEST(Tensor, AliasesShareTheVersionAndSegmentsDoNot) {
  const Tensor x = Tensor::zeros({4});
  const Tensor view = x.alias({2}, 8);
  const Tensor segment = x.segment({2}, 8, DType::f32);
  x.bump_version();
  EXPECT_EQ(view.version(), 1u);
  EXPECT_EQ(segment.version(), 0u);
  segment.span<float>()[0] = 3;
  EXPECT_EQ(x.to_vector(), (std::vector<float>{0, 0, 3, 0}));
}

// Layouts as numpy.array2string prints them, followed by shape, dtype and device.
TEST(Tensor, PrintsLikeNumpy) {
  EXPECT_EQ(to_string(Tensor::from({1.5f, -2.f, 3.f, 4.f}, {2, 2})),
            "[[1.5,  -2],\n [  3,   4]] (2, 2) f32 cpu");
  EXPECT_EQ(to_string(Tensor::full({}, 2, {.dtype = DType::i32})), "2 () i32 cpu");
  EXPECT_EQ(to_string(Tensor::zeros({2000})), "[0, 0, 0, ..., 0, 0, 0] (2000,) f32 cpu");
  EXPECT_EQ(to_string(Tensor::from({true, false}, {2})), "[ true, false] (2,) boolean cpu");
  EXPECT_EQ(to_string(Tensor()), "tensor(undefined)");
}

TEST(Device, ReadsItsNames) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  EXPECT_EQ(to_string(Device::cuda(1)), "cuda:1");
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:300", "cuda:1 "}) {
    expect_error<DeviceError>([&] { return Device::parse(text); }, "use auto, cpu, cuda or cuda:N");
  }
}

}  // namespace
}  // namespace adret

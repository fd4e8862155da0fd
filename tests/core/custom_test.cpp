// Custom kernels: their operands, workspace, CUDA parts, and how decorators see them.
#include <adret/core/decorators/dry_run.h>
#include <adret/core/decorators/find_nonfinite.h>
#include <adret/core/decorators/profile.h>
#include <adret/core/decorators/shadow.h>
#include <adret/core/error.h>
#include <adret/core/kernels/rewrite.h>
#include <adret/core/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/fake_allocator.h"
#include "tests/support/second_device_test.h"
#include "tests/support/seen_kernels.h"

namespace adret {

// With names, as their CUDA parts are found by them.
namespace custom_test {

// y = scale * x + bias, where bias may be left out; and sign, where somebody wants it.
struct Affine {
  static constexpr const char* name = "affine";
  static constexpr CustomOperand inputs[] = {{.name = "x"}, {.name = "bias", .optional = true}},
                                 outputs[] = {{.name = "y"}, {.name = "sign", .optional = true}};
  float scale = 2;
  bool operator==(const Affine&) const = default;
  std::string params() const { return "scale " + std::to_string(int(scale)); }
  double flops(const CustomCall& call) const { return 2 * double(call.outputs[0].numel()); }
  void run_cpu(const CustomCall& call) const {
    const auto *x = call.inputs[0].as<float>(), *bias = call.inputs[1].as<float>();
    auto *y = call.outputs[0].as<float>(), *sign = call.outputs[1].as<float>();
    for (int64_t i = 0; i < call.inputs[0].numel(); ++i) {
      y[i] = scale * x[i] + (bias ? bias[i] : 0);
      if (sign) sign[i] = y[i] < 0 ? -1.0f : 1.0f;
    }
  }
};

// Without lists; the sum in its workspace.
struct AddOne {
  static constexpr const char* name = "add_one";
  size_t scratch = 0;
  bool operator==(const AddOne&) const = default;
  size_t workspace_bytes(const CustomCall& call) const { return scratch * call.inputs[0].bytes(); }
  void run_cpu(const CustomCall& call) const {
    auto* y = call.outputs[0].as<float>();
    auto* const first = scratch > 0 ? static_cast<float*>(call.workspace) : y;
    for (int64_t i = 0; i < call.inputs[0].numel(); ++i) {
      first[i] = call.inputs[0].as<float>()[i] + 1;
    }
    if (first != y) std::copy_n(first, call.inputs[0].numel(), y);
  }
};

template <int number>
struct Numbered {
  static constexpr const char* name = "numbered";
  int added = 0;
  bool operator==(const Numbered&) const = default;
  void run_cpu(const CustomCall&) const {}
};

}  // namespace custom_test

namespace {

using namespace test;
using namespace custom_test;
using testing::HasSubstr;
using Values = std::vector<float>;

Affine affine(float scale) { return {.scale = scale}; }

struct Custom : testing::Test {
  const Tensor x = Tensor::from({1.f, -2.f}, {2}), y = Tensor::empty({2});
};

TEST_F(Custom, CrossesTheWaistLikeAnyKernel) {
  SeenKernels seen;
  run_custom(AddOne{}, {x}, {y});
  EXPECT_EQ(y.to_vector(), (Values{2, -1}));
  EXPECT_EQ(seen.names(), std::vector<std::string>{"add_one"});
  const CustomKernelOf kernel{AddOne()};
  const TensorView in[] = {x}, out[] = {y};
  EXPECT_EQ(to_string(Kernel(kernels::Custom{.kernel = &kernel, .in = in, .out = out})),
            "add_one in=(2,) f32 cpu -> out=(2,) f32 cpu");
}

TEST_F(Custom, LeavesOutWhatIsOptional) {
  run_custom(affine(3), {x, Tensor()}, {y, Tensor()});
  EXPECT_EQ(y.to_vector(), (Values{3, -6}));
  const Tensor sign = Tensor::empty({2});
  run_custom(affine(3), {x, Tensor::from({0.f, 7.f}, {2})}, {y, sign});
  EXPECT_EQ(y.to_vector(), (Values{3, 1}));
  EXPECT_EQ(sign.to_vector(), (Values{1, 1}));
}

TEST_F(Custom, RaisesTheVersionsOfWhatItWrites) {
  const uint32_t before = y.version(), of_x = x.version();
  run_custom(AddOne{}, {x}, {y});
  EXPECT_GT(y.version(), before);
  EXPECT_EQ(x.version(), of_x);
}

TEST_F(Custom, HasAWorkspaceOfTheDevicesPoolForOneRun) {
  const MemoryPool& pool = backend_for(Device::cpu()).services().pool();
  const MemoryStats before = pool.stats();
  run_custom(AddOne{.scratch = 4096}, {x}, {y});
  const MemoryStats after = pool.stats();
  EXPECT_EQ(y.to_vector(), (Values{2, -1}));
  EXPECT_EQ(after.current, before.current);
  EXPECT_EQ(after.allocations, before.allocations + 1);
  EXPECT_GE(after.peak, before.current + 4096 * 8);
}

// -- wrong operands -------------------------------------------------------------------------------

TEST_F(Custom, RefusesUndefinedOperands) {
  const auto of = [&](const auto& kernel, std::vector<Tensor> in, std::vector<Tensor> out) {
    return thrown<Error>([&] { return run_custom(kernel, in, out), 0; });
  };
  EXPECT_EQ(of(Affine{}, {Tensor(), x}, {y, Tensor()}),
            "[affine] input 0 (x) is an undefined tensor; pass one, or let inputs of the kernel "
            "say that it is optional");
  EXPECT_THAT(of(Affine{}, {x, x}, {Tensor(), y}), HasSubstr("[affine] output 0 (y) is an undef"));
  EXPECT_THAT(of(AddOne{}, {Tensor()}, {y}), HasSubstr("[add_one] input 0 is an undefined tensor"));
  EXPECT_THAT(of(AddOne{}, {x}, {}), HasSubstr("[add_one] has no output to write"));
  EXPECT_EQ(of(Affine{}, {x}, {y, y}), "[affine] got 1 inputs, wanted 2");
}

struct CustomOnTwoDevices : OnSecondDevice {
  const Tensor x = Tensor::from({1.f, -2.f}, {2}), there = x.to(second);
};

TEST_F(CustomOnTwoDevices, RefusesOperandsOnBoth) {
  expect_error<DeviceError>([&] { return run_custom(AddOne{}, {there}, {x}), 0; },
                            "[add_one] input 0 is (2,) f32 cuda:0, and the first output is on cpu; "
                            "move all to one device with to()");
  expect_error<DeviceError>(
      [&] {
        return run_custom(Affine{}, {x, x}, {x, there}), 0;
      },
      "[affine] output 1 (sign) is (2,) f32 cuda:0");
}

// -- CUDA parts -----------------------------------------------------------------------------------

// As the CUDA backend runs custom kernels, on memory of the host.
class CudaPartsBackend final : public Backend, DeviceServices {
 public:
  void run(const Kernel& call) override {
    const auto* const custom = std::get_if<kernels::Custom>(&call.any());
    if (!custom) return backend_for(Device::cpu()).run(call);
    IntrusivePtr<Storage> memory;
    custom->kernel->run_cuda(custom->with_workspace(Device::cuda(), memory), this);
  }
  DeviceServices& services() override { return *this; }
  MemoryPool& pool() override { return pool_; }
  void copy(void* to, const void* from, size_t bytes, CopyKind) override {
    if (bytes) std::memcpy(to, from, bytes);
  }
  void synchronize() override {}

 private:
  FakeAllocator allocator_;
  MemoryPool pool_{"cuda parts", allocator_, {.alignment = 512}};
};

struct CudaParts : testing::Test {
  void SetUp() override {
    if (mirrored()) GTEST_SKIP() << "it puts a backend of its own into the GPU's place";
    before = set_backend(Device::cuda(), std::make_unique<CudaPartsBackend>());
  }
  void TearDown() override {
    if (!mirrored()) set_backend(Device::cuda(), std::move(before));
  }
  // What running a kernel there throws; empty if it runs.
  template <class K>
  static std::string message(const K& kernel) {
    const Tensor x = Tensor::zeros({2}, {.device = Device::cuda()});
    try {
      run_custom(kernel, {x}, {x});
    } catch (const DeviceError& error) {
      return error.what();
    }
    return {};
  }
  std::unique_ptr<Backend> before;
};

int sum = 0;  // of what ran
template <int number>
void add_number(const Numbered<number>& kernel, const CustomCall& call, void*) {
  sum += kernel.added + int(call.inputs[0].numel());
}
template <int number>
void add_part(int line) {
  using Part = void (*)(const Numbered<number>&, const CustomCall&, void*);
  const Part part = add_number<number>;
  add_cuda_part(
      typeid(Numbered<number>),
      {.run =
           [](void (*part)(), const AnyCustomKernel& kernel, const CustomCall& call, void* stream) {
             reinterpret_cast<Part>(part)(
                 static_cast<const CustomKernelOf<Numbered<number>>&>(kernel).get(), call, stream);
           },
       .part = reinterpret_cast<void (*)()>(part),
       .file = "parts.cu",
       .line = line});
}

TEST_F(CudaParts, AreFoundByTheKernelsType) {
  EXPECT_FALSE(has_cuda_part(CustomKernelOf(Numbered<1>())));
  add_part<1>(5);
  EXPECT_TRUE(has_cuda_part(CustomKernelOf(Numbered<1>())));
  EXPECT_EQ(message(Numbered<1>{.added = 40}), "");
  EXPECT_EQ(sum, 42);
}

TEST_F(CudaParts, AreMissedByName) {
  EXPECT_EQ(message(AddOne{}),
            "[add_one] this custom kernel has no CUDA part; register one for "
            "adret::custom_test::AddOne with CudaPart (adret/core/cuda_part.h) in a .cu file of "
            "the program, or move the operands with to(Device::cpu())");
}

// Two shared objects may have one file each, as a program and a plugin with the same sources.
TEST_F(CudaParts, AreOneAKernel) {
  add_part<2>(5);
  add_part<2>(5);
  EXPECT_EQ(message(Numbered<2>()), "");
  add_part<2>(9);
  EXPECT_EQ(message(Numbered<2>()),
            "[numbered] two CUDA parts are registered for adret::custom_test::Numbered<2>, in "
            "parts.cu:5 and parts.cu:9; keep one");
}

struct Unnamed {
  static constexpr const char* name = "unnamed";
  bool operator==(const Unnamed&) const = default;
  void run_cpu(const CustomCall&) const {}
};

TEST_F(CudaParts, WantANamespaceWithAName) {
  add_cuda_part(typeid(Unnamed), {.run = nullptr, .part = nullptr, .file = "a.cu", .line = 1});
  EXPECT_THAT(message(Unnamed{}), HasSubstr("declare it in a header, in a namespace with a name"));
}

// -- what keeps calls, and what looks at them -----------------------------------------------------

TEST_F(Custom, IsKeptByValue) {
  auto kernel = std::make_unique<CustomKernelOf<Affine>>(affine(5));
  const TensorView in[] = {x, {}}, out[] = {y, {}};
  const RewrittenCall kept(kernels::Custom{.kernel = kernel.get(), .in = in, .out = out},
                           [](const TensorView& view) { return view; });
  kernel.reset();
  dispatch(kept.call());
  EXPECT_EQ(y.to_vector(), (Values{5, -10}));
}

TEST_F(Custom, IsEqualToOneOfItsTypeWithItsMembers) {
  const CustomKernelOf three(affine(3)), four(affine(4));
  EXPECT_TRUE(three.equals(CustomKernelOf(affine(3))));
  EXPECT_FALSE(three.equals(four));
  EXPECT_FALSE(CustomKernelOf(Numbered<3>()).equals(CustomKernelOf(Numbered<4>())));
  EXPECT_TRUE(three.clone()->equals(three));
}

TEST_F(Custom, IsCountedByADryRun) {
  DryRun dry_run;
  run_custom(affine(3), {x, x}, {y, Tensor()});
  EXPECT_EQ(dry_run.under("").flops, 4);
  EXPECT_EQ(dry_run.under("").bytes, 3 * 8);
}

TEST_F(Custom, IsProfiledByItsName) {
  Profile profile;
  run_custom(affine(3), {x, x}, {y, Tensor()});
  ASSERT_EQ(profile.rows().size(), 1u);
  const ProfileRow& row = profile.rows()[0];
  EXPECT_EQ(row.kernel, "affine");
  EXPECT_EQ(row.operands, "x=(2,) f32 bias=(2,) -> y=(2,) scale 3");
  EXPECT_EQ(row.place, "affine");
  EXPECT_EQ(row.flops, 4);
}

TEST_F(Custom, IsNamedWhereItMakesNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor bias = Tensor::from({-infinity, 0.f}, {2}), big = Tensor::from({infinity, 0.f}, {2});
  FindNonFinite find({.at_once = true});
  EXPECT_THAT(thrown<Error>([&] {
                return run_custom(affine(3), {big, bias}, {y, Tensor()}), 0;
              }),
              HasSubstr("affine: affine x=(2,) f32 cpu bias=(2,) f32 cpu -> y=(2,) f32 cpu "
                        "sign=none scale 3: y has 1 NaN among 2 elements"));
}

// Says 1 more on one device than on the other.
struct Uneven {
  static constexpr const char* name = "uneven";
  bool operator==(const Uneven&) const = default;
  void run_cpu(const CustomCall& call) const {
    call.outputs[0].as<float>()[0] = call.outputs[0].device.is_cpu() ? 1.0f : 2.0f;
  }
};

TEST_F(CustomOnTwoDevices, IsNamedWhereTheyDiffer) {
  if (test_device() == TestDevice::cuda) GTEST_SKIP() << "it has no CUDA part";
  const Tensor one = Tensor::zeros({1}, {.device = second});
  Shadow shadow({.device = Device::cpu()});
  run_custom(Uneven{}, {}, {one});
  ASSERT_EQ(shadow.differences().size(), 1u);
  EXPECT_THAT(to_string(shadow.differences()[0]),
              HasSubstr("uneven -> out=(1,) f32 cuda:0: out[0] is 2 here and 1 there"));
}

}  // namespace
}  // namespace adret

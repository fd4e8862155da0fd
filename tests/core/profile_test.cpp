// The profile on a device whose clock goes as told, and the arithmetic of its rows' ceilings.
#include <adret/core/decorators/profile.h>
#include <adret/core/decorators/roofline.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "tests/support/expect_error.h"
#include "tests/support/mirror.h"
#include "tests/support/shadow_backend.h"

namespace adret {
namespace {

using namespace test;
using kernels::BinaryOp;

int moments = 0;  // that are alive

class ToldTime final : public DeviceEvent {
 public:
  explicit ToldTime(double at) : at_(at) { ++moments; }
  ~ToldTime() override { --moments; }
  bool reached() override { return true; }
  void wait() override {}
  double seconds_since(DeviceEvent& earlier) override {
    return at_ - dynamic_cast<ToldTime&>(earlier).at_;
  }

 private:
  double at_;
};

// A second passes before each call, and the call takes what is told for its kernel.
class ToldBackend final : public Backend, DeviceServices {
 public:
  explicit ToldBackend(std::map<std::string, double> seconds) : seconds_(std::move(seconds)) {}
  void run(const Kernel& call) override {
    right_.run(call);
    const auto* binary = std::get_if<kernels::Binary>(&call.any());
    now_ += seconds_[binary ? kernels::to_string(binary->op) : kernel_name(call)];
  }
  DeviceServices& services() override { return *this; }

  MemoryPool& pool() override { return right_.services().pool(); }
  void copy(void* to, const void* from, size_t bytes, CopyKind kind) override {
    right_.services().copy(to, from, bytes, kind);
  }
  void synchronize() override {}
  Moment timestamp() override {
    const bool begins = stamps_++ % 2 == 0;
    if (begins) now_ += 1;
    return Moment(new ToldTime(now_));
  }

 private:
  ShadowBackend right_;
  std::map<std::string, double> seconds_;
  double now_ = 0;
  int stamps_ = 0;
};

struct Profiles : testing::Test {
  void SetUp() override {
    ADRET_CPU_ONLY("it puts a device with a clock of its own in the second one's place");
    set_backend(device, std::make_unique<ToldBackend>(
                            std::map<std::string, double>{{"add", 2}, {"multiply", 5}}));
  }
  void TearDown() override {
    if (!mirrored()) set_backend(device, nullptr);
  }
  static Tensor empty(const Shape& shape, DType dtype = DType::f32) {
    return Tensor::empty(shape, {.dtype = dtype, .device = device});
  }
  static void binary(BinaryOp op, const Tensor& x) {
    run(kernels::Binary{.a = x, .b = x, .y = x, .op = op});
  }
  static constexpr Device device = Device::cuda();
};

TEST_F(Profiles, AddUpByKernelOperandsAndPlace) {
  const Tensor x = empty({3}), matrix = empty({2, 3});
  Profile profile;
  {
    const NameScope net("net");
    binary(BinaryOp::add, x);
    binary(BinaryOp::multiply, x);
    const FunctionScope function("sum");
    binary(BinaryOp::add, x);
    binary(BinaryOp::add, x);
  }
  binary(BinaryOp::add, matrix);
  const std::vector<ProfileRow>& rows = profile.rows();
  ASSERT_EQ(rows.size(), 4u);
  const std::vector<std::string> places{"net", "net", "net/sum", ""};
  const std::string of_x = "a=(3,) f32 b=(3,) -> y=(3,) ";
  const std::vector<std::string> operands{of_x + "add", of_x + "multiply", of_x + "add",
                                          "a=(2, 3) f32 b=(2, 3) -> y=(2, 3) add"};
  // An operation an element; three operands of 4 bytes an element.
  const std::vector<double> calls{1, 1, 2, 1}, seconds{2, 5, 4, 2}, flops{3, 3, 6, 6},
      bytes{36, 36, 72, 72};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].kernel, "binary") << i;
    EXPECT_EQ(rows[i].operands, operands[i]) << i;
    EXPECT_EQ(rows[i].place, places[i]) << i;
    EXPECT_EQ(rows[i].device, device) << i;
    EXPECT_EQ(double(rows[i].calls), calls[i]) << i;
    EXPECT_EQ(rows[i].seconds, seconds[i]) << i;
    EXPECT_EQ(rows[i].flops, flops[i]) << i;
    EXPECT_EQ(rows[i].bytes, bytes[i]) << i;
  }

  const std::vector<ProfileRow> merged = merge_places(rows);
  ASSERT_EQ(merged.size(), 3u);
  EXPECT_EQ(merged[0].place, "net and 1 more");
  EXPECT_EQ(merged[0].calls, 3);
  EXPECT_EQ(merged[0].seconds, 6);
  EXPECT_EQ(merged[0].flops, 9);
  EXPECT_EQ(merged[0].bytes, 108);
  EXPECT_EQ(merged[1].place, "net");
  EXPECT_EQ(merged[2].operands, operands[3]);
}

TEST_F(Profiles, GoOnAfterTheyWereRead) {
  const Tensor x = empty({3});
  Profile profile;
  binary(BinaryOp::add, x);
  EXPECT_EQ(profile.rows()[0].seconds, 2);
  EXPECT_EQ(profile.rows()[0].seconds, 2);
  binary(BinaryOp::add, x);
  EXPECT_EQ(profile.rows()[0].seconds, 4);
}

TEST_F(Profiles, TellOperandsThatMatterAndWhereDtypesChange) {
  const Tensor x = empty({4, 3}), y = empty({4, 2});
  Profile profile;
  run(kernels::LinearForward{.x = x,
                             .weight = empty({2, 3}),
                             .bias = empty({2}),
                             .y = y,
                             .activation = kernels::Activation::relu});
  run(kernels::Cast{.x = y, .y = empty({4, 2}, DType::bf16)});
  run(kernels::Fill{.y = y, .value = 2});
  ASSERT_EQ(profile.rows().size(), 3u);
  EXPECT_EQ(profile.rows()[0].operands, "x=(4, 3) f32 weight=(2, 3) -> y=(4, 2) activation relu");
  EXPECT_EQ(profile.rows()[1].operands, "x=(4, 2) f32 -> y=(4, 2) bf16");
  EXPECT_EQ(profile.rows()[2].operands, "-> y=(4, 2) f32 value 2");
}

TEST_F(Profiles, CountDropoutOfEveryCallAsOne) {
  const Tensor x = empty({4, 3}),
               step = Tensor::full({}, 0, {.dtype = DType::i64, .device = device});
  Profile profile;
  for (uint32_t call = 0; call < 2; ++call) {
    run(kernels::DropoutForward{.x = x,
                                .step = step,
                                .y = x,
                                .mask = empty({4, 3}, DType::u8),
                                .key = {.seed = 3, .call = call}});
  }
  ASSERT_EQ(profile.rows().size(), 1u);
  EXPECT_EQ(profile.rows()[0].calls, 2);
}

struct RefusesProducts : Decorator {
  void run(const Kernel& call) override {
    const auto* binary = std::get_if<kernels::Binary>(&call.any());
    if (binary && binary->op == BinaryOp::multiply) throw Error("refused");
    forward(call);
  }
};

TEST_F(Profiles, LoseNothingWhenACallThrows) {
  const Tensor x = empty({3});
  RefusesProducts refuses;
  Profile profile;
  binary(BinaryOp::add, x);
  EXPECT_THROW(binary(BinaryOp::multiply, x), Error);
  EXPECT_EQ(profile.rows().size(), 1u);
  EXPECT_EQ(profile.rows()[0].calls, 1);
  EXPECT_EQ(profile.rows()[0].seconds, 2);
}

TEST_F(Profiles, KeepFewMoments) {
  const Tensor x = empty({1});
  Profile profile;
  for (int i = 0; i < 20'000; ++i) {
    binary(BinaryOp::add, x);
    ASSERT_LE(moments, 1 << 15);
  }
  EXPECT_EQ(profile.rows()[0].calls, 20'000);
  EXPECT_EQ(profile.rows()[0].seconds, 40'000);
  EXPECT_EQ(moments, 0);
}

void expect_within_the_hosts_time(Device device) {
  const Tensor x = Tensor::empty({1 << 20}, {.device = device});
  backend_for(device).services().synchronize();
  const auto begin = std::chrono::steady_clock::now();
  Profile profile;
  run(kernels::Fill{.y = x, .value = 1});
  const double seconds = profile.rows().at(0).seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_LE(seconds,
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

TEST(Profile, TakesNoLongerThanTheHostSees) {
  expect_within_the_hosts_time(Device::cpu());
  const SecondDevice second;
  expect_within_the_hosts_time(Device::cuda());
}

TEST(Arithmetic, IsTheOperandsOfProductsAndF32Elsewhere) {
  const auto product = [](DType dtype, MathMode math) {
    const Tensor x = Tensor::empty({2, 2}, {.dtype = dtype});
    return arithmetic_of(Kernel(kernels::Matmul{.a = x, .b = x, .y = x, .math = math}));
  };
  EXPECT_EQ(product(DType::f32, MathMode::exact), Arithmetic::f32);
  EXPECT_EQ(product(DType::f32, MathMode::tf32), Arithmetic::tf32);
  EXPECT_EQ(product(DType::bf16, MathMode::tf32), Arithmetic::bf16);
  EXPECT_EQ(product(DType::f16, MathMode::exact), Arithmetic::f16);
  EXPECT_EQ(product(DType::f64, MathMode::exact), Arithmetic::f64);
  const auto copied = [](DType dtype) {
    const Tensor x = Tensor::empty({2}, {.dtype = dtype});
    return arithmetic_of(Kernel(kernels::Copy{.x = x, .y = x}));
  };
  EXPECT_EQ(copied(DType::bf16), Arithmetic::f32);
  EXPECT_EQ(copied(DType::f64), Arithmetic::f64);
}

// A TFLOP/s and half a TB/s.
const Ceilings ceilings{.bytes_per_second = 0.5e12,
                        .flops_per_second = {{Arithmetic::f32, 1e12}, {Arithmetic::bf16, 8e12}}};

TEST(Roofline, MeasuresTheTimeBeyondTheNearerCeiling) {
  ProfileRow row{.arithmetic = Arithmetic::f32, .seconds = 8e-3, .flops = 2e9, .bytes = 0.5e9};
  Roofline line = roofline(row, ceilings);  // 2 ms to compute, 1 ms to move
  EXPECT_DOUBLE_EQ(line.of_arithmetic, 0.25);
  EXPECT_DOUBLE_EQ(line.of_memory, 0.125);
  EXPECT_DOUBLE_EQ(line.least_seconds, 2e-3);
  EXPECT_DOUBLE_EQ(line.lost_seconds, 6e-3);
  row.arithmetic = Arithmetic::bf16;  // 0.25 ms to compute
  line = roofline(row, ceilings);
  EXPECT_DOUBLE_EQ(line.of_arithmetic, 1.0 / 32);
  EXPECT_DOUBLE_EQ(line.least_seconds, 1e-3);
  EXPECT_DOUBLE_EQ(line.lost_seconds, 7e-3);
}

TEST(Roofline, LosesLessThanNothingFromACache) {
  const ProfileRow row{.seconds = 1e-3, .bytes = 1e9};
  const Roofline line = roofline(row, ceilings);
  EXPECT_DOUBLE_EQ(line.of_memory, 2);
  EXPECT_DOUBLE_EQ(line.lost_seconds, -1e-3);
}

TEST(Roofline, WantsBothCeilings) {
  const ProfileRow row{.kernel = "copy", .arithmetic = Arithmetic::f64, .seconds = 1};
  expect_error<Error>([&] { return roofline(row, ceilings).lost_seconds; },
                      "[roofline] got ceilings of 0 flops/s in f64 and 500000000000 bytes/s for "
                      "copy; give positive ones");
}

}  // namespace
}  // namespace adret

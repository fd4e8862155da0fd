// Each of our own convolution kernels, on every problem that it says it can run, against loops on
// the CPU.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/conv_direct.h>
#include <adret/core/cuda/workspace.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "on_gpu.h"
#include "tests/support/guarded.h"
#include "tests/support/reference.h"

namespace adret::cuda {
namespace {

using test::Sums;
using test::Values;

struct ConvCase {
  const char* name;
  test::ConvSizes sizes;
  bool on_tensor_cores;  // in every direction with stride 1, else not the gradient of x
};
void PrintTo(const ConvCase& c, std::ostream* out) { *out << c.name; }

// n, h, w, c, o, kh, kw, {stride, padding, dilation, groups}
const ConvCase cases[] = {
    {"lenet_1", {3, 28, 28, 1, 6, 5, 5, {.padding = 2}}, true},
    {"lenet_1_bands_for_all", {300, 28, 28, 1, 6, 5, 5, {.padding = 2}}, true},
    {"lenet_2", {5, 14, 14, 6, 16, 5, 5, {}}, true},
    {"lenet_2_bands_of_several_images", {1500, 14, 14, 6, 16, 5, 5, {}}, true},
    {"mnist_cnn", {2, 28, 28, 1, 32, 3, 3, {}}, true},
    {"mnist_cnn_long", {200, 28, 28, 1, 32, 3, 3, {}}, true},
    {"resnet18_stem", {3, 32, 32, 3, 64, 3, 3, {.padding = 1}}, true},
    {"resnet18_stem_long", {140, 32, 32, 3, 64, 3, 3, {.padding = 1}}, true},
    {"resnet50_stem", {2, 64, 62, 3, 64, 7, 7, {.stride = 2, .padding = 3}}, true},
    {"two_channels", {4, 9, 11, 2, 8, 3, 3, {.padding = 1}}, true},
    {"two_channels_strided", {4, 9, 11, 2, 9, 3, 3, {.stride = 2, .padding = 1}}, true},
    {"three_channels_odd_sizes", {3, 13, 17, 3, 5, 3, 5, {.padding = {1, 2}}}, true},
    {"four_channels_odd_strides", {3, 15, 14, 4, 12, 5, 3, {.stride = {1, 2}, .padding = 2}}, true},
    {"five_channels", {2, 10, 7, 5, 7, 3, 3, {.padding = 1}}, true},
    {"six_to_six", {2, 8, 8, 6, 6, 3, 3, {.padding = 2}}, true},
    {"eight_to_sixteen", {2, 16, 16, 8, 16, 3, 3, {.padding = 1}}, true},
    {"sixteen_to_thirty_two", {2, 12, 12, 16, 32, 3, 3, {.padding = 1}}, true},
    {"sixteen_to_six", {2, 14, 14, 16, 6, 5, 5, {.padding = 4}}, true},
    {"twenty_channels", {2, 9, 9, 20, 24, 3, 3, {}}, true},
    {"pointwise", {2, 8, 8, 12, 20, 1, 1, {}}, true},
    {"one_pixel", {1, 3, 3, 3, 4, 3, 3, {}}, true},
    {"sixteen_pixels", {1, 6, 6, 3, 4, 3, 3, {}}, true},
    {"seventeen_pixels", {17, 3, 3, 3, 4, 3, 3, {}}, true},
    {"tiny_images", {700, 4, 4, 2, 3, 3, 3, {.padding = 1}}, true},
    {"more_outputs_than_a_block_has", {2, 9, 9, 3, 72, 3, 3, {.padding = 1}}, false},
    {"wide_rows", {1, 3, 700, 1, 3, 3, 3, {.padding = 1}}, true},
    {"padding_beyond_the_kernel", {2, 3, 3, 2, 2, 2, 2, {.padding = 4}}, true},
    {"sixteen_taps", {2, 9, 9, 1, 4, 4, 4, {}}, true},
    {"wide", {3, 32, 32, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_two_strips", {2, 4, 80, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_two_by_eight", {1, 2, 8, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_rows_of_24", {70, 10, 22, 64, 64, 3, 3, {.padding = {1, 2}}}, false},
    {"wide_one_pixel", {1, 1, 1, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_odd_sizes", {3, 13, 21, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_without_padding", {2, 19, 41, 64, 64, 3, 3, {}}, false},
    {"wide_padding_of_two_and_none", {5, 7, 9, 64, 64, 3, 3, {.padding = {2, 0}}}, false},
    {"wide_tiles_for_all", {150, 3, 70, 64, 64, 3, 3, {.padding = 1}}, false},
    {"wide_rows_of_56", {1, 56, 56, 64, 64, 3, 3, {.padding = 1}}, false},
    {"dilated", {2, 12, 11, 4, 9, 3, 3, {.padding = 2, .dilation = 2}}, false},
    {"two_groups", {2, 7, 8, 6, 10, 3, 3, {.padding = 1, .groups = 2}}, false},
    {"depthwise", {2, 9, 10, 8, 8, 3, 3, {.padding = 1, .groups = 8}}, false},
};

// Numbers that every dtype has, TF32 among them, so that only sums are rounded.
Values short_values(int64_t count, uint32_t seed) {
  Values values = test::random_values(count, seed);
  for (double& value : values) value = std::round(value * 64) / 64;
  return values;
}

// Device memory of numbers in a dtype, `offset` elements off the alignment, with NaN around.
class Operand {
 public:
  Operand(const Values& values, DType dtype, int64_t offset)
      : dtype_(dtype),
        size_(size_of(dtype)),
        begin_(guard + size_t(offset) * size_),
        bytes_(begin_ + values.size() * size_ + guard, 0xFF) {
    for (size_t i = 0; i < values.size(); ++i) encode(values[i], &bytes_[begin_ + i * size_]);
    ADRET_CHECK(cudaMalloc(memory_.out(), bytes_.size()));
    write();
  }
  void* data() const { return static_cast<uint8_t*>(memory_.get()) + begin_; }
  // Before a kernel writes it: all NaN.
  void clear() {
    std::fill(bytes_.begin(), bytes_.end(), uint8_t(0xFF));
    write();
  }
  void read() {
    ADRET_CHECK(cudaDeviceSynchronize());
    ADRET_CHECK(cudaMemcpy(bytes_.data(), memory_, bytes_.size(), cudaMemcpyDeviceToHost));
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  Values values() const {
    Values values;
    for (size_t at = begin_; at + guard < bytes_.size(); at += size_) {
      values.push_back(decode(&bytes_[at]));
    }
    return values;
  }
  bool guards_intact() const {
    const auto intact = [](uint8_t byte) { return byte == 0xFF; };
    return std::all_of(bytes_.begin(), bytes_.begin() + long(begin_), intact) &&
           std::all_of(bytes_.end() - guard, bytes_.end(), intact);
  }

 private:
  static constexpr size_t guard = 1024;
  static void free_memory(void* data) { cudaFree(data); }

  void write() {
    ADRET_CHECK(cudaDeviceSynchronize());
    ADRET_CHECK(cudaMemcpy(memory_, bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice));
    ADRET_CHECK(cudaDeviceSynchronize());  // it returns before a small copy is there
  }
  void encode(double value, uint8_t* to) const {
    const float single = float(value);
    const __nv_bfloat16 brain = __float2bfloat16(single);
    const __half half = __float2half(single);
    switch (dtype_) {
      case DType::f64: std::memcpy(to, &value, 8); break;
      case DType::f32: std::memcpy(to, &single, 4); break;
      case DType::bf16: std::memcpy(to, &brain, 2); break;
      default: std::memcpy(to, &half, 2);
    }
  }
  double decode(const uint8_t* from) const {
    double value;
    float single;
    __nv_bfloat16 brain;
    __half half;
    switch (dtype_) {
      case DType::f64: std::memcpy(&value, from, 8); return value;
      case DType::f32: std::memcpy(&single, from, 4); return single;
      case DType::bf16: std::memcpy(&brain, from, 2); return __bfloat162float(brain);
      default: std::memcpy(&half, from, 2); return __half2float(half);
    }
  }

  DType dtype_;
  size_t size_, begin_;
  std::vector<uint8_t> bytes_;
  Handle<void*, free_memory> memory_;
};

void expect_equal(const Operand& actual, const Sums& expected, DType dtype) {
  EXPECT_TRUE(actual.guards_intact()) << "wrote beyond the output";
  const double rounding = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
  const Values values = actual.values();
  ASSERT_EQ(values.size(), expected.value.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double e = expected.value[i];
    ASSERT_NEAR(values[i], e, rounding * std::abs(e) + 0x1p-20 * expected.magnitude[i] + 1e-7)
        << "element " << i;
  }
}

struct Mode {
  DType dtype;
  MathMode math;
  int64_t offset;
};
constexpr Mode modes[] = {
    {DType::f32, MathMode::tf32, 0},   {DType::f32, MathMode::tf32, 1},
    {DType::f32, MathMode::exact, 0},  {DType::bf16, MathMode::exact, 0},
    {DType::bf16, MathMode::exact, 1}, {DType::bf16, MathMode::exact, 2},
    {DType::f16, MathMode::exact, 0},  {DType::f64, MathMode::exact, 0},
};

class ConvDirect : public OnGpu<::testing::TestWithParam<ConvCase>> {
 protected:
  const test::ConvSizes& sizes() const { return GetParam().sizes; }
  ConvCall call(ConvDirection direction, const Mode& mode, bool has_bias, Operand& x,
                Operand& weight, Operand& y, Operand& bias) const {
    const auto view = [&](const Operand& operand, const Shape& shape) {
      static const IntrusivePtr<Storage> storage = Storage::placeholder(1, Device::cuda());
      TensorView view;
      view.storage = storage.get();  // else it would be undefined
      view.data = operand.data();
      view.shape = shape;
      view.dtype = mode.dtype;
      return view;
    };
    const test::ConvSizes& s = sizes();
    const TensorView vx = view(x, s.x()), vw = view(weight, s.weight()), vy = view(y, s.y());
    const TensorView vb = has_bias ? view(bias, {s.o}) : TensorView();
    switch (direction) {
      case ConvDirection::forward:
        return conv_call(kernels::Conv2dForward{
            .x = vx,
            .weight = vw,
            .bias = vb,
            .y = vy,
            .conv = s.conv,
            .activation = has_bias ? kernels::Activation::relu : kernels::Activation::none,
            .math = mode.math});
      case ConvDirection::backward_input:
        return conv_call(kernels::Conv2dBackwardInput{
            .dy = vy, .weight = vw, .dx = vx, .conv = s.conv, .math = mode.math});
      default:
        return conv_call(kernels::Conv2dBackwardWeight{
            .x = vx, .dy = vy, .dweight = vw, .dbias = vb, .conv = s.conv, .math = mode.math});
    }
  }

  // Every kernel in every mode; `bias_sums` are those of the bias's gradient.
  void check(ConvDirection direction, bool has_bias, const Sums& expected,
             const Sums* bias_sums = nullptr) const {
    for (const Mode& mode : modes) {
      Operand x(x_, mode.dtype, mode.offset), weight(weight_, mode.dtype, mode.offset);
      Operand y(dy_, mode.dtype, mode.offset), bias(bias_, mode.dtype, mode.offset);
      Operand* const results[] = {&y, &x, &weight};
      Operand& result = *results[size_t(direction)];
      const ConvCall made = call(direction, mode, has_bias, x, weight, y, bias);
      for (const DirectKernel kernel : direct_kernels) {
        SCOPED_TRACE("direct " + std::to_string(int(kernel)) + ": " + to_string(made.problem));
        const bool can = can_run(context(), kernel, made.problem);
        if (kernel == DirectKernel::tensor) expect_offered(can, direction, mode);
        if (kernel == DirectKernel::wide) {
          EXPECT_EQ(can, is_wide(direction, mode));
        }
        if (!can) continue;
        Workspace workspace(context(), workspace_of(context(), kernel, made.problem));
        std::vector<uint8_t> first;
        for (int i = 0; i < 2; ++i) {
          result.clear();
          if (bias_sums) bias.clear();
          run_direct(context(), kernel, made.problem, made.operands, workspace.data());
          result.read();
          if (i == 0) first = result.bytes();
        }
        EXPECT_TRUE(first == result.bytes()) << "other bits in the second run";
        expect_equal(result, expected, mode.dtype);
        if (!bias_sums || !sums_bias(kernel)) continue;
        bias.read();
        expect_equal(bias, *bias_sums, mode.dtype);
      }
    }
  }
  bool is_wide(ConvDirection direction, const Mode& mode) const {
    const test::ConvSizes& s = sizes();
    const Shape y = s.y();
    const bool is_ragged = y[1] % 2 != 0 || y[2] % 8 != 0;
    if (direction == ConvDirection::backward_weight && is_ragged) return false;
    const cudaDeviceProp& device = context().properties;
    return device.major == 9 && device.minor == 0 && s.c == 64 && s.o == 64 && s.kh == 3 &&
           s.kw == 3 && mode.offset == 0 && (mode.dtype == DType::bf16 || mode.dtype == DType::f16);
  }
  void expect_offered(bool offered, ConvDirection direction, const Mode& mode) const {
    const bool is_strided = sizes().conv.stride.h > 1 || sizes().conv.stride.w > 1;
    const bool has_cores = context().properties.major >= 8 && mode.dtype != DType::f64 &&
                           (mode.dtype != DType::f32 || mode.math == MathMode::tf32);
    if (!has_cores || (direction == ConvDirection::backward_input && is_strided)) {
      EXPECT_FALSE(offered);
    } else if (GetParam().on_tensor_cores) {
      const bool is_long = sizes().o > 32 || sizes().o * sizes().kh * sizes().kw > 416;
      if (direction == ConvDirection::backward_input && is_long) return;
      EXPECT_TRUE(offered);
    }
  }

  Values x_ = short_values(sizes().x().numel(), 1),
         weight_ = short_values(sizes().weight().numel(), 2), bias_ = short_values(sizes().o, 3),
         dy_ = short_values(sizes().y().numel(), 4);
};

TEST_P(ConvDirect, ForwardEqualsTheDefinition) {
  check(ConvDirection::forward, false, conv_forward(sizes(), x_, weight_, {}));
  Sums expected = conv_forward(sizes(), x_, weight_, bias_);
  for (double& value : expected.value) value = std::max(value, 0.0);
  check(ConvDirection::forward, true, expected);
}

TEST_P(ConvDirect, InputGradientEqualsTheDefinition) {
  check(ConvDirection::backward_input, false, conv_backward_input(sizes(), dy_, weight_));
}

TEST_P(ConvDirect, WeightGradientEqualsTheDefinition) {
  const Sums expected = conv_backward_weight(sizes(), x_, dy_);
  const Sums bias_sums = test::column_sums(dy_, sizes().o);
  check(ConvDirection::backward_weight, false, expected);
  check(ConvDirection::backward_weight, true, expected, &bias_sums);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConvDirect, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace adret::cuda

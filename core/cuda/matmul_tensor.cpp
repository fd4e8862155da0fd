// Which products go to tensor cores in which tilings.
#include <adret/core/cuda/matmul_tensor.h>
#include <adret/core/error.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace adret::cuda {
namespace {

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool can_compute(const cudaDeviceProp& device, const Product& p, DType dtype) {
  if (device.major < 8) return false;
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) return false;
  if (dtype == DType::f32 && p.math != MathMode::tf32) return false;
  // The kernel's places in a matrix are ints, and a grid has at most 65535 rows of tiles.
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  const int64_t largest = std::max({p.rows * p.depth, p.depth * p.columns, p.rows * p.columns}) *
                          int64_t(size_of(dtype));
  return largest <= most && p.rows <= int64_t(1) << 19;
}

// Microseconds on an H200 beyond those of any launch, roughly: good enough to order tilings.
double estimate(const cudaDeviceProp& device, const Product& p, DType dtype,
                const TensorTiling& tiling) {
  constexpr double multiprocessor_rate = 80e3, cache_rate = 5e6;          // bytes in a microsecond
  constexpr double exchange = 1;                                          // of sums in a cluster
  const double multiply_adds_rate = dtype == DType::f32 ? 0.8e6 : 1.6e6;  // of a multiprocessor
  const auto depth = double(depth_share(p.depth, tiling.splits, dtype));
  const int64_t blocks =
      divide_up(p.rows, tiling.tile) * divide_up(p.columns, tiling.tile) * p.batch * tiling.splits;
  const auto rows = double(std::min<int64_t>(tiling.tile, p.rows));
  const auto columns = double(std::min<int64_t>(tiling.tile, p.columns));
  const double bytes = ((rows + columns) * depth + rows * columns) * double(size_of(dtype));
  const auto rounds = double(divide_up(blocks, device.multiProcessorCount));
  return std::max({rounds * bytes / multiprocessor_rate, double(blocks) * bytes / cache_rate,
                   rounds * tiling.tile * tiling.tile * depth / multiply_adds_rate}) +
         (tiling.splits > 1 ? exchange : 0);
}

}  // namespace

int64_t depth_share(int64_t depth, int splits, DType dtype) {
  const int64_t step = tensor_step_bytes / int64_t(size_of(dtype));
  return divide_up(divide_up(depth, splits), step) * step;
}

std::vector<TensorTiling> tensor_tilings(const cudaDeviceProp& device, const Product& product,
                                         DType dtype) {
  if (!can_compute(device, product, dtype)) return {};
  std::vector<std::pair<double, TensorTiling>> found;
  for (const int tile : {16, 32, 64}) {
    const int most_splits = device.major >= 9 ? most_tensor_splits : 1;
    for (int splits = 1; splits <= most_splits; splits *= 2) {
      // Each block has some of the depth.
      if (depth_share(product.depth, splits, dtype) * (splits - 1) >= product.depth) break;
      const TensorTiling tiling{tile, splits};
      found.emplace_back(estimate(device, product, dtype, tiling), tiling);
    }
  }
  std::ranges::stable_sort(found, {}, &std::pair<double, TensorTiling>::first);
  std::vector<TensorTiling> tilings;
  for (const auto& [time, tiling] : found) tilings.push_back(tiling);
  return tilings;
}

void multiply_tensor(Context& context, const Product& product, const ProductOperands& operands,
                     TensorTiling tiling) {
  switch (operands.y.dtype) {
    case DType::f32: return multiply_tensor_f32(context, product, operands, tiling);
    case DType::bf16: return multiply_tensor_bf16(context, product, operands, tiling);
    case DType::f16: return multiply_tensor_f16(context, product, operands, tiling);
    default: throw Error("[matmul] tensor cores multiply f32, bf16 and f16 only");
  }
}

}  // namespace adret::cuda

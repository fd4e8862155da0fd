// Tensor maps are made by the driver, which is asked for the function when it is first needed.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/tensor_map.h>
#include <adret/core/error.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <array>

namespace adret::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result{};
  ADRET_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                               cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess || !function) {
    throw DeviceError("[tensor_map] the driver has no cuTensorMapEncodeTiled; update it");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

CUtensorMap tensor_map(const void* data, DType dtype, std::span<const int64_t> sizes,
                       std::span<const int64_t> box, std::span<const int64_t> steps) {
  static const Encode encode = find_encode();
  constexpr size_t most = 5;
  std::array<cuuint64_t, most> dims{}, strides{};
  std::array<cuuint32_t, most> tile{}, every{};
  cuuint64_t stride = 2;
  for (size_t i = 0; i < sizes.size(); ++i) {
    dims[i] = cuuint64_t(sizes[i]);
    tile[i] = cuuint32_t(box[i]);
    every[i] = 1;
    stride *= dims[i];
    strides[i] = i < steps.size() ? 2 * cuuint64_t(steps[i]) : stride;
  }
  const auto type =
      dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMap map;
  const CUresult status = encode(
      &map, type, cuuint32_t(sizes.size()), const_cast<void*>(data), dims.data(), strides.data(),
      tile.data(), every.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError(
        fmt::format("[tensor_map] the driver cannot describe sizes {} with tiles of {}: error {}",
                    fmt::join(sizes, " x "), fmt::join(box, " x "), int(status)));
  }
  return map;
}

}  // namespace adret::cuda

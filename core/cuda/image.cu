// Augmentation of images: a block works out what is drawn for its image and writes it in vectors.
#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/image_plan.h>

namespace adret::cuda {
namespace {

using namespace kernels;

struct Augmentation {
  AugmentParams params;
  ImageSizes sizes;
  int32_t channels, out_channels;
  FastDivisor by_channels, by_width;  // of the output
  uint32_t key[2], call;
  uint32_t elements;  // of an output image
};

// A pixel of the image, or black, or cut out.
struct Source {
  const uint8_t* pixel;  // null: black
  bool cut;
};

__device__ inline Source locate(const Augmentation& a, const ImagePlan& plan, const uint8_t* image,
                                int32_t row, int32_t column) {
  if (plan.cut.contains(row, column) || plan.erased.contains(row, column)) return {nullptr, true};
  const SourcePixel from = source_of(plan, a.sizes, a.params.border, row, column);
  if (from.row < 0 || from.column < 0) return {nullptr, false};
  return {image + (int64_t(from.row) * a.sizes.w + from.column) * a.channels, false};
}

template <class T>
__device__ inline T value_of(const Augmentation& a, const Source& source, int32_t c) {
  if (c >= a.channels) return T(0.0f);
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (source.cut) return a.params.fill[c];
    return source.pixel ? source.pixel[c] : uint8_t(0);
  } else {
    if (source.cut) return T(0.0f);
    const float level = source.pixel ? float(source.pixel[c]) : 0.0f;
    return T(fmaf(level, a.params.scale[c], a.params.shift[c]));
  }
}

// Block (i, part) writes its part of image i, `n` elements of a row of pixels at a time.
template <class T, int n>
__global__ void augment_images(const uint8_t* x, const int64_t* indices, const int64_t* ids,
                               const int64_t* epoch, T* y, const __grid_constant__ Augmentation a) {
  __shared__ ImagePlan plan;
  __shared__ int64_t index;
  if (threadIdx.x == 0) {
    index = indices ? indices[blockIdx.x] : int64_t(blockIdx.x);
    const int64_t id = ids ? ids[blockIdx.x] : 0;
    plan = plan_image(a.params, a.sizes,
                      SampleWords(a.key[0], a.key[1], a.call, id, epoch ? *epoch : 0));
  }
  __syncthreads();
  const uint8_t* const image = x + index * a.sizes.h * a.sizes.w * a.channels;
  T* const out = y + int64_t(blockIdx.x) * a.elements;
  const uint32_t step = gridDim.y * blockDim.x * n;
  for (uint32_t first = (blockIdx.y * blockDim.x + threadIdx.x) * n; first < a.elements;
       first += step) {
    const uint32_t place = a.by_channels.quotient(first);
    int32_t c = int32_t(first - place * uint32_t(a.out_channels));
    int32_t row = int32_t(a.by_width.quotient(place));
    int32_t column = int32_t(place) - row * a.sizes.out_w;
    Source source = locate(a, plan, image, row, column);
    Vector<T, n> values;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (k > 0 && ++c == a.out_channels) {
        c = 0;
        if (++column == a.sizes.out_w) {
          column = 0;
          ++row;
        }
        source = locate(a, plan, image, row, column);
      }
      values.at[k] = value_of<T>(a, source, c);
    }
    *reinterpret_cast<Vector<T, n>*>(out + first) = values;
  }
}

template <class T, int n>
void augment_in(const Context& context, const AugmentImages& call, const Augmentation& a) {
  constexpr int threads = 256, vectors_per_thread = 4;
  const int64_t parts =
      std::min<int64_t>(divide_up(a.elements, n * threads * vectors_per_thread), 65535);
  const Grid grid{.blocks = dim3(unsigned(call.y.shape[0]), unsigned(parts)), .threads = threads};
  launch(context, augment_images<T, n>, grid, call.x.as<const uint8_t>(),
         call.indices.as<const int64_t>(), call.ids.as<const int64_t>(),
         call.epoch.as<const int64_t>(), call.y.as<T>(), a);
}

}  // namespace

void run(Context& context, const kernels::AugmentImages& call) {
  if (call.y.numel() == 0) return;
  const auto size = [](const TensorView& view, int dim) { return int32_t(view.shape[dim]); };
  const auto key = philox_key(call.key);
  const Augmentation a{.params = call.augment,
                       .sizes = {.h = size(call.x, 1),
                                 .w = size(call.x, 2),
                                 .out_h = size(call.y, 1),
                                 .out_w = size(call.y, 2)},
                       .channels = size(call.x, 3),
                       .out_channels = size(call.y, 3),
                       .by_channels = FastDivisor(uint32_t(call.y.shape[3])),
                       .by_width = FastDivisor(uint32_t(call.y.shape[2])),
                       .key = {key[0], key[1]},
                       .call = call.key.call,
                       .elements = uint32_t(call.y.numel() / call.y.shape[0])};
  const auto augment = [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = 16 / int(sizeof(T));
    if (aligned_16(call.y.as<T>()) && a.elements % n == 0) {
      augment_in<T, n>(context, call, a);
    } else {
      augment_in<T, 1>(context, call, a);
    }
  };
  if (call.y.dtype == DType::u8) return augment(uint8_t{});
  dispatch_float(call.y.dtype, call.name, augment);
}

}  // namespace adret::cuda

// Batches of images: where something is drawn, a block works it out once for its image.
#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/image_plan.h>

namespace adret::cuda {
namespace {

using namespace kernels;

constexpr int block_threads = 256;

// Blocks of which each does a few vectors a thread of one image.
Grid grid_by_image(int64_t images, int64_t elements, int n) {
  const int64_t parts =
      std::min<int64_t>(divide_up(elements, int64_t(n) * block_threads * 4), 65535);
  return {.blocks = dim3(unsigned(images), unsigned(parts)), .threads = block_threads};
}

// -- augmentation --------------------------------------------------------------------------------

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
  begin_kernel();
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
  launch(context, augment_images<T, n>, grid_by_image(call.y.shape[0], a.elements, n),
         call.x.as<const uint8_t>(), call.indices.as<const int64_t>(), call.ids.as<const int64_t>(),
         call.epoch.as<const int64_t>(), call.y.as<T>(), a);
}

// -- resampling ----------------------------------------------------------------------------------

constexpr int weight_bits = 22;

// A thread sums for one level of y: j of `inner` dense ones at a place of an image.
template <class Divisor>
__global__ void resample_images(const uint8_t* x, const int32_t* weights, uint8_t* y,
                                Divisor by_inner, Divisor by_places, int64_t from, int64_t columns,
                                typename Divisor::Index count) {
  begin_kernel();
  using Index = typename Divisor::Index;
  const int64_t inner = int64_t(by_inner.divisor());
  for (Index i = Index(first_item()); i < count; i += Index(all_threads())) {
    const Index item = by_inner.quotient(i), image = by_places.quotient(item);
    const int64_t place = int64_t(item - image * by_places.divisor());
    const int32_t* const row = weights + place * columns;
    const uint8_t* at =
        x + (int64_t(image) * from + row[0]) * inner + int64_t(i - item * by_inner.divisor());
    int32_t sum = 1 << (weight_bits - 1);
    for (int32_t k = 0; k < row[1]; ++k, at += inner) sum += row[2 + k] * int32_t(*at);
    sum >>= weight_bits;
    y[i] = uint8_t(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
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

void run(Context& context, const kernels::ResampleImages& call) {
  const int64_t count = call.y.numel();
  if (count == 0) return;
  const int64_t inner = call.dim == 1 ? call.x.shape[2] * call.x.shape[3] : call.x.shape[3];
  with_divisor(inner, count, [&](auto by_inner) {
    using Divisor = decltype(by_inner);
    using Index = typename Divisor::Index;
    launch(context, resample_images<Divisor>, grid_for(context, count), call.x.as<const uint8_t>(),
           call.weights.as<const int32_t>(), call.y.as<uint8_t>(), by_inner,
           Divisor(Index(call.y.shape[call.dim])), call.x.shape[call.dim], call.weights.shape[1],
           Index(count));
  });
}

}  // namespace adret::cuda

// Mixing of images on a GPU, and of their targets.
#include <adret/core/cuda/fast_divisor.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/multiprocessors.h>
#include <adret/core/cuda_part.h>
#include <adret/core/kernels/mix_images.h>

namespace adret::cuda {
namespace {

using namespace kernels;

constexpr int block_threads = 256;

struct Mixing {
  FastDivisor by_channels, by_width;
  int32_t channels, width;
  uint32_t elements;  // of an image
};

// Block (i, part) mixes its part of image i, `n` elements at a time.
template <class T, int n>
__global__ void mix_images(const T* x, const int64_t* partners, const MixWords* words, T* y,
                           Mixing mixing) {
  begin_kernel();
  using A = Accumulator<T>;
  const MixWords word = *words;
  const A kept = A(word.kept) * A(0x1p-24);
  const T* const own = x + int64_t(blockIdx.x) * mixing.elements;
  const T* const other = x + partners[blockIdx.x] * mixing.elements;
  T* const out = y + int64_t(blockIdx.x) * mixing.elements;
  const uint32_t step = gridDim.y * blockDim.x * n;
  for (uint32_t first = (blockIdx.y * blockDim.x + threadIdx.x) * n; first < mixing.elements;
       first += step) {
    const uint32_t pixel = mixing.by_channels.quotient(first);
    int32_t c = int32_t(first - pixel * uint32_t(mixing.channels));
    int32_t row = int32_t(mixing.by_width.quotient(pixel));
    int32_t column = int32_t(pixel) - row * mixing.width;
    const auto from_own = *reinterpret_cast<const Vector<T, n>*>(own + first);
    const auto from_other = *reinterpret_cast<const Vector<T, n>*>(other + first);
    Vector<T, n> values;
#pragma unroll
    for (int k = 0; k < n; ++k) {
      if (k > 0 && ++c == mixing.channels) {
        c = 0;
        if (++column == mixing.width) {
          column = 0;
          ++row;
        }
      }
      const bool within =
          row >= word.top && row < word.bottom && column >= word.left && column < word.right;
      const A a = widen(from_own.at[k]), b = widen(from_other.at[k]);
      values.at[k] = within      ? from_other.at[k]
                     : kept == 1 ? from_own.at[k]
                                 : narrow<T>(fma(kept, a - b, b));
    }
    *reinterpret_cast<Vector<T, n>*>(out + first) = values;
  }
}

template <class Target, class Label>
__global__ void mix_targets(const Label* labels, const int64_t* partners, const MixWords* words,
                            Target* targets, int64_t classes, int64_t count) {
  begin_kernel();
  const int64_t kept = words->target_kept, whole = int64_t(1) << 24;
  for (int64_t i = first_item(); i < count; i += all_threads()) {
    const int64_t sample = i / classes, c = i - sample * classes;
    const int64_t own = int64_t(labels[sample]), other = int64_t(labels[partners[sample]]);
    if (own < 0 || own >= classes || other < 0 || other >= classes) {
      targets[i] = Target(NAN);
    } else {
      const int64_t share = (c == own ? kept : 0) + (c == other ? whole - kept : 0);
      targets[i] = Target(share) * Target(0x1p-24);
    }
  }
}

struct Operands {
  const TensorView &x, &labels, &partners, &words, &y, &targets;
  cudaStream_t stream;
};

template <class T, int n>
void mix_in(const Operands& o, const Mixing& mixing) {
  // Blocks of which each does a few vectors a thread of one image.
  const int64_t parts =
      std::min<int64_t>(divide_up(mixing.elements, int64_t(n) * block_threads * 4), 65535);
  mix_images<T, n><<<dim3(unsigned(o.x.shape[0]), unsigned(parts)), block_threads, 0, o.stream>>>(
      o.x.as<const T>(), o.partners.as<const int64_t>(), o.words.as<const MixWords>(), o.y.as<T>(),
      mixing);
}

template <class Target, class Label>
void mix_targets_of(const Operands& o) {
  const int64_t count = o.targets.numel();
  const int64_t most = int64_t(multiprocessors()) * (2048 / block_threads) * 8;
  const auto blocks = unsigned(std::min(divide_up(count, block_threads), most));
  mix_targets<Target, Label><<<blocks, block_threads, 0, o.stream>>>(
      o.labels.as<const Label>(), o.partners.as<const int64_t>(), o.words.as<const MixWords>(),
      o.targets.as<Target>(), o.targets.shape[1], count);
}

void run(const MixImages& mix, const CustomCall& call, cudaStream_t stream) {
  const Operands o{.x = call.inputs[0],
                   .labels = call.inputs[1],
                   .partners = call.inputs[2],
                   .words = call.inputs[3],
                   .y = call.outputs[0],
                   .targets = call.outputs[1],
                   .stream = stream};
  if (o.y.numel() > 0) {
    const Mixing mixing{.by_channels = FastDivisor(uint32_t(o.x.shape[3])),
                        .by_width = FastDivisor(uint32_t(o.x.shape[2])),
                        .channels = int32_t(o.x.shape[3]),
                        .width = int32_t(o.x.shape[2]),
                        .elements = uint32_t(o.x.numel() / o.x.shape[0])};
    dispatch_float(o.x.dtype, mix.name, [&](auto zero) {
      using T = decltype(zero);
      constexpr int n = 16 / int(sizeof(T));
      const bool in_vectors = aligned_16(o.x.as<T>(), o.y.as<T>()) && mixing.elements % n == 0;
      in_vectors ? mix_in<T, n>(o, mixing) : mix_in<T, 1>(o, mixing);
    });
  }
  if (o.targets.numel() == 0) return;
  const bool wide = o.targets.dtype == DType::f64;
  if (o.labels.dtype == DType::i32) {
    wide ? mix_targets_of<double, int32_t>(o) : mix_targets_of<float, int32_t>(o);
  } else {
    wide ? mix_targets_of<double, int64_t>(o) : mix_targets_of<float, int64_t>(o);
  }
}

const CudaPart<MixImages> mix_images_part(run);

}  // namespace
}  // namespace adret::cuda

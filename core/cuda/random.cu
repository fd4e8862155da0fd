// Random fills and dropout: a thread draws the Philox blocks of a few neighbouring elements.
#include <adret/core/backend.h>
#include <adret/core/cuda/group.h>
#include <adret/core/cuda/kernels.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/random_words.h>
#include <adret/core/tensor.h>

#include <cmath>

namespace adret::cuda {
namespace {

// How many elements a thread handles at once: whole blocks of words and whole 16-byte vectors.
template <class T>
constexpr int group_size = sizeof(T) == 2 ? 8 : 4;

bool aligned(const void* data, size_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

template <class T>
struct Interval {
  Accumulator<T> low, width, last;
};

// In [0, 1) from 24 bits, or 53 of two words.
__device__ inline float unit(const uint32_t* word, float) { return float(word[0] >> 8) * 0x1p-24f; }
__device__ inline double unit(const uint32_t* word, double) {
  const uint64_t bits = word[0] | uint64_t(word[1]) << 32;
  return double(bits >> 11) * 0x1p-53;
}

template <class T>
__global__ void fill_uniform(T* y, int64_t count, WordSequence sequence, Interval<T> interval,
                             bool vectors) {
  begin_kernel();
  constexpr int n = group_size<T>, per = sizeof(T) == 8 ? 2 : 1;
  for (int64_t first = first_item() * n; first < count; first += all_threads() * n) {
    uint32_t words[n * per];
    sequence.draw(first * per, words);
    Group<T, n> group;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const auto u = unit(words + i * per, Accumulator<T>());
      const auto value = widen(narrow<T>(fma(u, interval.width, interval.low)));
      group[i] = narrow<T>(interval.last < value ? interval.last : value);
    }
    group.store(y + first, count - first, vectors && first + n <= count);
  }
}

struct Dropping {
  uint32_t bound;  // dropped below it
  bool all, relu;
};

template <class T>
__global__ void dropout_forward(const T* x, T* y, uint8_t* mask, int64_t count,
                                WordSequence sequence, Dropping dropping, Accumulator<T> scale,
                                bool vectors) {
  begin_kernel();
  constexpr int n = group_size<T>;
  for (int64_t first = first_item() * n; first < count; first += all_threads() * n) {
    const bool whole = vectors && first + n <= count;
    Group<T, n> group;
    group.load(x + first, count - first, whole);
    uint32_t words[n];
    sequence.draw(first, words);
    Group<uint8_t, n> kept;
#pragma unroll
    for (int i = 0; i < n; ++i) {
      kept[i] =
          words[i] >= dropping.bound && !dropping.all && !(dropping.relu && widen(group[i]) <= 0);
      group[i] = narrow<T>(kept[i] ? widen(group[i]) * scale : 0);
    }
    kept.store(mask + first, count - first, whole);
    group.store(y + first, count - first, whole);
  }
}

template <class T>
__global__ void dropout_backward(const T* dy, const uint8_t* mask, T* dx, int64_t count,
                                 Accumulator<T> scale, bool vectors) {
  begin_kernel();
  constexpr int n = group_size<T>;
  for (int64_t first = first_item() * n; first < count; first += all_threads() * n) {
    const bool whole = vectors && first + n <= count;
    Group<T, n> group;
    Group<uint8_t, n> kept;
    group.load(dy + first, count - first, whole);
    kept.load(mask + first, count - first, whole);
#pragma unroll
    for (int i = 0; i < n; ++i) group[i] = narrow<T>(kept[i] ? widen(group[i]) * scale : 0);
    group.store(dx + first, count - first, whole);
  }
}

}  // namespace

void run(Context& context, const kernels::RandomUniform& call) {
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const int64_t count = call.y.numel();
    launch(context, fill_uniform<T>, grid_for(context, divide_up(count, group_size<T>)),
           call.y.as<T>(), count, WordSequence(call.key, call.step),
           Interval<T>{A(call.low), A(call.high - call.low), A(call.last())},
           aligned_16(call.y.data));
  });
}

// Drawn in host memory and copied; waits for both ways.
void run(Context& context, const kernels::RandomNormal& call) {
  const auto passed = context.capture_gate.pass(
      "normals are drawn on the host",
      "draw them before the step, into what it reads, or take uniform numbers");
  int64_t step = 0;
  ADRET_CHECK(cudaMemcpyAsync(&step, call.step.data, sizeof(step), cudaMemcpyDeviceToHost,
                              context.compute));
  ADRET_CHECK(cudaStreamSynchronize(context.compute));
  const Tensor drawn = Tensor::empty(call.y.shape, {.dtype = call.y.dtype});
  backend_for(Device::cpu())
      .run(kernels::RandomNormal{.y = drawn,
                                 .step = Tensor::from<int64_t>({step}, {}),
                                 .key = call.key,
                                 .mean = call.mean,
                                 .std = call.std});
  ADRET_CHECK(cudaMemcpyAsync(call.y.data, drawn.data(), drawn.bytes(), cudaMemcpyHostToDevice,
                              context.compute));
  ADRET_CHECK(cudaStreamSynchronize(context.compute));
}

void run(Context& context, const kernels::DropoutForward& call) {
  // An element is dropped when its word is below p * 2^32, which may be one more than fits a word.
  const uint64_t threshold = uint64_t(std::ceil(call.p * 0x1p32));
  const bool all = threshold > 0xffffffffu;
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = call.y.numel();
    launch(context, dropout_forward<T>, grid_for(context, divide_up(count, group_size<T>)),
           call.x.as<T>(), call.y.as<T>(), call.mask.as<uint8_t>(), count,
           WordSequence(call.key, call.step),
           Dropping{uint32_t(threshold), all, call.activation == kernels::Activation::relu},
           Accumulator<T>(all ? 0 : 1 / (1 - call.p)),
           aligned_16(call.x.data, call.y.data) && aligned(call.mask.data, group_size<T>));
  });
}

void run(Context& context, const kernels::DropoutBackward& call) {
  dispatch_float(call.dx.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = call.dx.numel();
    launch(context, dropout_backward<T>, grid_for(context, divide_up(count, group_size<T>)),
           call.dy.as<T>(), call.mask.as<uint8_t>(), call.dx.as<T>(), count,
           Accumulator<T>(call.p < 1 ? 1 / (1 - call.p) : 0),
           aligned_16(call.dy.data, call.dx.data) && aligned(call.mask.data, group_size<T>));
  });
}

}  // namespace adret::cuda

// Running sums, running products and linear recurrences: a thread for each line when there are
// many, else a block.
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/multiprocessors.h>
#include <adret/core/cuda/team.h>
#include <adret/core/cuda_part.h>
#include <adret/core/kernels/scan.h>

#include <type_traits>

namespace adret::cuda {
namespace {

// Note [Scans on CUDA]
// An element is the map s -> factor * s + term of the state, and maps in a row are one map. So the
// threads of a block first merge the maps of a few neighbouring elements each, then learn the map
// of all elements before them in a scan over the block, and then run through their elements from
// the state that it gives. All of floats is kept in f64: merged factors overflow less, and sums are
// those of the CPU.

// V is f64, or the unsigned type of integers, which wraps.
template <class V>
struct Sum {
  using Value = V;
  V term = 0;
  static constexpr V start = 0;
  __device__ V operator()(V state) const { return state + term; }
  // This map, then another.
  __device__ Sum then(const Sum& next) const { return {term + next.term}; }
};

template <class V>
struct Product {
  using Value = V;
  V factor = 1;
  static constexpr V start = 1;
  __device__ V operator()(V state) const { return state * factor; }
  __device__ Product then(const Product& next) const { return {factor * next.factor}; }
};

template <class V>
struct Affine {
  using Value = V;
  V factor = 1, term = 0;
  static constexpr V start = 0;
  // 0 times anything is 0, also where factors were merged.
  __device__ V operator()(V state) const { return (state == 0 ? 0 : factor * state) + term; }
  __device__ Affine then(const Affine& next) const {
    return {factor == 0 ? 0 : factor * next.factor, next(term)};
  }
};

template <class Map, class T>
struct Lines {
  using Value = typename Map::Value;
  const T *a, *b;
  T* y;
  int64_t count, length, inner;
  bool reverse;

  __device__ int64_t first_place(int64_t line) const {
    const int64_t outer = line / inner;
    return outer * (length - 1) * inner + line + (reverse ? (length - 1) * inner : 0);
  }
  __device__ int64_t step() const { return reverse ? -inner : inner; }
  __device__ Map load(int64_t at) const {
    if constexpr (std::is_same_v<Map, Sum<Value>>) {
      return {value(b[at])};
    } else if constexpr (std::is_same_v<Map, Product<Value>>) {
      return {value(a[at])};
    } else {
      return {value(a[at]), value(b[at])};
    }
  }
  __device__ void store(int64_t at, Value state) const {
    if constexpr (std::is_integral_v<T>) {
      y[at] = T(state);
    } else {
      y[at] = narrow<T>(Accumulator<T>(state));
    }
  }

 private:
  __device__ static Value value(T element) {
    if constexpr (std::is_integral_v<T>) {
      return Value(element);
    } else {
      return Value(widen(element));
    }
  }
};

constexpr int unroll = 4;

template <class Map, class T>
__global__ void scan_by_threads(Lines<Map, T> lines) {
  begin_kernel();
  for (int64_t line = first_item(); line < lines.count; line += all_threads()) {
    typename Map::Value state = Map::start;
    const int64_t step = lines.step();
    int64_t at = lines.first_place(line), i = 0;
    for (; i + unroll <= lines.length; i += unroll, at += unroll * step) {
      Map maps[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) maps[u] = lines.load(at + u * step);
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        state = maps[u](state);
        lines.store(at + u * step, state);
      }
    }
    for (; i < lines.length; ++i, at += step) {
      state = lines.load(at)(state);
      lines.store(at, state);
    }
  }
}

constexpr int threads = 256, warps = threads / 32;

template <class Map>
struct Merged {
  Map before, all;  // of the threads before this one; of the whole block
};

// All threads of the block call it.
template <class Map>
__device__ Merged<Map> merge_block(Map own) {
  alignas(Map) __shared__ unsigned char storage[warps * sizeof(Map)];
  Map* const of_warps = reinterpret_cast<Map*>(storage);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const Map before = shuffle_up(own, distance);
    if (lane >= distance) own = before.then(own);
  }
  if (lane == 31) of_warps[warp] = own;
  Map before = shuffle_up(own, 1);
  if (lane == 0) before = Map();
  __syncthreads();
  Map warps_before, all;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) warps_before = all;
    all = all.then(of_warps[w]);
  }
  __syncthreads();  // before the next call writes
  return {warps_before.then(before), all};
}

template <class Map, class T>
__global__ void __launch_bounds__(threads) scan_by_blocks(Lines<Map, T> lines) {
  begin_kernel();
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    typename Map::Value state = Map::start;
    const int64_t step = lines.step(), first_place = lines.first_place(line);
    for (int64_t first = 0; first < lines.length; first += threads * unroll) {
      const int64_t own = first + int64_t(threadIdx.x) * unroll, at = first_place + own * step;
      Map maps[unroll], merged;
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        if (own + u < lines.length) maps[u] = lines.load(at + u * step);
        merged = merged.then(maps[u]);
      }
      const auto [before, all] = merge_block(merged);
      typename Map::Value own_state = before(state);
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        own_state = maps[u](own_state);
        if (own + u < lines.length) lines.store(at + u * step, own_state);
      }
      state = all(state);
    }
  }
}

template <class Map, class T>
void run_in(const kernels::Scan& scan, const CustomCall& call, cudaStream_t stream) {
  const TensorView& y = call.outputs[0];
  const int64_t length = y.shape[scan.dim], count = y.numel() / length;
  int64_t inner = 1;
  for (int d = scan.dim + 1; d < y.shape.rank(); ++d) inner *= y.shape[d];
  const Lines<Map, T> lines{call.inputs[0].as<T>(),
                            call.inputs[1].as<T>(),
                            y.as<T>(),
                            count,
                            length,
                            inner,
                            scan.reverse};
  // Neighbouring threads read neighbouring elements only when lines lie side by side.
  if (length <= 16 || (inner >= 32 && count >= 4096)) {
    const int64_t most = int64_t(multiprocessors()) * (2048 / threads) * 8;
    const auto blocks = unsigned(std::min(divide_up(count, threads), most));
    scan_by_threads<Map, T><<<blocks, threads, 0, stream>>>(lines);
    return;
  }
  const int64_t most = int64_t(multiprocessors()) * 64;
  scan_by_blocks<Map, T><<<unsigned(std::min(count, most)), threads, 0, stream>>>(lines);
}

template <class V, class T>
void run_with(const kernels::Scan& scan, const CustomCall& call, cudaStream_t stream) {
  if (!call.inputs[0].defined()) return run_in<Sum<V>, T>(scan, call, stream);
  if (!call.inputs[1].defined()) return run_in<Product<V>, T>(scan, call, stream);
  run_in<Affine<V>, T>(scan, call, stream);
}

void run(const kernels::Scan& scan, const CustomCall& call, cudaStream_t stream) {
  const TensorView& y = call.outputs[0];
  if (y.numel() == 0) return;
  if (y.dtype == DType::i64) return run_with<uint64_t, int64_t>(scan, call, stream);
  dispatch_float(y.dtype, scan.name,
                 [&](auto zero) { run_with<double, decltype(zero)>(scan, call, stream); });
}

const CudaPart<kernels::Scan> scan_part(run);

}  // namespace

}  // namespace adret::cuda

// Group and instance norm, and layer norm of rows that do not fit into registers.
#include <adret/core/cuda/group_norm.h>
#include <adret/core/cuda/vectors.h>
#include <adret/core/cuda/workspace.h>

#include <optional>

namespace adret::cuda {
namespace {

constexpr int most_threads = 512;
constexpr int slice_width = 64;  // channels of narrow groups that a block takes together

// Note [Slices of a sample]
// A block takes one group of a sample, or as many narrow ones as have 64 channels, over all places.
// Its threads form a matrix: a column has n neighbouring channels, and its threads take turns with
// the places. A group that is wider than the block has columns goes to it piece by piece. So all
// that a thread sees belongs to one group.
struct Slicing {
  int64_t samples, places, channels;
  int width, groups, at_once;  // width: channels of a group

  template <class Call>
  explicit Slicing(const Call& call)
      : samples(call.x.shape[0]),
        places(call.x.shape[1]),
        channels(call.x.shape[2]),
        width(int(channels / call.groups)),
        groups(int(call.groups)),
        at_once(std::clamp(slice_width / width, 1, groups)) {}
  int slices() const { return int(divide_up(groups, at_once)); }
  // Threads of a block, for vectors of n: some places to each.
  unsigned threads(int n) const {
    const int64_t vectors = int64_t(at_once) * width / n * places;
    return unsigned(std::clamp<uint64_t>(std::bit_ceil(uint64_t(divide_up(vectors, 4))),
                                         slice_width, most_threads));
  }
};

// A thread's place in the matrix of a slice, whose threads beyond the last whole row do nothing.
template <int n>
struct Spot {
  int first_group, groups, vectors, columns, rows, column, row, group;
  bool active;

  __device__ Spot(const Slicing& how, int slice)
      : first_group(slice * how.at_once),
        groups(min(how.at_once, how.groups - first_group)),
        vectors(groups * how.width / n),
        columns(min(vectors, int(blockDim.x))),
        rows(int(blockDim.x) / columns),
        column(int(threadIdx.x) % columns),
        row(int(threadIdx.x) / columns),
        group(groups == 1 ? 0 : column * n / how.width),
        active(row < rows) {}
  __device__ int columns_a_group() const { return columns / groups; }
  // One thread of each group.
  __device__ bool leads() const {
    return active && row == 0 && column == group * columns_a_group();
  }
};

// f(place, vectors) for the places of a thread in the column of channels from `channel` on, of
// arrays that may be null.
template <int n, int arrays, class T, class F>
__device__ void for_column(const T* const (&from)[arrays], const Slicing& how, const Spot<n>& spot,
                           int64_t sample, int64_t channel, F f) {
  constexpr int batch = 4;  // loaded before f sees the first
  const int64_t start = sample * how.places * how.channels + channel;
  for (int64_t place = spot.row; place < how.places; place += batch * spot.rows) {
    Vector<T, n> values[batch][arrays];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int64_t own = place + b * spot.rows;
#pragma unroll
      for (int a = 0; a < arrays; ++a) {
        if (own < how.places && from[a]) {
          values[b][a] = load<T, n>(from[a] + start + own * how.channels);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      const int64_t own = place + b * spot.rows;
      if (own < how.places) f(start + own * how.channels, values[b]);
    }
  }
}

// The same for all columns of a thread: f(channel, place, vectors).
template <int n, int arrays, class T, class F>
__device__ void for_slice(const T* const (&from)[arrays], const Slicing& how, const Spot<n>& spot,
                          int64_t sample, F f) {
  if (!spot.active) return;
  for (int v = spot.column; v < spot.vectors; v += spot.columns) {
    const int64_t channel = int64_t(spot.first_group) * how.width + int64_t(v) * n;
    for_column<n>(from, how, spot, sample, channel,
                  [&](int64_t at, const Vector<T, n>(&values)[arrays]) { f(channel, at, values); });
  }
}

// What the thread's group has in all, for each thread of it, in a fixed order. By the first barrier
// of a second call, all threads have read the totals of the first.
template <int n, class A>
__device__ TwoSums<A> sum_of_group(const TwoSums<A>& own, const Spot<n>& spot) {
  __shared__ A all[2][most_threads], totals[2][slice_width];
  all[0][threadIdx.x] = own.a;
  all[1][threadIdx.x] = own.b;
  __syncthreads();
  const int lane = int(threadIdx.x) % 32, wide = spot.columns_a_group();
  for (int group = int(threadIdx.x) / 32; group < spot.groups; group += int(blockDim.x) / 32) {
    TwoSums<A> total;
    for (int i = lane; i < spot.rows * wide; i += 32) {
      const int member = i / wide * spot.columns + group * wide + i % wide;
      total.a += all[0][member];
      total.b += all[1][member];
    }
    total = Lanes(32).reduce(total);
    if (lane != 0) continue;
    totals[0][group] = total.a;
    totals[1][group] = total.b;
  }
  __syncthreads();
  return {totals[0][spot.group], totals[1][spot.group]};
}

// -- forward -------------------------------------------------------------------------------------

// What is normalised.
template <class T, int n>
struct Summed {
  Accumulator<T> at[n];
  __device__ Summed(const SampleNorm<T>& f, const Vector<T, n> (&values)[2]) {
    widen(values[0], at);
    if (!f.added) return;
    Accumulator<T> added[n];
    widen(values[1], added);
#pragma unroll
    for (int i = 0; i < n; ++i) at[i] += added[i];
  }
};

template <int n, class T>
__global__ void __launch_bounds__(most_threads) normalise_slices(SampleNorm<T> f, Slicing how) {
  begin_kernel();
  using A = Accumulator<T>;
  using Values = const Vector<T, n>[2];
  const int slices = int(gridDim.x / how.samples);
  const int64_t sample = blockIdx.x / slices;
  const Spot<n> spot(how, int(blockIdx.x % slices));
  const T* const from[] = {f.x, f.added};
  const A count = A(how.places) * A(how.width);

  TwoSums<A> sums;
  if (f.centered) {
    for_slice<n>(from, how, spot, sample, [&](int64_t, int64_t, Values& values) {
      const Summed<T, n> s(f, values);
#pragma unroll
      for (int i = 0; i < n; ++i) sums.a += s.at[i];
    });
    sums = sum_of_group(sums, spot);
  }
  const A centre = sums.a / count;
  sums = {};
  for_slice<n>(from, how, spot, sample, [&](int64_t, int64_t, Values& values) {
    const Summed<T, n> s(f, values);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const A deviation = s.at[i] - centre;
      sums.a += deviation;
      sums.b += deviation * deviation;
    }
  });
  const SampleStatistics<A> statistics(centre, sum_of_group(sums, spot), count, f.centered,
                                       f.epsilon);
  if (spot.leads()) statistics.keep(f, sample * how.groups + spot.first_group + spot.group);
  for_slice<n>(from, how, spot, sample, [&](int64_t channel, int64_t at, Values& values) {
    Group<A, n> weight = parameters<n>(f.weight, channel, A(1));
    Group<A, n> bias = parameters<n>(f.bias, channel, A(0));
    Summed<T, n> s(f, values);
    if (f.sum) store<T, n>(f.sum + at, narrow<T>(s.at));
#pragma unroll
    for (int i = 0; i < n; ++i) {
      s.at[i] = (s.at[i] - centre - statistics.lost) * statistics.rstd * weight[i] + bias[i];
    }
    store<T, n>(f.y + at, narrow<T>(s.at));
  });
}

// -- backward ------------------------------------------------------------------------------------

// Sums of dy and of dy times the centred x for n channels of a thread.
template <int n, class A>
struct ColumnSums {
  TwoSums<A> at[n];
};

// Adds the sums of each of the block's channels, over its rows, to its part.
template <int n, class A>
__device__ void add_to_part(const ColumnSums<n, A>& own, const Slicing& how, const Spot<n>& spot,
                            int first_vector, A rstd, bool first, A* part) {
  __shared__ A all[2][most_threads * n];
  __shared__ A scales[most_threads];  // rstd of each column
#pragma unroll
  for (int i = 0; i < n; ++i) {
    all[0][int(threadIdx.x) * n + i] = own.at[i].a;
    all[1][int(threadIdx.x) * n + i] = own.at[i].b;
  }
  if (spot.row == 0) scales[spot.column] = rstd;
  __syncthreads();
  const int width = spot.columns * n, there = min(width, (spot.vectors - first_vector) * n);
  for (int c = int(threadIdx.x); c < there; c += int(blockDim.x)) {
    TwoSums<A> total;
#pragma unroll 4
    for (int row = 0; row < spot.rows; ++row) {
      total.a += all[0][row * width + c];
      total.b += all[1][row * width + c];
    }
    const int64_t channel = int64_t(spot.first_group) * how.width + first_vector * n + c;
    A &weight = part[channel], &bias = part[how.channels + channel];
    weight = (first ? A(0) : weight) + total.b * scales[c / n];
    bias = (first ? A(0) : bias) + total.a;
  }
  __syncthreads();
}

template <int n, class T>
__global__ void __launch_bounds__(most_threads)
    differentiate_slices(SampleNormGradients<T> f, Slicing how) {
  begin_kernel();
  using A = Accumulator<T>;
  const Spot<n> spot(how, int(blockIdx.x));
  const T* const from[] = {f.x, f.dy, f.dsum};
  const T* const two[] = {f.x, f.dy};
  const A count = A(how.places) * A(how.width);
  A* const part = f.parts ? f.parts + int64_t(blockIdx.y) * 2 * how.channels : nullptr;
  for (int64_t sample = blockIdx.y; sample < how.samples; sample += gridDim.y) {
    const int64_t group = sample * how.groups + spot.first_group + spot.group;
    const A centre = f.centre(group), rstd = f.rstd[group];
    TwoSums<A> sums;
    for (int first = 0; first < spot.vectors; first += spot.columns) {
      const int v = first + spot.column;
      ColumnSums<n, A> own;
      if (spot.active && v < spot.vectors) {
        const int64_t channel = int64_t(spot.first_group) * how.width + int64_t(v) * n;
        for_column<n>(two, how, spot, sample, channel,
                      [&](int64_t, const Vector<T, n>(&values)[2]) {
                        A x[n], gradient[n];
                        widen(values[0], x);
                        widen(values[1], gradient);
#pragma unroll
                        for (int i = 0; i < n; ++i) {
                          own.at[i].a += gradient[i];
                          own.at[i].b += gradient[i] * (x[i] - centre);
                        }
                      });
        Group<A, n> weight = parameters<n>(f.weight, channel, A(1));
#pragma unroll
        for (int i = 0; i < n; ++i) {
          sums.a += own.at[i].a * weight[i];
          sums.b += own.at[i].b * weight[i];
        }
      }
      if (part) add_to_part(own, how, spot, first, rstd, sample == blockIdx.y, part);
    }
    if (!f.dx) continue;
    const SampleSlopes<A> slopes(sum_of_group(sums, spot), count, f.centered, rstd);
    for_slice<n>(from, how, spot, sample,
                 [&](int64_t channel, int64_t at, const Vector<T, n>(&values)[3]) {
                   Group<A, n> weight = parameters<n>(f.weight, channel, A(1));
                   A x[n], gradient[n], more[n];
                   widen(values[0], x);
                   widen(values[1], gradient);
                   widen(values[2], more);
#pragma unroll
                   for (int i = 0; i < n; ++i) {
                     x[i] = slopes.gradient(gradient[i] * weight[i], x[i] - centre);
                     if (f.dsum) x[i] += more[i];
                   }
                   store<T, n>(f.dx + at, narrow<T>(x));
                 });
  }
}

template <int n, class T>
void differentiate(Context& context, SampleNormGradients<T> f,
                   const kernels::GroupNormBackward& call) {
  using A = Accumulator<T>;
  const Slicing how(call);
  const int64_t resident = divide_up(int64_t(context.multiprocessors()) * 2, how.slices());
  const int64_t blocks = std::min<int64_t>({how.samples, resident, 65535});
  std::optional<Workspace> workspace;
  if (call.dweight.defined() || call.dbias.defined()) {
    workspace.emplace(context, size_t(blocks * 2 * how.channels) * sizeof(A));
    f.parts = workspace->as<A>();
  }
  launch(context, differentiate_slices<n, T>,
         {.blocks = dim3(unsigned(how.slices()), unsigned(blocks)), .threads = how.threads(n)}, f,
         how);
  if (f.parts) add_parameter_parts(context, f.parts, blocks, call);
}

template <int n, class T>
void normalise(Context& context, const SampleNorm<T>& f, const Slicing& how) {
  launch(context, normalise_slices<n, T>,
         {.blocks = unsigned(how.samples * how.slices()), .threads = how.threads(n)}, f, how);
}

}  // namespace

void normalise_places(Context& context, const kernels::GroupNormForward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = sizeof(T) == 8 ? 1 : 16 / int(sizeof(T));
    if (reads_vectors<T>(call)) {
      normalise<n>(context, operands_of<T>(call), Slicing(call));
    } else {
      normalise<1>(context, operands_of<T>(call), Slicing(call));
    }
  });
}

void differentiate_places(Context& context, const kernels::GroupNormBackward& call) {
  dispatch_float(call.x.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    constexpr int n = sizeof(T) == 8 ? 1 : 16 / int(sizeof(T));
    if (reads_vectors<T>(call)) {
      differentiate<n>(context, operands_of<T>(call), call);
    } else {
      differentiate<1>(context, operands_of<T>(call), call);
    }
  });
}

}  // namespace adret::cuda

// Recurrent layers as their kernels see them on the device: places of steps, and the arithmetic of
// cells.
#pragma once

#include <adret/core/cuda/device_math.h>
#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/kernels/recurrent.h>

#include <cstdint>

namespace adret::cuda {

// Of a call: step i of a sample, in the order of computing, and its place in time.
struct RecurrentSteps {
  int64_t samples, steps, hidden;
  kernels::RecurrentCell cell;
  bool reverse;
  Indices lengths;

  // y is (N, T, H).
  RecurrentSteps(const TensorView& y, const TensorView& lengths,
                 const kernels::RecurrentParams& params)
      : samples(y.shape[0]),
        steps(y.shape[1]),
        hidden(y.shape[2]),
        cell(params.cell),
        reverse(params.reverse),
        lengths(indices_of(lengths)) {}

  __device__ int64_t length(int64_t sample) const {
    if (!lengths.data) return steps;
    const int64_t length = lengths[sample];
    return length < 0 ? 0 : length < steps ? length : steps;
  }
  // A step from `length` on is none, but its place is told, too.
  __device__ int64_t place(int64_t sample, int64_t length, int64_t i) const {
    return sample * steps + (reverse && i < length ? length - 1 - i : i);
  }
};

// A sample's unit at a step.
struct RecurrentUnit {
  int64_t sample, unit, i, length;
  __device__ bool exists() const { return i < length; }
  __device__ bool is_last() const { return i == length - 1; }
};

template <class A>
__device__ inline A tanh_of(A x) {
  return tanh(x);
}

// -- forward -------------------------------------------------------------------------------------

template <class T>
struct RecurrentForwardCall : RecurrentSteps {
  using A = Accumulator<T>;
  const T *x, *bias, *h0, *c0;
  T *y, *h, *c, *saved, *cells;
  A* cell_state = nullptr;  // (N, H) of lstm: the c of the step before, in full precision

  explicit RecurrentForwardCall(const kernels::RecurrentForward& call)
      : RecurrentSteps(call.y, call.lengths, call.recurrent),
        x(call.x.as<T>()),
        bias(call.bias.as<T>()),
        h0(call.h0.as<T>()),
        c0(call.c0.as<T>()),
        y(call.y.as<T>()),
        h(call.h.as<T>()),
        c(call.c.as<T>()),
        saved(call.saved.as<T>()),
        cells(call.cells.as<T>()) {}

  // What a step can read early: the input's part of the gates and the bias.
  template <int G>
  struct Input {
    A gate[G] = {}, bias[G] = {};
  };
  template <int G>
  __device__ Input<G> load(const RecurrentUnit& at) const {
    Input<G> input;
    if (!at.exists()) return input;
    const int64_t place = this->place(at.sample, at.length, at.i);
#pragma unroll
    for (int g = 0; g < G; ++g) {
      input.gate[g] = widen<T>(x[(place * G + g) * hidden + at.unit]);
      if (bias) input.bias[g] = widen<T>(bias[g * hidden + at.unit]);
    }
    return input;
  }

  // The step of a unit that exists, from the products of h by gates; gives the new h.
  template <int G>
  __device__ A step(const RecurrentUnit& at, const Input<G>& in, A (&product)[G], A before) const {
    const int64_t place = this->place(at.sample, at.length, at.i);
    const int64_t state = at.sample * hidden + at.unit;
    const A(&input)[G] = in.gate;
#pragma unroll
    for (int g = 0; g < G; ++g) product[g] += in.bias[g];
    A result;
    if constexpr (G == 1) {
      const A gate = input[0] + product[0];
      result = cell == kernels::RecurrentCell::relu ? (gate < 0 ? A(0) : gate) : tanh_of(gate);
    } else if constexpr (G == 4) {
      const A i = sigmoid(input[0] + product[0]), f = sigmoid(input[1] + product[1]),
              g = tanh_of(input[2] + product[2]), o = sigmoid(input[3] + product[3]);
      const A next = f * cell_state[state] + i * g;
      cell_state[state] = next;
      result = o * tanh_of(next);
      keep(place, at.unit, i, f, g, o);
      if (cells) cells[place * hidden + at.unit] = narrow<T>(next);
      if (at.is_last()) c[state] = narrow<T>(next);
    } else {
      const A r = sigmoid(input[0] + product[0]), z = sigmoid(input[1] + product[1]),
              n = tanh_of(input[2] + r * product[2]);
      result = (1 - z) * n + z * before;
      keep(place, at.unit, r, z, n, product[2]);
    }
    y[place * hidden + at.unit] = narrow<T>(result);
    if (at.is_last()) h[state] = narrow<T>(result);
    return result;
  }

  __device__ void keep(int64_t place, int64_t unit, A a, A b, A c, A d) const {
    if (!saved) return;
    T* const to = saved + place * 4 * hidden + unit;
    to[0] = narrow<T>(a);
    to[hidden] = narrow<T>(b);
    to[2 * hidden] = narrow<T>(c);
    to[3 * hidden] = narrow<T>(d);
  }

  // Where a sample has no step.
  __device__ void clear(const RecurrentUnit& at) const {
    y[place(at.sample, at.length, at.i) * hidden + at.unit] = narrow<T>(A(0));
  }
  // The first state, to the outputs and to cell_state: before the steps.
  __device__ A begin(int64_t state) const {
    const A first = h0 ? widen<T>(h0[state]) : A(0);
    h[state] = narrow<T>(first);
    if (!cell_state) return first;
    cell_state[state] = c0 ? widen<T>(c0[state]) : A(0);
    c[state] = narrow<T>(cell_state[state]);
    return first;
  }
};

// f with std::integral_constant of the number of gates.
template <class F>
void with_gates(int64_t gates, F f) {
  if (gates == 1) return f(std::integral_constant<int, 1>{});
  if (gates == 3) return f(std::integral_constant<int, 3>{});
  f(std::integral_constant<int, 4>{});
}

// -- in one launch -------------------------------------------------------------------------------

// Whether they did: see recurrent_together.h.
bool run_in_one_launch(Context& context, const kernels::RecurrentForward& call);
bool run_in_one_launch(Context& context, const kernels::RecurrentBackward& call);

}  // namespace adret::cuda

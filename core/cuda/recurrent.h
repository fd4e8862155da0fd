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

// -- backward ------------------------------------------------------------------------------------

template <class T>
struct RecurrentBackwardCall : RecurrentSteps {
  using A = Accumulator<T>;
  const T *h0, *c0, *y, *saved, *cells, *dy, *dh, *dc;
  T *dx, *dhidden, *dh0, *dc0;
  // (N, H): what reaches the state before a step outside the product of its gates, and its c.
  A *direct = nullptr, *cell_state = nullptr;

  explicit RecurrentBackwardCall(const kernels::RecurrentBackward& call)
      : RecurrentSteps(call.y, call.lengths, call.recurrent),
        h0(call.h0.as<T>()),
        c0(call.c0.as<T>()),
        y(call.y.as<T>()),
        saved(call.saved.as<T>()),
        cells(call.cells.as<T>()),
        dy(call.dy.as<T>()),
        dh(call.dh.as<T>()),
        dc(call.dc.as<T>()),
        dx(call.dx.as<T>()),
        dhidden(call.dhidden.as<T>()),
        dh0(call.dh0.as<T>()),
        dc0(call.dc0.as<T>()) {}

  // The element, or 0 where the operand is undefined.
  __device__ static A at_or_zero(const T* data, int64_t i) {
    return data ? widen<T>(data[i]) : A(0);
  }

  // What a step can read early.
  struct Input {
    A dy = 0, y = 0, h_before = 0, cell = 0, cell_before = 0, saved[4] = {};
  };
  template <int G>
  __device__ Input load(const RecurrentUnit& at) const {
    Input in;
    if (!at.exists()) return in;
    const int64_t place = this->place(at.sample, at.length, at.i);
    const int64_t state = at.sample * hidden + at.unit, here = place * hidden + at.unit;
    const int64_t before = this->place(at.sample, at.length, at.i - 1) * hidden + at.unit;
    in.dy = at_or_zero(dy, here);
    if (G == 1) in.y = widen<T>(y[here]);
    if (G == 3) in.h_before = at.i > 0 ? widen<T>(y[before]) : at_or_zero(h0, state);
    if (G == 4) {
      in.cell = widen<T>(cells[here]);
      in.cell_before = at.i > 0 ? widen<T>(cells[before]) : at_or_zero(c0, state);
    }
    if (G > 1) {
#pragma unroll
      for (int k = 0; k < 4; ++k) in.saved[k] = widen<T>(saved[(place * 4 + k) * hidden + at.unit]);
    }
    return in;
  }

  // The step of a unit that exists; `product` is what came through the gates of the step behind it.
  // `gates` gets the gradients of h weight^T + bias.
  template <int G>
  __device__ void step(const RecurrentUnit& at, const Input& in, A product, T (&gates)[G]) const {
    const int64_t place = this->place(at.sample, at.length, at.i);
    const int64_t state = at.sample * hidden + at.unit;
    const A d = in.dy + (at.is_last() ? at_or_zero(dh, state) : direct[state] + product);
    A of_x[G], past = 0;
    if constexpr (G == 1) {
      const A value = in.y;
      of_x[0] =
          cell == kernels::RecurrentCell::relu ? (value <= 0 ? A(0) : d) : d * (1 - value * value);
    } else if constexpr (G == 4) {
      const A i = in.saved[0], f = in.saved[1], g = in.saved[2], o = in.saved[3],
              c = tanh_of(in.cell);
      const A dcell =
          (at.is_last() ? at_or_zero(dc, state) : cell_state[state]) + d * o * (1 - c * c);
      of_x[0] = dcell * g * i * (1 - i);
      of_x[1] = dcell * in.cell_before * f * (1 - f);
      of_x[2] = dcell * i * (1 - g * g);
      of_x[3] = d * c * o * (1 - o);
      cell_state[state] = dcell * f;
    } else {
      const A r = in.saved[0], z = in.saved[1], n = in.saved[2], q = in.saved[3];
      of_x[2] = d * (1 - z) * (1 - n * n);
      of_x[0] = of_x[2] * q * r * (1 - r);
      of_x[1] = d * (in.h_before - n) * z * (1 - z);
      past = d * z;
      gates[2] = narrow<T>(of_x[2] * r);
    }
    direct[state] = past;
#pragma unroll
    for (int g = 0; g < G; ++g) {
      const T rounded = narrow<T>(of_x[g]);
      const int64_t to = (place * G + g) * hidden + at.unit;
      if (G != 3 || g < 2) gates[g] = rounded;
      dx[to] = rounded;
      if (G == 3) dhidden[to] = gates[g];
    }
  }

  // Where a sample has no step.
  template <int G>
  __device__ void clear(const RecurrentUnit& at) const {
    const int64_t place = this->place(at.sample, at.length, at.i);
    for (int g = 0; g < G; ++g) {
      const int64_t to = (place * G + g) * hidden + at.unit;
      dx[to] = narrow<T>(A(0));
      if (G == 3) dhidden[to] = narrow<T>(A(0));
    }
  }
  // The gradients of the first state, behind all steps.
  __device__ void finish(const RecurrentUnit& at, A product) const {
    const int64_t state = at.sample * hidden + at.unit;
    const bool stepped = at.length > 0;
    if (dh0) dh0[state] = narrow<T>(stepped ? direct[state] + product : at_or_zero(dh, state));
    if (dc0) dc0[state] = narrow<T>(stepped ? cell_state[state] : at_or_zero(dc, state));
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

// The backward pass of recurrent layers as its kernels see it on the device.
#pragma once

#include <adret/core/cuda/recurrent.h>

namespace adret::cuda {

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

}  // namespace adret::cuda

// Recurrent layers forward: Note [Recurrent layers on the CPU].
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/recurrent.h>
#include <adret/core/vector_math.h>

#include <array>
#include <optional>

namespace adret::cpu {
namespace {

using kernels::RecurrentCell;

// Of a sample's step: up to block_width units from `unit` on.
template <class T>
struct Units {
  int64_t count, hidden;             // gates are `hidden` apart
  const T *x, *before;               // the input's part of the gates, and the h before
  std::array<T*, 4> product;         // h weight^T + bias, by gates; overwritten
  T *y, *after, *c, *saved, *cells;  // after: h for the next step; optional from saved on

  void finish(int64_t j, T h) const { y[j] = after[j] = h; }
  void keep() const {
    if (!saved) return;
    for (int64_t g = 0; g < 4; ++g) std::copy_n(product[size_t(g)], count, saved + g * hidden);
  }
};

template <class T>
void simple_cell(const Units<T>& u, bool is_relu) {
  const T* const sum = u.product[0];
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    const T gate = u.x[j] + sum[j];
    u.finish(j, is_relu ? (gate < 0 ? T(0) : gate) : cpu::tanh(gate));
  }
}

template <class T>
void lstm_cell(const Units<T>& u) {
  const auto [i, f, g, o] = u.product;
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    i[j] = cpu::sigmoid(u.x[j] + i[j]);
    f[j] = cpu::sigmoid(u.x[u.hidden + j] + f[j]);
    g[j] = cpu::tanh(u.x[2 * u.hidden + j] + g[j]);
    o[j] = cpu::sigmoid(u.x[3 * u.hidden + j] + o[j]);
    u.c[j] = f[j] * u.c[j] + i[j] * g[j];
    u.finish(j, o[j] * cpu::tanh(u.c[j]));
  }
  u.keep();
  if (u.cells) std::copy_n(u.c, u.count, u.cells);
}

template <class T>
void gru_cell(const Units<T>& u) {
  const auto [r, z, q, n] = u.product;  // q is the product for n
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    r[j] = cpu::sigmoid(u.x[j] + r[j]);
    z[j] = cpu::sigmoid(u.x[u.hidden + j] + z[j]);
    n[j] = cpu::tanh(u.x[2 * u.hidden + j] + r[j] * q[j]);
    u.finish(j, (1 - z[j]) * n[j] + z[j] * u.before[j]);
  }
  Units<T> in_order = u;
  in_order.product = {r, z, n, q};
  in_order.keep();
}

template <class T>
class Forward {
 public:
  explicit Forward(const kernels::RecurrentForward& call)
      : call_(call),
        steps_(call.y, call.lengths, call.recurrent),
        state_(2 * steps_.samples * steps_.hidden) {
    const T* const weight = call.weight.as<T>();
    const int64_t hidden = steps_.hidden;
    for (int64_t g = 0; g < steps_.gates; ++g) {
      const T* const of_gate = weight + g * hidden * hidden;
      weights_[size_t(g)].emplace(
          hidden, hidden, [&](int64_t k, int64_t column) { return of_gate[column * hidden + k]; });
    }
    begin();
  }

  void run() {
    const int64_t blocks = weights_[0]->blocks();
    const int64_t operations = steps_.gates * steps_.hidden * steps_.hidden;
    over_recurrent_steps(steps_, blocks, operations,
                         [&](int64_t i, const RecurrentPart& part) { step(i, part); });
  }

 private:
  // The h before step i, (N, H).
  T* state(int64_t i) const { return state_.data() + i % 2 * steps_.samples * steps_.hidden; }

  // What is there before the first step: h and c as they come in, and zeros where no step is.
  void begin() const {
    const int64_t hidden = steps_.hidden;
    const auto copy = [&](const T* from, T* to) {
      from ? std::copy_n(from, hidden, to) : std::fill_n(to, hidden, T(0));
    };
    for (int64_t n = 0; n < steps_.samples; ++n) {
      const T* const h0 = state_row<T>(call_.h0, n);
      copy(h0, state(0) + n * hidden);
      copy(h0, state_row<T>(call_.h, n));
      if (call_.c.defined()) copy(state_row<T>(call_.c0, n), state_row<T>(call_.c, n));
      std::fill_n(state(1) + n * hidden, hidden, T(0));
      for (int64_t i = steps_.length(n); i < steps_.steps; ++i) {
        std::fill_n(place_row<T>(call_.y, steps_.place(n, i)), hidden, T(0));
      }
    }
  }

  void step(int64_t i, const RecurrentPart& part) const {
    for (int64_t b = part.block; b < part.end_block; ++b) {
      for_each_row_tile(part, [&](int64_t first, auto rows) {
        alignas(vector_bytes) T products[4][rows * block_width<T>];
        for (size_t g = 0; g < size_t(steps_.gates); ++g) {
          weights_[g]->template multiply<rows>(state(i) + first * steps_.hidden, b, products[g]);
        }
        for (int64_t row = 0; row < rows; ++row) {
          if (i >= steps_.length(first + row)) continue;
          const int64_t at = row * block_width<T>;
          cell(i, first + row, b,
               {products[0] + at, products[1] + at, products[2] + at, products[3] + at});
        }
      });
    }
  }

  void cell(int64_t i, int64_t n, int64_t block, const std::array<T*, 4>& product) const {
    const int64_t hidden = steps_.hidden, unit = block * block_width<T>, place = steps_.place(n, i);
    const auto from_unit = [&](auto* row) { return row ? row + unit : row; };
    const Units<T> u{.count = std::min(block_width<T>, hidden - unit),
                     .hidden = hidden,
                     .x = from_unit(place_row<const T>(call_.x, place)),
                     .before = state(i) + n * hidden + unit,
                     .product = product,
                     .y = from_unit(place_row<T>(call_.y, place)),
                     .after = state(i + 1) + n * hidden + unit,
                     .c = from_unit(state_row<T>(call_.c, n)),
                     .saved = from_unit(place_row<T>(call_.saved, place)),
                     .cells = from_unit(place_row<T>(call_.cells, place))};
    if (call_.bias.defined()) {
      for (int64_t g = 0; g < steps_.gates; ++g) {
        const T* const bias = call_.bias.as<T>() + g * hidden + unit;
        for (int64_t j = 0; j < u.count; ++j) product[size_t(g)][j] += bias[j];
      }
    }
    switch (steps_.cell) {
      case RecurrentCell::tanh:
      case RecurrentCell::relu: simple_cell(u, steps_.cell == RecurrentCell::relu); break;
      case RecurrentCell::lstm: lstm_cell(u); break;
      case RecurrentCell::gru: gru_cell(u); break;
    }
    if (i == steps_.length(n) - 1) std::copy_n(u.y, u.count, from_unit(state_row<T>(call_.h, n)));
  }

  const kernels::RecurrentForward& call_;
  const RecurrentSteps steps_;
  Workspace<T> state_;
  std::array<std::optional<PackedColumns<T>>, 4> weights_;
};

}  // namespace

void run(const kernels::RecurrentForward& call) {
  if (call.y.numel() == 0) return;
  dispatch_float(call.x.dtype, call.name, [&](auto zero) { Forward<decltype(zero)>(call).run(); });
}

}  // namespace adret::cpu

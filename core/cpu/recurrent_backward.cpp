// Recurrent layers backward: Note [Recurrent layers on the CPU].
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/recurrent.h>
#include <adret/core/vector_math.h>

namespace adret::cpu {
namespace {

using kernels::RecurrentCell;

// Of a sample's step: units from `unit` on.
template <class T>
struct Units {
  int64_t count, hidden;                                   // gates are `hidden` apart
  const T *dy, *y, *before, *cells, *cell_before, *saved;  // null for zeros
  T *dh, *dc;           // of the state behind the step; replaced by that of the one before, of h by
                        // what reaches it outside the product
  T *dgates, *dhidden;  // of the gates' sums, and of the hidden state's part; the same but for gru

  T gradient(int64_t j) const { return dy ? dh[j] + dy[j] : dh[j]; }
  static T at(const T* row, int64_t j) { return row ? row[j] : T(0); }
};

template <class T>
void simple_cell(const Units<T>& u, bool is_relu) {
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    const T d = u.gradient(j), y = u.y[j];
    u.dgates[j] = is_relu ? (y <= 0 ? T(0) : d) : d * (1 - y * y);
    u.dh[j] = 0;
  }
}

template <class T>
void lstm_cell(const Units<T>& u) {
  const T *is = u.saved, *fs = is + u.hidden, *gs = fs + u.hidden, *os = gs + u.hidden;
  T *di = u.dgates, *df = di + u.hidden, *dg = df + u.hidden, *d_o = dg + u.hidden;
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    const T d = u.gradient(j), i = is[j], f = fs[j], g = gs[j], o = os[j];
    const T c = cpu::tanh(u.cells[j]);
    const T dc = u.dc[j] + d * o * (1 - c * c);
    di[j] = dc * g * i * (1 - i);
    df[j] = dc * Units<T>::at(u.cell_before, j) * f * (1 - f);
    dg[j] = dc * i * (1 - g * g);
    d_o[j] = d * c * o * (1 - o);
    u.dc[j] = dc * f;
    u.dh[j] = 0;
  }
}

template <class T>
void gru_cell(const Units<T>& u) {
  const T *rs = u.saved, *zs = rs + u.hidden, *ns = zs + u.hidden, *qs = ns + u.hidden;
  T *dr = u.dgates, *dz = dr + u.hidden, *dn = dz + u.hidden;
  T *hr = u.dhidden, *hz = hr + u.hidden, *hn = hz + u.hidden;
#pragma GCC ivdep
  for (int64_t j = 0; j < u.count; ++j) {
    const T d = u.gradient(j), r = rs[j], z = zs[j], n = ns[j];
    dn[j] = d * (1 - z) * (1 - n * n);
    dr[j] = hr[j] = dn[j] * qs[j] * r * (1 - r);
    dz[j] = hz[j] = d * (Units<T>::at(u.before, j) - n) * z * (1 - z);
    hn[j] = dn[j] * r;
    u.dh[j] = d * z;
  }
}

template <class T>
class Backward {
 public:
  explicit Backward(const kernels::RecurrentBackward& call)
      : call_(call),
        steps_(call.y, call.lengths, call.recurrent),
        weight_(steps_.gates * steps_.hidden, steps_.hidden,
                [&](int64_t k, int64_t column) {
                  return call.weight.as<T>()[k * steps_.hidden + column];
                }),
        dh_(steps_.samples * steps_.hidden),
        dc_(steps_.samples * steps_.hidden),
        dhidden_(2 * steps_.samples * steps_.gates * steps_.hidden) {
    begin();
  }

  void run() {
    const int64_t operations = steps_.gates * steps_.hidden * steps_.hidden;
    over_recurrent_steps(steps_, weight_.blocks(), operations,
                         [&](int64_t back, const RecurrentPart& part) {
                           const int64_t i = steps_.steps - 1 - back;
                           if (back > 0) add_product(i + 1, part);
                           cells(i, part);
                         });
    over_samples([&](const RecurrentPart& part) { add_product(0, part); });
    end();
  }

 private:
  template <class F>
  void over_samples(F f) const {
    const int64_t grain = chunk_count(steps_.samples, num_threads());
    parallel_for(steps_.samples, grain, [&](int64_t begin, int64_t end) {
      f(RecurrentPart{begin, end, 0, weight_.blocks()});
    });
  }

  // The gradients of the last state, and zeros where no step is.
  void begin() const {
    const int64_t hidden = steps_.hidden, row = steps_.gates * hidden;
    const auto copy = [&](const T* from, T* to) {
      from ? std::copy_n(from, hidden, to) : std::fill_n(to, hidden, T(0));
    };
    for (int64_t n = 0; n < steps_.samples; ++n) {
      copy(state_row<T>(call_.dh, n), dh_.data() + n * hidden);
      copy(state_row<T>(call_.dc, n), dc_.data() + n * hidden);
      for (int64_t i = steps_.length(n); i < steps_.steps; ++i) {
        const int64_t place = steps_.place(n, i);
        std::fill_n(place_row<T>(call_.dx, place), row, T(0));
        if (call_.dhidden.defined()) std::fill_n(place_row<T>(call_.dhidden, place), row, T(0));
      }
    }
  }

  // The gradients of what step i adds to the state, (N, G H). Two steps have their own: threads
  // read one while others write the next.
  T* dhidden(int64_t i) const {
    return dhidden_.data() + i % 2 * steps_.samples * steps_.gates * steps_.hidden;
  }

  // To the gradient of the state before step i.
  void add_product(int64_t i, const RecurrentPart& part) const {
    const int64_t hidden = steps_.hidden;
    for (int64_t b = part.block; b < part.end_block; ++b) {
      for_each_row_tile(part, [&](int64_t first, auto rows) {
        alignas(vector_bytes) T products[rows * block_width<T>];
        weight_.template multiply<rows>(dhidden(i) + first * steps_.gates * hidden, b, products);
        const int64_t unit = b * block_width<T>, count = std::min(block_width<T>, hidden - unit);
        for (int64_t row = 0; row < rows; ++row) {
          if (i >= steps_.length(first + row)) continue;
          T* const dh = dh_.data() + (first + row) * hidden + unit;
          for (int64_t j = 0; j < count; ++j) dh[j] += products[row * block_width<T> + j];
        }
      });
    }
  }

  void cells(int64_t i, const RecurrentPart& part) const {
    for (int64_t n = part.sample; n < part.end_sample; ++n) {
      if (i >= steps_.length(n)) continue;
      for (int64_t b = part.block; b < part.end_block; ++b) cell(i, n, b * block_width<T>);
    }
  }

  void cell(int64_t i, int64_t n, int64_t unit) const {
    const int64_t hidden = steps_.hidden, place = steps_.place(n, i), row = steps_.gates * hidden;
    const auto from_unit = [&](auto* row) { return row ? row + unit : row; };
    // Of the state before, as it was.
    const auto before = [&](const TensorView& steps, const TensorView& first) {
      return from_unit(i > 0 ? place_row<const T>(steps, steps_.place(n, i - 1))
                             : state_row<const T>(first, n));
    };
    const Units<T> u{.count = std::min(block_width<T>, hidden - unit),
                     .hidden = hidden,
                     .dy = from_unit(place_row<const T>(call_.dy, place)),
                     .y = from_unit(place_row<const T>(call_.y, place)),
                     .before = before(call_.y, call_.h0),
                     .cells = from_unit(place_row<const T>(call_.cells, place)),
                     .cell_before = before(call_.cells, call_.c0),
                     .saved = from_unit(place_row<const T>(call_.saved, place)),
                     .dh = dh_.data() + n * hidden + unit,
                     .dc = dc_.data() + n * hidden + unit,
                     .dgates = from_unit(place_row<T>(call_.dx, place)),
                     .dhidden = dhidden(i) + n * row + unit};
    switch (steps_.cell) {
      case RecurrentCell::tanh:
      case RecurrentCell::relu: simple_cell(u, steps_.cell == RecurrentCell::relu); break;
      case RecurrentCell::lstm: lstm_cell(u); break;
      case RecurrentCell::gru: gru_cell(u); break;
    }
    const bool is_gru = steps_.cell == RecurrentCell::gru;
    const T* const from = is_gru ? u.dhidden : u.dgates;
    T* const to = is_gru ? from_unit(place_row<T>(call_.dhidden, place)) : u.dhidden;
    for (int64_t g = 0; g < row; g += hidden) std::copy_n(from + g, u.count, to + g);
  }

  void end() const {
    const int64_t size = steps_.samples * steps_.hidden;
    if (call_.dh0.defined()) std::copy_n(dh_.data(), size, call_.dh0.as<T>());
    if (call_.dc0.defined()) std::copy_n(dc_.data(), size, call_.dc0.as<T>());
  }

  const kernels::RecurrentBackward& call_;
  const RecurrentSteps steps_;
  const PackedColumns<T> weight_;
  // Of a step: what has come so far for the state behind it, and its gates, (N, G H).
  Workspace<T> dh_, dc_, dhidden_;
};

}  // namespace

void run(const kernels::RecurrentBackward& call) {
  if (call.y.numel() == 0) return;
  dispatch_float(call.y.dtype, call.name, [&](auto zero) { Backward<decltype(zero)>(call).run(); });
}

}  // namespace adret::cpu

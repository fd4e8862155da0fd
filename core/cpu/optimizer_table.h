// Segments of the arenas (Note [Arenas]) as pieces for threads, and weights in the dtype that they
// are computed in.
#pragma once

#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/workspace.h>
#include <adret/core/kernels/optimizer.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cstddef>

namespace adret::cpu {

using kernels::Segment;

inline bool is_active(const Segment& segment) { return segment.active != 0; }
inline bool has_gradient(const Segment& segment) { return segment.has_gradient != 0; }
inline bool is_any(const Segment&) { return true; }

// The segments that `takes` says, laid end to end (Note [Arenas]).
class Elements {
 public:
  explicit Elements(const TensorView& segments, bool (*takes)(const Segment&) = is_active)
      : segments_(segments.as<Segment>()), count_(segments.shape[0]), ends_(count_) {
    for (int64_t s = 0; s < count_; ++s) {
      if (takes(segments_[s])) total_ += segments_[s].length;
      ends_.data()[s] = total_;
    }
  }

  int64_t total() const { return total_; }
  // Of segment s: its elements are those up to this one, excluded.
  int64_t end_of(int64_t s) const { return ends_.data()[s]; }

  // f(s, segment, first, count) for the pieces of segments among the elements begin..end-1.
  template <class F>
  void for_pieces(int64_t begin, int64_t end, F f) const {
    const int64_t* ends = ends_.data();
    for (int64_t s = std::upper_bound(ends, ends + count_, begin) - ends; begin < end; ++s) {
      const int64_t stop = std::min(end, ends[s]);
      if (stop <= begin) continue;  // not taken, or empty
      f(s, segments_[s], segments_[s].length - (ends[s] - begin), stop - begin);
      begin = stop;
    }
  }
  template <class F>
  void parallel_pieces(F f) const {
    parallel_for(total_, memory_grain,
                 [&](int64_t begin, int64_t end) { for_pieces(begin, end, f); });
  }

 private:
  const Segment* segments_;
  int64_t count_, total_ = 0;
  Workspace<int64_t> ends_;  // of each segment, in elements before and in it
};

template <class T>
T* value_at(const TensorView& arena, const Segment& segment, int64_t first) {
  return reinterpret_cast<T*>(arena.as<std::byte>() + segment.value_offset) + first;
}
template <class T>
T* state_at(const TensorView& arena, const Segment& segment, int64_t first) {
  return reinterpret_cast<T*>(arena.as<std::byte>() + segment.state_offset) + first;
}

// The f32 master of an element, or null; other dtypes have none.
template <class T>
Computed<T>* master_at(const TensorView& masters, const Segment& segment, int64_t first) {
  return sizeof(T) == 2 && masters.defined() ? state_at<Computed<T>>(masters, segment, first)
                                             : nullptr;
}

// f(weights, gradients, first, count) updates elements first..first+count-1 of a piece in the dtype
// that they are computed in: 16-bit ones as copies, or their masters, rounded afterwards.
template <class T, class F>
void update(T* value, const T* grad, [[maybe_unused]] Computed<T>* master, int64_t n, F f) {
  if constexpr (sizeof(T) > 2) {
    f(value, grad, 0, n);
  } else {
    constexpr int64_t most = 256;
    float copies[most], gradients[most];
    for (int64_t first = 0; first < n; first += most) {
      const int64_t count = std::min(most, n - first);
      float* weights = master ? master + first : copies;
      if (!master) std::copy_n(value + first, count, weights);
      std::copy_n(grad + first, count, gradients);
      f(weights, static_cast<const float*>(gradients), first, count);
      for (int64_t i = 0; i < count; ++i) value[first + i] = T(weights[i]);
    }
  }
}

// A step updates all active weights with what `prepare(zero, s, segment, first)` gives for a piece
// that begins at element `first` of segment s: f of the update above, `zero` being one of the dtype
// that the elements are computed in.
template <class Step, class Prepare>
void update_weights(const Step& call, Prepare prepare) {
  Elements(call.segments)
      .parallel_pieces([&](int64_t s, const Segment& segment, int64_t first, int64_t n) {
        dispatch_all_floats(DType(segment.dtype), call.name, [&](auto typed) {
          using T = decltype(typed);
          update(value_at<T>(call.values, segment, first), value_at<T>(call.grads, segment, first),
                 master_at<T>(call.masters, segment, first), n,
                 prepare(Computed<T>(), s, segment, first));
        });
      });
}

// The step counts (may be undefined) of the active segments, one more each.
inline void raise_steps(const TensorView& steps, const TensorView& segments) {
  if (!steps.defined()) return;
  for (int64_t s = 0; s < segments.shape[0]; ++s) {
    steps.as<int64_t>()[s] += is_active(segments.as<Segment>()[s]);
  }
}

// In f64, eight sums side by side.
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int64_t l = 0; l < lanes; ++l) sums[l] += double(x[i + l]) * double(x[i + l]);
  }
  for (; i < n; ++i) sums[i % lanes] += double(x[i]) * double(x[i]);
  for (int64_t l = 1; l < lanes; ++l) sums[0] += sums[l];
  return sums[0];
}

}  // namespace adret::cpu

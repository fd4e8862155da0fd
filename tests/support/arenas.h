// Parameters in arenas (Note [Arenas]) for tests of the optimizers' kernels.
#pragma once

#include <adret/core/kernels/optimizer.h>
#include <adret/core/tensor.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace adret::test {

using kernels::Segment;

struct ArenaParameter {
  std::vector<double> value;
  int64_t group = 0;
  DType dtype = DType::f32;
  bool active = true;
};

// Arenas holding parameters one after the other, each from a multiple of 64 bytes on.
class Arenas {
 public:
  explicit Arenas(const std::vector<ArenaParameter>& parameters) {
    int64_t value_end = 0, state_end = 0;
    const auto behind = [](int64_t end, int64_t bytes) {
      return end + (bytes + 63) / 64 * 64 + 64;
    };
    for (const ArenaParameter& p : parameters) {
      const int64_t length = int64_t(p.value.size()), size = int64_t(size_of(p.dtype));
      segments_.push_back({.value_offset = value_end,
                           .state_offset = state_end,
                           .length = length,
                           .group = p.group,
                           .dtype = int64_t(p.dtype),
                           .active = p.active,
                           .has_gradient = p.active});
      value_end = behind(value_end, length * size);
      state_end = behind(state_end, length * std::max<int64_t>(size, 4));
    }
    for (Tensor* arena : {&values, &grads}) {
      *arena = Tensor::zeros({value_end}, {.dtype = DType::u8});
    }
    for (Tensor* arena : {&first, &second, &third, &masters}) {
      *arena = Tensor::zeros({state_end}, {.dtype = DType::u8});
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      set(values, i, parameters[i].value);
      set(masters, i, get(values, i));
    }
    steps = Tensor::zeros({int64_t(parameters.size())}, {.dtype = DType::i64});
    products = Tensor::zeros({int64_t(parameters.size())}, {.dtype = DType::f64});
    update_segments();
  }

  void set_active(size_t parameter, bool active) {
    segments_[parameter].active = active;
    update_segments();
  }
  void set_unscale(double unscale) {
    for (Segment& segment : segments_) segment.unscale = unscale;
    update_segments();
  }
  // As a kernel left it.
  Segment segment(size_t parameter) const {
    return static_cast<const Segment*>(segments.data())[parameter];
  }
  void set_dtype(size_t parameter, DType dtype) {
    segments_[parameter].dtype = int64_t(dtype);
    update_segments();
  }
  void set(Tensor& arena, size_t parameter, const std::vector<double>& from) {
    visit(arena, parameter, [&](auto* to) {
      using T = std::decay_t<decltype(*to)>;
      for (size_t i = 0; i < from.size(); ++i) to[i] = T(from[i]);
    });
  }
  std::vector<double> get(const Tensor& arena, size_t parameter) const {
    std::vector<double> result;
    visit(arena, parameter,
          [&](const auto* from) { result.assign(from, from + segments_[parameter].length); });
    return result;
  }

  Tensor values, grads, first, second, third, masters, steps, products, segments;

 private:
  // f gets the parameter's first element in the arena.
  template <class F>
  void visit(const Tensor& arena, size_t parameter, F f) const {
    const Segment& segment = segments_[parameter];
    const bool state = arena.data() != values.data() && arena.data() != grads.data();
    auto* start = static_cast<std::byte*>(arena.data()) +
                  (state ? segment.state_offset : segment.value_offset);
    const auto dtype = DType(segment.dtype);
    if (dtype == DType::f64) return f(reinterpret_cast<double*>(start));
    if (state || dtype == DType::f32) return f(reinterpret_cast<float*>(start));
    if (dtype == DType::bf16) return f(reinterpret_cast<bfloat16*>(start));
    f(reinterpret_cast<float16*>(start));
  }
  void update_segments() {
    const auto* words = reinterpret_cast<const int64_t*>(segments_.data());
    segments = Tensor::from(std::span(words, segments_.size() * kernels::segment_columns),
                            {int64_t(segments_.size()), kernels::segment_columns});
  }

  std::vector<Segment> segments_;
};

}  // namespace adret::test

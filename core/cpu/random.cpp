// Random fills and dropout, eight blocks of Philox at a time.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/philox.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace adret::cpu {
namespace {

constexpr int blocks_at_once = 8;
constexpr int64_t words_at_once = 4 * blocks_at_once;
constexpr int64_t random_grain = 4096;
static_assert(random_grain % words_at_once == 0);

// The sequence of words of one call (Note [Random kernels]).
struct WordSequence {
  std::array<uint32_t, 2> key;
  std::array<uint32_t, 4> counter;  // of block 0

  WordSequence(const RandomKey& random_key, const TensorView& step)
      : key(philox_key(random_key)), counter(philox_counter(random_key, 0, *step.as<int64_t>())) {}

  // Words first..first + words_at_once - 1; `first` is a multiple of 4.
  void draw(int64_t first, uint32_t (&words)[words_at_once]) const {
    uint32_t lanes[4][blocks_at_once];
    for (int i = 0; i < blocks_at_once; ++i) {
      const uint64_t block = uint64_t(first / 4 + i);
      lanes[0][i] = uint32_t(block);
      lanes[1][i] = uint32_t(block >> 32);
      lanes[2][i] = counter[2];
      lanes[3][i] = counter[3];
    }
    philox_rounds(lanes, key[0], key[1]);
    for (int i = 0; i < blocks_at_once; ++i) {
      for (int w = 0; w < 4; ++w) words[4 * i + w] = lanes[w][i];
    }
  }
};

// f(first, count, words) for groups of elements on all threads; an element takes `per_element`
// words.
template <int per_element, class F>
void for_groups(int64_t n, const WordSequence& sequence, F f) {
  constexpr int64_t group = words_at_once / per_element;
  parallel_for(n, random_grain, [&](int64_t begin, int64_t end) {
    uint32_t words[words_at_once];
    for (int64_t first = begin; first < end; first += group) {
      sequence.draw(first * per_element, words);
      f(first, std::min(group, end - first), words);
    }
  });
}

// In [0, 1) from 24 bits, or 53 of two words.
template <class T>
constexpr int words_per_element = sizeof(T) / sizeof(uint32_t);
inline float uniform(const uint32_t* word, float) { return float(word[0] >> 8) * 0x1p-24f; }
inline double uniform(const uint32_t* word, double) {
  const uint64_t bits = word[0] | uint64_t(word[1]) << 32;
  return double(bits >> 11) * 0x1p-53;
}

template <class T>
void fill_uniform(const kernels::RandomUniform& call) {
  constexpr int per = words_per_element<T>;
  const T low = T(call.low), width = T(call.high - call.low);
  // Rounding can reach the upper end, which the interval leaves out.
  const T last = low < T(call.high) ? std::nextafter(T(call.high), low) : low;
  T* y = call.y.as<T>();
  for_groups<per>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
                    for (int64_t i = 0; i < count; ++i) {
                      y[first + i] =
                          std::min(std::fma(uniform(words + i * per, T()), width, low), last);
                    }
                  });
}

// Box and Muller's pair from the uniform numbers of elements 2i and 2i + 1.
template <class T>
void fill_normal(const kernels::RandomNormal& call) {
  constexpr int per = words_per_element<T>;
  T* y = call.y.as<T>();
  const double mean = call.mean, std = call.std;
  for_groups<per>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
                    for (int64_t i = 0; i < count; i += 2) {
                      const double u = uniform(words + i * per, T());  // 1 - u > 0
                      const double v = uniform(words + (i + 1) * per, T());
                      const double radius = std * std::sqrt(-2 * std::log(1 - u));
                      const double angle = 2 * std::numbers::pi * v;
                      y[first + i] = T(mean + radius * std::cos(angle));
                      if (i + 1 < count) y[first + i + 1] = T(mean + radius * std::sin(angle));
                    }
                  });
}

}  // namespace

void run(const kernels::RandomUniform& call) {
  dispatch_float(call.y.dtype, call.name, [&](auto zero) { fill_uniform<decltype(zero)>(call); });
}

void run(const kernels::RandomNormal& call) {
  dispatch_float(call.y.dtype, call.name, [&](auto zero) { fill_normal<decltype(zero)>(call); });
}

void run(const kernels::DropoutForward& call) {
  // An element is dropped when its word is below p * 2^32, which may be one more than fits a word.
  const uint64_t threshold = uint64_t(std::ceil(call.p * 0x1p32));
  const bool all = threshold > 0xffffffffu;
  const uint32_t bound = uint32_t(threshold);
  dispatch_float(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    uint8_t* mask = call.mask.as<uint8_t>();
    const T scale = all ? T(0) : T(1 / (1 - call.p));
    for_groups<1>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
#pragma GCC ivdep
                    for (int64_t i = 0; i < count; ++i) {
                      const bool kept = words[i] >= bound && !all;
                      mask[first + i] = kept;
                      y[first + i] = kept ? x[first + i] * scale : T(0);
                    }
                  });
  });
}

void run(const kernels::DropoutBackward& call) {
  dispatch_float(call.dx.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = call.dy.as<T>();
    const uint8_t* mask = call.mask.as<uint8_t>();
    T* dx = call.dx.as<T>();
    const T scale = call.p < 1 ? T(1 / (1 - call.p)) : T(0);
    parallel_for(call.dx.numel(), memory_grain, [=](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) dx[i] = mask[i] ? dy[i] * scale : T(0);
    });
  });
}

}  // namespace adret::cpu

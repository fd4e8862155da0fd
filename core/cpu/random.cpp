// Random fills and dropout, a vector of Philox blocks at a time.
#include <adret/core/cpu/dispatch.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/kernels.h>
#include <adret/core/cpu/random_words.h>
#include <adret/core/thread_pool.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

namespace adret::cpu {
namespace {

constexpr int64_t buffered_words = 256;
constexpr int64_t random_grain = 4096;
static_assert(random_grain % buffered_words == 0 && buffered_words % words_at_once == 0);

// f(first, count, words) for groups of elements on all threads; an element takes `per_element`
// words.
template <int per_element, class F>
void for_groups(int64_t n, const WordSequence& sequence, F f) {
  constexpr int64_t group = buffered_words / per_element;
  parallel_for(n, random_grain, [&](int64_t begin, int64_t end) {
    uint32_t words[buffered_words];
    for (int64_t first = begin; first < end; first += group) {
      const int64_t count = std::min(group, end - first);
      for (int64_t w = 0; w < count * per_element; w += words_at_once) {
        sequence.draw(first * per_element + w, words + w);
      }
      f(first, count, words);
    }
  });
}

// In [0, 1) from 24 bits, or 53 of two words.
template <class T>
constexpr int words_per_element = sizeof(T) == 8 ? 2 : 1;
inline float uniform(const uint32_t* word, float) { return float(word[0] >> 8) * 0x1p-24f; }
inline double uniform(const uint32_t* word, double) {
  const uint64_t bits = word[0] | uint64_t(word[1]) << 32;
  return double(bits >> 11) * 0x1p-53;
}

template <class T>
void fill_uniform(const kernels::RandomUniform& call) {
  using C = Computed<T>;
  constexpr int per = words_per_element<T>;
  const C low = C(call.low), width = C(call.high - call.low), last = C(call.last());
  T* y = call.y.as<T>();
  for_groups<per>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
                    for (int64_t i = 0; i < count; ++i) {
                      const C value = std::fma(uniform(words + i * per, C()), width, low);
                      y[first + i] = T(std::min(C(T(value)), last));
                    }
                  });
}

// Box and Muller's pair from the uniform numbers of elements 2i and 2i + 1.
template <class T>
void fill_normal(const kernels::RandomNormal& call) {
  using C = Computed<T>;
  constexpr int per = words_per_element<T>;
  T* y = call.y.as<T>();
  const double mean = call.mean, std = call.std;
  for_groups<per>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
                    for (int64_t i = 0; i < count; i += 2) {
                      const double u = uniform(words + i * per, C());  // 1 - u > 0
                      const double v = uniform(words + (i + 1) * per, C());
                      const double radius = std * std::sqrt(-2 * std::log(1 - u));
                      const double angle = 2 * std::numbers::pi * v;
                      y[first + i] = T(mean + radius * std::cos(angle));
                      if (i + 1 < count) y[first + i + 1] = T(mean + radius * std::sin(angle));
                    }
                  });
}

// y = x * scale where the mask is 1, else 0, whatever x is.
template <class T>
void keep(const T* x, const uint8_t* mask, Computed<T> scale, T* y, int64_t n) {
  // As wide as x, so that the loop vectorises.
  using Mask = std::conditional_t<sizeof(T) == 8, int64_t, int32_t>;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = Mask(mask[i]) != 0 ? T(x[i] * scale) : T(0);
}

}  // namespace

void run(const kernels::RandomUniform& call) {
  dispatch_all_floats(call.y.dtype, call.name,
                      [&](auto zero) { fill_uniform<decltype(zero)>(call); });
}

void run(const kernels::RandomNormal& call) {
  dispatch_all_floats(call.y.dtype, call.name,
                      [&](auto zero) { fill_normal<decltype(zero)>(call); });
}

void run(const kernels::DropoutForward& call) {
  // An element is dropped when its word is below p * 2^32, which may be one more than fits a word.
  const uint64_t threshold = uint64_t(std::ceil(call.p * 0x1p32));
  const bool all = threshold > 0xffffffffu;
  const uint32_t bound = uint32_t(threshold);
  dispatch_all_floats(call.y.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* x = call.x.as<T>();
    T* y = call.y.as<T>();
    uint8_t* mask = call.mask.as<uint8_t>();
    const auto scale = Computed<T>(all ? 0 : 1 / (1 - call.p));
    const bool relu = call.activation == kernels::Activation::relu;
    for_groups<1>(call.y.numel(), {call.key, call.step},
                  [=](int64_t first, int64_t count, const uint32_t* words) {
                    uint8_t kept[buffered_words];
                    for (int64_t i = 0; i < count; ++i) kept[i] = (words[i] >= bound) & !all;
                    if (relu) {
                      for (int64_t i = 0; i < count; ++i) kept[i] &= !(x[first + i] <= T(0));
                    }
                    std::copy_n(kept, count, mask + first);
                    keep(x + first, kept, scale, y + first, count);
                  });
  });
}

void run(const kernels::DropoutBackward& call) {
  dispatch_all_floats(call.dx.dtype, call.name, [&](auto zero) {
    using T = decltype(zero);
    const T* dy = call.dy.as<T>();
    const uint8_t* mask = call.mask.as<uint8_t>();
    T* dx = call.dx.as<T>();
    const auto scale = Computed<T>(call.p < 1 ? 1 / (1 - call.p) : 0);
    parallel_for(call.dx.numel(), memory_grain, [=](int64_t begin, int64_t end) {
      keep(dy + begin, mask + begin, scale, dx + begin, end - begin);
    });
  });
}

}  // namespace adret::cpu

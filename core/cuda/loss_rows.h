// What both directions of cross-entropy share: labels, sizes, and who takes which sample.
#pragma once

#include <adret/core/cuda/index_places.h>
#include <adret/core/cuda/launch.h>
#include <adret/core/cuda/team.h>
#include <adret/core/kernels/loss.h>

#include <cstdint>
#include <type_traits>

namespace adret::cuda {

struct Labels : Indices {
  int64_t ignore_index;
};

inline Labels labels_of(const TensorView& labels, const kernels::CrossEntropyParams& params) {
  return {indices_of(labels), params.ignore_index};
}

struct Samples {
  int64_t count, classes;
};

// With label smoothing s a class counts s / C times its weight, and the label's 1 - s times its
// weight more. Without weights all are 1, and kernels keep the registers of it.
template <class A, bool weighted>
struct ClassWeights {
  const A* data;
  A smoothing;

  // Whether classes other than the label's count differently.
  __device__ bool differ() const { return weighted && smoothing > 0; }
  __device__ A of(int64_t c) const { return differ() ? data[c] : A(1); }
  // 1 for a label out of range.
  __device__ A of_label(int64_t label, int64_t classes) const {
    return weighted && label >= 0 && label < classes ? data[label] : A(1);
  }
  // Of all classes; to be asked by the whole block.
  __device__ A mean(int64_t classes) const {
    if (!differ()) return A(1);
    Total<A> total;
    for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) total.value += data[c];
    return Block().reduce(total).value / A(classes);
  }
};

// f(whether the call has class weights), as a constant.
template <class Call, class F>
void dispatch_weights(const Call& call, F f) {
  if (call.class_weights.defined()) {
    f(std::true_type());
  } else {
    f(std::false_type());
  }
}

// f(sample) for the samples of the thread's team of `lanes`; -1 for a thread that keeps its warp
// company.
template <class F>
__device__ void for_samples_by_lanes(int64_t count, int lanes, F f) {
  const int64_t before = first_item() % 32 / lanes;  // teams of the warp before this one
  const int64_t teams = all_threads() / lanes;
  for (int64_t first = first_item() / lanes - before; first < count; first += teams) {
    f(first + before < count ? first + before : -1);
  }
}

inline unsigned threads_for_row(int64_t vectors) { return vectors <= 4096 ? 256 : 512; }

// Whether rows of `classes` elements begin at 16 bytes.
template <class T>
bool vectors_fit(int64_t classes, const TensorView& a, const TensorView& b) {
  return aligned_16(a.as<T>(), b.as<T>()) && classes * int64_t(sizeof(T)) % 16 == 0;
}

}  // namespace adret::cuda

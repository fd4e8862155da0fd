// The method of Gram and Schmidt.
#include <adret/core/thread_pool.h>
#include <adret/layers/orthonormalize.h>

#include <algorithm>
#include <cmath>

namespace adret {
namespace {

void orthonormalize_once(double* vectors, int64_t count, int64_t length) {
  for (int64_t k = 0; k < count; ++k) {
    double* vector = vectors + k * length;
    double squares = 0;
    for (int64_t i = 0; i < length; ++i) squares += vector[i] * vector[i];
    const double scale = 1 / std::sqrt(squares);
    for (int64_t i = 0; i < length; ++i) vector[i] *= scale;
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, length));
    parallel_for(count - k - 1, grain, [&](int64_t begin, int64_t end) {
      for (int64_t other = begin; other < end; ++other) {
        double* rest = vector + (other + 1) * length;
        double dot = 0;
        for (int64_t i = 0; i < length; ++i) dot += vector[i] * rest[i];
        for (int64_t i = 0; i < length; ++i) rest[i] -= dot * vector[i];
      }
    });
  }
}

}  // namespace

// What rounding leaves of a nearly dependent vector points anywhere; twice is enough (Giraud et al.
// 2005).
void orthonormalize(double* vectors, int64_t count, int64_t length) {
  for (int i = 0; i < 2; ++i) orthonormalize_once(vectors, count, length);
}

}  // namespace adret

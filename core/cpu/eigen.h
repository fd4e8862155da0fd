// Eigen's dense matrix products, set up for this library: no threads of its own, small workspaces
// on the stack.
#pragma once

// Its includes come first, so that the visibility below touches Eigen alone.
#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <limits>
#include <sstream>
#include <string>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define EIGEN_DONT_PARALLELIZE
#define EIGEN_MPL2_ONLY
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 20)

// Hidden, or a program's own Eigen, compiled for other instructions, would be linked in its place.
#pragma GCC visibility push(hidden)
#include <Eigen/Core>
#pragma GCC visibility pop

namespace adret::cpu {

template <class T>
using Matrix = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                          Eigen::OuterStride<>>;
template <class T>
using ConstMatrix =
    Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
               Eigen::OuterStride<>>;

}  // namespace adret::cpu

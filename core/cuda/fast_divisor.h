// Division by a number that the host knows: as a multiplication where 31 bits are enough.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace adret::cuda {

// For dividends below 2^31 and divisors of 1 to 2^31 - 1 (Granlund and Montgomery 1994).
class FastDivisor {
 public:
  using Index = uint32_t;

  FastDivisor() = default;
  explicit FastDivisor(uint32_t divisor) : divisor_(divisor) {
    while ((uint64_t(1) << shift_) < divisor) ++shift_;
    magic_ = uint32_t(((((uint64_t(1) << shift_) - divisor) << 32) / divisor) + 1);
  }

  __host__ __device__ uint32_t divisor() const { return divisor_; }
  __host__ __device__ uint32_t quotient(uint32_t dividend) const {
    return (uint32_t((uint64_t(dividend) * magic_) >> 32) + dividend) >> shift_;
  }

 private:
  uint32_t divisor_ = 1, magic_ = 1, shift_ = 0;
};

// For all others.
class WideDivisor {
 public:
  using Index = uint64_t;

  explicit WideDivisor(uint64_t divisor) : divisor_(divisor) {}
  __host__ __device__ uint64_t divisor() const { return divisor_; }
  __host__ __device__ uint64_t quotient(uint64_t dividend) const { return dividend / divisor_; }

 private:
  uint64_t divisor_;
};

// f gets a divisor that divides the numbers up to `largest`.
template <class F>
void with_divisor(int64_t divisor, int64_t largest, F&& f) {
  if (largest <= INT32_MAX) {
    f(FastDivisor(uint32_t(divisor)));
  } else {
    f(WideDivisor(uint64_t(divisor)));
  }
}

}  // namespace adret::cuda

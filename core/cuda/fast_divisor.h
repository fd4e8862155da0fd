// Division by a number that the host knows, as a multiplication.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace adret::cuda {

// For dividends below 2^31 and divisors of 1 to 2^31 - 1 (Granlund and Montgomery 1994).
class FastDivisor {
 public:
  FastDivisor() = default;
  explicit FastDivisor(uint32_t divisor) : divisor_(divisor) {
    while ((uint64_t(1) << shift_) < divisor) ++shift_;
    magic_ = uint32_t(((((uint64_t(1) << shift_) - divisor) << 32) / divisor) + 1);
  }

  __host__ __device__ uint32_t divisor() const { return divisor_; }
  __device__ uint32_t quotient(uint32_t dividend) const {
    return (__umulhi(dividend, magic_) + dividend) >> shift_;
  }
  __device__ uint32_t remainder(uint32_t dividend) const {
    return dividend - quotient(dividend) * divisor_;
  }

 private:
  uint32_t divisor_ = 1, magic_ = 1, shift_ = 0;
};

}  // namespace adret::cuda

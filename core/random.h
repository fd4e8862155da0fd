// Counter-based random numbers (Philox 4x32-10; Salmon et al. 2011): any element of any call of any
// step can be drawn by itself, on every device alike.
#pragma once

#include <adret/core/device.h>

#include <array>
#include <cstdint>
#include <vector>

namespace adret {

class Tensor;

// Separate streams never disturb each other: validation or another augmentation leaves the order of
// the training data and the dropout masks as they were.
enum class RandomStream : uint32_t { init, shuffle, augment, dropout, user };

// Names the numbers of one call; the element (and the step) select within it.
struct RandomKey {
  uint64_t seed = 0;
  RandomStream stream = RandomStream::user;
  uint32_t call = 0;
  bool operator==(const RandomKey&) const = default;
};

// One block: 128 random bits of (counter, key).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
// The Philox key of a seed and stream.
std::array<uint32_t, 2> philox_key(const RandomKey& key);
// The counter of block `block` of a call: (block in two words, call, step); a step beyond 2^32
// wraps.
std::array<uint32_t, 4> philox_counter(const RandomKey& key, uint64_t block, int64_t step);

// This thread's generator.
namespace random {

// Restarts every stream; step 0.
void manual_seed(uint64_t seed);
uint64_t seed();
// The key of the stream's next call.
RandomKey next(RandomStream stream);
// Starts step `step`: the dropout and augment calls count from 0 again, so that a step's numbers
// depend on the seed and its index alone.
void begin_step(int64_t step);
int64_t step();
// The step as a scalar i64 on the device, for kernels to read; begin_step writes the new value.
Tensor step_word(Device device);
// Lets go of this thread's step word on a device, before its backend goes.
void release_step_words(Device device);
// 0..n-1 in an order that depends on the key and `step` alone (Fisher and Yates 1938).
std::vector<int64_t> permutation(int64_t n, RandomKey key, int64_t step);

}  // namespace random

}  // namespace adret

// Numbers and places put in order: what scattering and sorting begin with.
#pragma once

#include <adret/core/cuda/workspace.h>

#include <cstdint>

namespace adret::cuda {

// `count` keys, each with a place; at most 2^31 - 1 of them.
class OrderedPairs {
 public:
  OrderedPairs(const Context& context, int64_t count);

  int64_t count() const { return count_; }
  // To be written, then sorted; where they lie changes with sort.
  uint64_t* keys() const { return keys_.as<uint64_t>() + current_ * stride_; }
  uint32_t* places() const { return places_.as<uint32_t>() + current_ * stride_; }
  // By the lowest `bits` of the keys; equal ones stay as they are.
  void sort(int bits);

 private:
  const Context& context_;
  int64_t count_, stride_, current_ = 0;
  Workspace keys_, places_;  // twice
};

// How many bits the numbers 0..largest take.
int bits_of(uint64_t largest);

}  // namespace adret::cuda

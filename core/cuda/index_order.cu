// Numbers and places put in order by CUB's radix sort.
#include <adret/core/cuda/check.h>
#include <adret/core/cuda/index_order.h>
#include <adret/core/cuda/launch.h>

#include <bit>
#include <cub/device/device_radix_sort.cuh>

namespace adret::cuda {

int bits_of(uint64_t largest) { return int(std::bit_width(largest)); }

OrderedPairs::OrderedPairs(const Context& context, int64_t count)
    : context_(context),
      count_(count),
      stride_(divide_up(count, 64) * 64),
      keys_(context, size_t(2 * stride_) * sizeof(uint64_t)),
      places_(context, size_t(2 * stride_) * sizeof(uint32_t)) {}

void OrderedPairs::sort(int bits) {
  if (bits == 0 || count_ < 2) return;
  const int64_t other = 1 - current_;
  cub::DoubleBuffer<uint64_t> keys(this->keys(), keys_.as<uint64_t>() + other * stride_);
  cub::DoubleBuffer<uint32_t> places(this->places(), places_.as<uint32_t>() + other * stride_);
  const auto sort_pairs = [&](void* memory, size_t& bytes) {
    ADRET_CHECK(cub::DeviceRadixSort::SortPairs(memory, bytes, keys, places, uint32_t(count_), 0,
                                                bits, context_.compute.get()));
  };
  size_t bytes = 0;
  sort_pairs(nullptr, bytes);
  const Workspace memory(context_, bytes);
  sort_pairs(memory.data(), bytes);
  if (keys.Current() != this->keys()) current_ = other;
}

}  // namespace adret::cuda

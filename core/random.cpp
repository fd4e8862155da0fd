// Philox blocks, and this thread's generator: seed, step, and the calls of each stream.
#include <adret/core/backend.h>
#include <adret/core/philox.h>
#include <adret/core/random.h>
#include <adret/core/random_calls.h>
#include <adret/core/tensor.h>

#include <limits>
#include <numeric>
#include <utility>

namespace adret {
namespace {

// Makes any two seeds or streams differ in about half the bits (Steele, Lea and Flood 2014).
uint64_t mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

struct Generator : random::State {
  std::vector<Tensor> step_words;  // one a device
};

Generator& generator() {
  thread_local Generator instance;
  return instance;
}

uint32_t& calls(RandomStream stream) { return generator().calls[size_t(stream)]; }

void write_step(const Tensor& word) {
  const int64_t step = generator().step;
  copy_memory(word.device(), word.data(), &step, sizeof(step), CopyKind::host_to_device);
  word.bump_version();
}

// The words of one key and step in order, two at a time.
class WordSource {
 public:
  WordSource(const RandomKey& key, int64_t step) : key_(key), step_(step) {}

  // Uniform in 0..bound-1, without bias: words beyond the last whole multiple of it are drawn
  // again.
  uint64_t below(uint64_t bound) {
    const uint64_t rejected = (0 - bound) % bound;  // 2^64 modulo bound
    uint64_t word = next();
    while (word > std::numeric_limits<uint64_t>::max() - rejected) word = next();
    return word % bound;
  }

 private:
  uint64_t next() {
    if (used_ == 2) {
      block_ = philox(philox_counter(key_, block_index_++, step_), philox_key(key_));
      used_ = 0;
    }
    const size_t at = size_t(used_++) * 2;
    return block_[at] | uint64_t(block_[at + 1]) << 32;
  }

  RandomKey key_;
  int64_t step_;
  uint64_t block_index_ = 0;
  int used_ = 2;
  std::array<uint32_t, 4> block_{};
};

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  uint64_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(words, key[0], key[1],
                [](uint64_t word, uint64_t factor) { return (word & 0xffffffff) * factor; });
  return {uint32_t(words[0]), uint32_t(words[1]), uint32_t(words[2]), uint32_t(words[3])};
}

std::array<uint32_t, 2> philox_key(const RandomKey& key) {
  const uint64_t mixed = mix(mix(key.seed) + uint64_t(key.stream));
  return {uint32_t(mixed), uint32_t(mixed >> 32)};
}

std::array<uint32_t, 4> philox_counter(const RandomKey& key, uint64_t block, int64_t step) {
  return {uint32_t(block), uint32_t(block >> 32), key.call, uint32_t(step)};
}

namespace random {

void manual_seed(uint64_t seed) {
  generator().seed = seed;
  generator().calls.fill(0);
  begin_step(0);
}

uint64_t seed() { return generator().seed; }

RandomKey next(RandomStream stream) {
  return {.seed = generator().seed, .stream = stream, .call = calls(stream)++};
}

void begin_step(int64_t step) {
  generator().step = step;
  calls(RandomStream::dropout) = 0;
  calls(RandomStream::augment) = 0;
  for (const Tensor& word : generator().step_words) write_step(word);
}

int64_t step() { return generator().step; }

StepCalls step_calls() {
  return {.augment = calls(RandomStream::augment), .dropout = calls(RandomStream::dropout)};
}

void set_step_calls(const StepCalls& counts) {
  calls(RandomStream::augment) = counts.augment;
  calls(RandomStream::dropout) = counts.dropout;
}

State state() { return generator(); }

void set_state(const State& state) {
  const bool another_step = state.step != generator().step;
  static_cast<State&>(generator()) = state;
  if (!another_step) return;
  for (const Tensor& word : generator().step_words) write_step(word);
}

Tensor step_word(Device device) {
  for (const Tensor& word : generator().step_words) {
    if (word.device() == device) return word;
  }
  Tensor word = Tensor::empty({}, {.dtype = DType::i64, .device = device});
  write_step(word);
  generator().step_words.push_back(word);
  return word;
}

void release_step_words(Device device) {
  std::erase_if(generator().step_words,
                [device](const Tensor& word) { return word.device() == device; });
}

std::vector<int64_t> permutation(int64_t n, RandomKey key, int64_t step) {
  std::vector<int64_t> order(size_t(n < 0 ? 0 : n));
  std::iota(order.begin(), order.end(), 0);
  WordSource words(key, step);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[words.below(i)]);
  return order;
}

}  // namespace random

}  // namespace adret

// Batches of a data set in a seeded order, made ahead of time by threads.
#pragma once

#include <adret/data/dataset.h>

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace adret {

struct LoaderOptions {
  int64_t batch_size = 64;
  bool shuffle = false;               // a new order each epoch, the same in every run
  std::optional<uint64_t> seed = {};  // of the order; unset: random::seed() when the loader is made
  bool drop_last = false;             // leave out a last batch that is not full
  int workers = 0;                    // threads that make batches ahead; with 0 the loop makes them
  int prefetch = 0;                   // batches made ahead at most; 0: two for each worker
  // Runs on each batch, e.g. a Normalize: where the batch is made, or on the loop's thread behind
  // the copy to `device`. What is random in it must depend on the batch's epoch, number and indices
  // alone.
  std::function<void(Batch&)> transform = {};
  // Where the loop wants its batches. Those made on the CPU are copied to another device while the
  // loop works on the batch before; a set on that device is fine with 0 workers, as one thread
  // launches kernels.
  Device device = Device::cpu();
  std::function<double()> clock = {};  // in seconds; unset: the steady clock
};

class DeviceFeed;
class HostBuffers;

// for (const Batch& batch : loader.epoch(3)) ...
// The batches and their order are the same for any number of workers.
class DataLoader {
 public:
  class Epoch;

  // Throws Error when no batch would come of it: an empty set, or drop_last with a batch size above
  // the set's; and for a batch size below 1 or negative numbers of workers. DeviceError when the
  // device cannot be used.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options = {});
  template <std::derived_from<Dataset> D>
  explicit DataLoader(D dataset, LoaderOptions options = {})
      : DataLoader(std::make_shared<const D>(std::move(dataset)), std::move(options)) {}

  // The batches of one epoch, to be passed over once. What goes wrong in making a batch is thrown
  // to the loop when it comes to that batch, as a DataError with epoch, batch and item, the
  // original nested in it; a label outside of the set's classes likewise.
  Epoch epoch(int64_t number) const;
  // Batch `number` of an epoch, made by itself: the same again, if the set and the transform are as
  // their comments ask. Throws Error for a number outside 0..batches()-1, and what making it does.
  Batch batch(int64_t epoch, int64_t number) const;

  int64_t batches() const;  // in an epoch
  int64_t samples() const;  // in an epoch
  const Dataset& dataset() const { return *dataset_; }
  const LoaderOptions& options() const { return options_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::shared_ptr<HostBuffers> buffers_;  // for another device
};

// One pass. Leaving the loop early ends the workers as soon as each has finished its batch.
class DataLoader::Epoch {
 public:
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *epoch_->current_; }
    Batch* operator->() const { return &*epoch_->current_; }
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !epoch_->current_.has_value(); }

   private:
    friend class Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) {}
    Epoch* epoch_;
  };

  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  // How long the loop has waited for its batches so far; with 0 workers that is what making them
  // took. Waiting for another device, or asking it to transform a batch, is none of it; nor is the
  // wait of a loop that has run so far ahead that the device's copies still stand behind kernels.
  double waited_seconds() const;

 private:
  friend class DataLoader;
  class Source;
  explicit Epoch(std::unique_ptr<Source> source);
  void advance();
  void send_next();

  std::unique_ptr<Source> source_;
  std::unique_ptr<DeviceFeed> feed_;  // to another device
  std::exception_ptr error_;          // of the batch that was to be sent ahead
  std::optional<Batch> current_;
};

}  // namespace adret

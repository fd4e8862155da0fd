// The order of an epoch, the making of its batches, and the threads that make them ahead.
#include <adret/core/error.h>
#include <adret/core/random.h>
#include <adret/core/tensor_view.h>
#include <adret/core/thread_pool.h>
#include <adret/data/feed.h>
#include <adret/data/loader.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace adret {
namespace {

template <class T>
void check_labels(const Batch& batch, int64_t classes) {
  const auto labels = batch.targets.span<T>();
  const int64_t per_item = std::max<int64_t>(1, int64_t(labels.size()) / batch.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t label = int64_t(labels[i]);
    if (label < 0 || label >= classes) {
      throw DataError(
          fmt::format("[Dataset] item {} has label {}; with {} classes labels are 0..{}",
                      batch.indices[size_t(int64_t(i) / per_item)], label, classes, classes - 1));
    }
  }
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Labels on another device are checked by the loss, as reading them would wait for the device.
void check_labels(const Batch& batch, int64_t classes) {
  if (classes == 0 || !batch.targets.device().is_cpu()) return;
  switch (batch.targets.dtype()) {
    case DType::i32: return check_labels<int32_t>(batch, classes);
    case DType::i64: return check_labels<int64_t>(batch, classes);
    case DType::u8: return check_labels<uint8_t>(batch, classes);
    default:
      throw DataError(
          fmt::format("[Dataset] {} classes, but targets {}; class labels are i32 or i64", classes,
                      to_string(TensorView(batch.targets))));
  }
}

void check_rows(const char* what, const Tensor& rows, size_t wanted) {
  if (rows.rank() == 0 || rows.size(0) != int64_t(wanted)) {
    throw DataError(fmt::format("[Dataset] get_batch gave {} {} for {} indices", what,
                                to_string(TensorView(rows)), wanted));
  }
}

// Those of the batches to be made.
struct Numbers {
  int64_t first = 0, end = 0;
};

}  // namespace

// Makes batches of one epoch. Each depends on its number alone, so it doesn't matter who makes
// which.
class DataLoader::Epoch::Source {
  // f() of a batch, its errors with the batch's place.
  template <class F>
  auto naming(int64_t number, F f) const {
    try {
      return f();
    } catch (const OutOfMemory&) {
      throw;
    } catch (const std::exception& error) {
      std::throw_with_nested(DataError(
          fmt::format("[DataLoader] epoch {}, batch {}: {}", epoch_, number, error.what())));
    }
  }

 public:
  Source(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
         std::shared_ptr<HostBuffers> buffers, int64_t epoch, Numbers numbers)
      : dataset_(std::move(dataset)),
        options_(options),
        buffers_(std::move(buffers)),
        epoch_(epoch),
        numbers_(numbers),
        taken_(numbers.first) {
    if (options_.shuffle) {
      const RandomKey key{.seed = *options_.seed, .stream = RandomStream::shuffle};
      order_ = random::permutation(dataset_->size(), key, epoch);
    } else {
      order_.resize(size_t(dataset_->size()));
      std::iota(order_.begin(), order_.end(), 0);
    }
  }
  virtual ~Source() = default;

  // The next batch in order, or nothing at the end; staged if it goes to another device.
  std::optional<StagedBatch> next() {
    if (taken_ == numbers_.end) return std::nullopt;
    const double start = options_.clock();
    StagedBatch batch = take(taken_++);
    waited_ += options_.clock() - start;
    return batch;
  }
  // Whether the next one would not be waited for.
  virtual bool ready() { return true; }
  bool started() const { return taken_ > numbers_.first; }
  double waited_seconds() const { return waited_; }
  bool feeds_device() const { return buffers_ != nullptr; }
  Device device() const { return options_.device; }

  void transform(Batch& batch) const {
    if (!options_.transform) return;
    naming(batch.number, [&] { options_.transform(batch); });
  }

 protected:
  virtual StagedBatch take(int64_t number) { return make(number); }

  StagedBatch make(int64_t number) const {
    return naming(number, [&] {
      Batch batch = gather(number);
      if (buffers_) return StagedBatch(std::move(batch), options_.device, *buffers_);
      if (options_.transform) options_.transform(batch);
      return StagedBatch(std::move(batch));
    });
  }
  int64_t end() const { return numbers_.end; }
  int64_t taken() const { return taken_; }

 private:
  Batch gather(int64_t number) const {
    const int64_t begin = number * options_.batch_size;
    const int64_t end = std::min(begin + options_.batch_size, int64_t(order_.size()));
    const std::span indices(order_.data() + begin, size_t(end - begin));
    Batch batch = dataset_->get_batch({.indices = indices, .epoch = epoch_, .number = number});
    check_rows("inputs", batch.inputs, indices.size());
    check_rows("targets", batch.targets, indices.size());
    batch.indices.assign(indices.begin(), indices.end());
    batch.epoch = epoch_;
    batch.number = number;
    check_labels(batch, dataset_->num_classes());
    return batch;
  }

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::shared_ptr<HostBuffers> buffers_;  // null: the batches stay where they are made
  int64_t epoch_;
  Numbers numbers_;
  int64_t taken_;  // the next one's number
  double waited_ = 0;
  std::vector<int64_t> order_;
};

namespace {

// Workers claim the numbers of batches in order and put what they made into a ring; an error waits
// in its batch's place, so that the batches before it still come first.
template <class Source>
class Prefetcher final : public Source {
 public:
  template <class... Args>
  Prefetcher(int workers, int64_t depth, Args&&... args)
      : Source(std::forward<Args>(args)...), ring_(size_t(depth)) {
    try {
      for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      const size_t started = workers_.size();
      stop();
      throw Error(fmt::format(
          "[DataLoader] wanted {} workers, could not start number {}: {}; ask for fewer", workers,
          started + 1, error.what()));
    }
  }
  ~Prefetcher() override { stop(); }

 private:
  struct Slot {
    std::optional<StagedBatch> batch;
    std::exception_ptr error;
    bool ready() const { return batch || error; }
  };

  Slot& slot(int64_t number) { return ring_[size_t(number) % ring_.size()]; }

  bool ready() override {
    const std::lock_guard lock(mutex_);
    return slot(this->taken()).ready();
  }

  StagedBatch take(int64_t number) override {
    std::unique_lock lock(mutex_);
    Slot& mine = slot(number);
    filled_.wait(lock, [&] { return mine.ready(); });
    Slot taken = std::exchange(mine, Slot{});
    consumed_ = number + 1;
    lock.unlock();
    emptied_.notify_one();
    if (taken.error) std::rethrow_exception(taken.error);
    return std::move(*taken.batch);
  }

  void work() {
    const InlineLoops inline_loops;
    for (;;) {
      std::unique_lock lock(mutex_);
      emptied_.wait(lock, [&] {
        return stopping_ || claimed_ == this->end() || claimed_ < consumed_ + int64_t(ring_.size());
      });
      if (stopping_ || claimed_ == this->end()) return;
      const int64_t number = claimed_++;
      lock.unlock();
      Slot made;
      try {
        made.batch = this->make(number);
        if (const Batch& batch = made.batch->batch(); !batch.inputs.device().is_cpu()) {
          throw DeviceError(fmt::format(
              "[DataLoader] a worker was given a batch on {}, where one thread runs all "
              "kernels; use 0 workers for a set that lies there",
              to_string(batch.inputs.device())));
        }
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      slot(number) = std::move(made);
      lock.unlock();
      filled_.notify_one();
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    emptied_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  std::mutex mutex_;
  std::condition_variable filled_, emptied_;
  std::vector<Slot> ring_;
  int64_t claimed_ = 0;
  int64_t consumed_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  if (!dataset_) throw Error("[DataLoader] wants a data set, got a null pointer");
  if (options_.batch_size < 1 || options_.workers < 0 || options_.prefetch < 0) {
    throw Error(
        fmt::format("[DataLoader] wants batch_size of 1 or more, workers and prefetch not "
                    "negative; got {}, {}, {}",
                    options_.batch_size, options_.workers, options_.prefetch));
  }
  const int64_t size = dataset_->size();
  if (size < 1) throw Error("[DataLoader] the data set is empty, so no batch would be produced");
  if (options_.drop_last && options_.batch_size > size) {
    throw Error(
        fmt::format("[DataLoader] batch_size {} with drop_last on a set of {} items: no batch "
                    "would be produced; lower batch_size or keep the last batch",
                    options_.batch_size, size));
  }
  if (!options_.seed) options_.seed = random::seed();
  if (!options_.clock) options_.clock = steady_seconds;
  if (!options_.device.is_cpu()) buffers_ = std::make_shared<HostBuffers>(options_.device);
}

int64_t DataLoader::batches() const {
  const int64_t size = dataset_->size();
  return options_.drop_last ? size / options_.batch_size : (size - 1) / options_.batch_size + 1;
}

int64_t DataLoader::samples() const {
  return std::min(dataset_->size(), batches() * options_.batch_size);
}

DataLoader::Epoch DataLoader::epoch(int64_t number) const {
  using Source = Epoch::Source;
  if (options_.workers == 0) {
    return Epoch(
        std::make_unique<Source>(dataset_, options_, buffers_, number, Numbers{0, batches()}));
  }
  // More would have nothing to do.
  const auto workers = int(std::min<int64_t>(options_.workers, batches()));
  const int64_t wanted = options_.prefetch ? options_.prefetch : 2 * int64_t(workers);
  return Epoch(std::make_unique<Prefetcher<Source>>(workers, std::min(wanted, batches()), dataset_,
                                                    options_, buffers_, number,
                                                    Numbers{0, batches()}));
}

Batch DataLoader::batch(int64_t epoch, int64_t number) const {
  if (number < 0 || number >= batches()) {
    throw Error(
        fmt::format("[DataLoader] batch {} is not there; an epoch has {}", number, batches()));
  }
  Epoch one(std::make_unique<Epoch::Source>(dataset_, options_, buffers_, epoch,
                                            Numbers{number, number + 1}));
  return *one.begin();
}

DataLoader::Epoch::Epoch(std::unique_ptr<Source> source) : source_(std::move(source)) {
  if (source_->feeds_device()) feed_ = std::make_unique<DeviceFeed>(source_->device());
}
DataLoader::Epoch::~Epoch() = default;

DataLoader::Epoch::Iterator DataLoader::Epoch::begin() {
  if (source_->started()) {
    throw Error("[DataLoader] an epoch is passed over once; call epoch() for each pass");
  }
  advance();
  return Iterator(this);
}

void DataLoader::Epoch::advance() {
  current_.reset();  // its memory serves the next batch
  if (!feed_) {
    if (std::optional<StagedBatch> made = source_->next()) current_ = std::move(*made).take();
    return;
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (feed_->empty()) send_next();
  if (feed_->empty()) return;  // the end
  Batch batch = feed_->receive();
  source_->transform(batch);
  current_ = std::move(batch);
  // The next one travels while the loop works on this one; its error waits for its turn.
  try {
    if (source_->ready()) send_next();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void DataLoader::Epoch::send_next() {
  if (std::optional<StagedBatch> made = source_->next()) feed_->send(std::move(*made));
}

double DataLoader::Epoch::waited_seconds() const { return source_->waited_seconds(); }

}  // namespace adret

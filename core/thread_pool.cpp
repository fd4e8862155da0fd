// The pool of workers behind parallel_for: each thread claims the chunks of its own section of the
// loop one by one, then what others have left; the calling thread claims like any other.
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace adret {
namespace {

using ChunkFunction = FunctionRef<void(int64_t, int64_t, int64_t)>;

thread_local bool inline_loops = false;

// Long enough to bridge the gap between two kernels of a step, short enough to leave the core to
// others when the step is over.
constexpr std::chrono::microseconds spin_time{50};

void pause_briefly() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits actively until done() or the spin time is over; returns done().
template <class Done>
bool spin_until(Done done) {
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return done();
}

int available_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

struct Loop {
  int64_t n = 0, grain = 1, chunks = 0;
  const ChunkFunction* f = nullptr;

  // The first chunk of a section, of `sections`; that of the one behind the last is `chunks`.
  int64_t first_of(size_t section, size_t sections) const {
    return chunks * int64_t(section) / int64_t(sections);
  }
  void run(int64_t chunk) const { (*f)(chunk, chunk * grain, std::min(n, (chunk + 1) * grain)); }
  void run_inline() const {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
  }
};

// Note [Claiming chunks]
// A loop's chunks lie in one section for each thread, so that a thread walks through memory in one
// piece and meets in a loop what it left in its caches in the one before: cores without a common
// cache would take each other's lines. A section's `unclaimed` counts down;
// lowering it by a compare-and-swap is the claim of one chunk. The loop's fields are written before
// any `unclaimed` is set (release) and read only after a claim (acquire). The caller waits for
// `unfinished_` to become zero, which each thread lowers by what it ran when it finds nothing more,
// so no claim outlives its loop, and a worker that wakes up late finds nothing to claim or claims
// from the next loop, whichever is there.
class ThreadPool {
 public:
  ThreadPool() { start(available_cores()); }

  int num_threads() const { return worker_count_.load(std::memory_order_relaxed) + 1; }

  void resize(int count) {
    const std::lock_guard lock(resizing_);
    stop();
    start(count);
  }

  void run(const Loop& loop) {
    // A second thread does its loop itself, as the workers are taken.
    if (num_threads() == 1 || busy_.test_and_set(std::memory_order_acquire)) {
      loop.run_inline();
      return;
    }
    publish(loop);
    {
      const InlineLoops nested;
      work(0);
    }
    if (!spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; })) {
      for (int64_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) {
        unfinished_.wait(left, std::memory_order_acquire);
      }
    }
    const std::exception_ptr error = std::exchange(error_, nullptr);
    failed_.store(false, std::memory_order_relaxed);
    busy_.clear(std::memory_order_release);
    if (error) std::rethrow_exception(error);
  }

 private:
  void start(int count) {
    stopping_.store(false, std::memory_order_relaxed);
    sections_ = std::vector<Section>(size_t(count));
    for (int i = 1; i < count; ++i) {
      try {
        workers_.emplace_back([this, i] { worker_main(size_t(i)); });
      } catch (const std::system_error& error) {
        throw Error(fmt::format(
            "[set_num_threads] wanted {} threads, could not start number {}: {}; ask for fewer",
            count, i + 1, error.what()));
      }
      worker_count_.store(i, std::memory_order_relaxed);
    }
  }

  void stop() {
    stopping_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    worker_count_.store(0, std::memory_order_relaxed);
  }

  void publish(const Loop& loop) {
    loop_ = loop;
    unfinished_.store(loop.chunks, std::memory_order_relaxed);
    for (size_t i = 0; i < sections_.size(); ++i) {
      const int64_t first = loop.first_of(i, sections_.size());
      sections_[i].unclaimed.store(loop.first_of(i + 1, sections_.size()) - first,
                                   std::memory_order_release);
    }
    epoch_.fetch_add(1, std::memory_order_release);
    // Costs a system call only when workers are parked.
    if (loop.chunks > worker_count_.load(std::memory_order_relaxed)) {
      epoch_.notify_all();
    } else {
      for (int64_t i = 1; i < loop.chunks; ++i) epoch_.notify_one();
    }
  }

  // Claims and runs chunks until none are left, those of section `home` first.
  void work(size_t home) {
    int64_t done = 0;
    for (size_t i = 0; i < sections_.size(); ++i) {
      done += work_in((home + i) % sections_.size());
    }
    if (done && unfinished_.fetch_sub(done, std::memory_order_acq_rel) == done) {
      unfinished_.notify_one();
    }
  }

  // How many it ran.
  int64_t work_in(size_t section) {
    std::atomic<int64_t>& unclaimed = sections_[section].unclaimed;
    int64_t done = 0;
    int64_t left = unclaimed.load(std::memory_order_relaxed);
    while (left > 0) {
      if (!unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
        continue;
      }
      run_chunk(loop_.first_of(section + 1, sections_.size()) - left);
      ++done;
      left = unclaimed.load(std::memory_order_relaxed);
    }
    return done;
  }

  void run_chunk(int64_t chunk) {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      loop_.run(chunk);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
    }
  }

  void worker_main(size_t home) {
    inline_loops = true;
    for (;;) {
      const uint32_t epoch = epoch_.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      work(home);
      const auto changed = [&] { return epoch_.load(std::memory_order_relaxed) != epoch; };
      if (!spin_until(changed)) epoch_.wait(epoch, std::memory_order_acquire);
    }
  }

  struct alignas(64) Section {
    std::atomic<int64_t> unclaimed = 0;
  };

  std::mutex resizing_;
  std::vector<std::thread> workers_;
  std::atomic<int> worker_count_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic_flag busy_;
  std::vector<Section> sections_;  // as many as threads were asked for
  Loop loop_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  // Each on a cache line of its own: they are written while others spin on their neighbours.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;
  alignas(64) std::atomic<int64_t> unfinished_ = 0;
};

// Never destroyed, as objects in static storage may still run kernels after main; only its workers
// end then.
ThreadPool& pool() {
  static ThreadPool* const instance = new ThreadPool;
  static const struct AtExit {
    ~AtExit() { instance->resize(1); }
  } at_exit;
  return *instance;
}

}  // namespace

void set_num_threads(int count) {
  if (count < 1) {
    throw Error(fmt::format("[set_num_threads] wants at least 1 thread, got {}", count));
  }
  pool().resize(count);
}

int num_threads() { return pool().num_threads(); }

InlineLoops::InlineLoops() : before_(std::exchange(inline_loops, true)) {}
InlineLoops::~InlineLoops() { inline_loops = before_; }

void parallel_chunks(int64_t n, int64_t grain, ChunkFunction f) {
  if (grain < 1) {
    throw Error(fmt::format("[parallel_for] wants a grain of at least 1 item, got {}", grain));
  }
  const Loop loop{n, grain, chunk_count(n, grain), &f};
  if (loop.chunks <= 1 || inline_loops) {
    loop.run_inline();
  } else {
    pool().run(loop);
  }
}

void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> f) {
  parallel_chunks(n, grain, [&](int64_t, int64_t begin, int64_t end) { f(begin, end); });
}

}  // namespace adret

// The thread pool: every index once, fixed chunks, exceptions, nesting, concurrent callers.
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;

// Restores the number of threads that the program started with.
class ThreadPoolTest : public testing::Test {
 protected:
  ~ThreadPoolTest() override { set_num_threads(before_); }
  const int before_ = num_threads();
};

struct LoopCase {
  int64_t n, grain;
};

TEST_F(ThreadPoolTest, RunsEveryIndexExactlyOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (const LoopCase c : {LoopCase{0, 4}, {1, 4}, {4, 4}, {5, 4}, {1000, 7}, {3, 100}}) {
      std::vector<std::atomic<int>> visits(size_t(c.n));
      parallel_for(c.n, c.grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[size_t(i)];
      });
      for (const auto& count : visits) EXPECT_EQ(count, 1) << c.n << " by " << c.grain;
    }
  }
}

TEST_F(ThreadPoolTest, ChunksDependOnTheLoopAloneNotOnThreads) {
  for (const int threads : {1, 2, 4}) {
    set_num_threads(threads);
    std::vector<std::pair<int64_t, int64_t>> seen(4);  // begin and end of each chunk
    parallel_chunks(10, 3, [&](int64_t chunk, int64_t begin, int64_t end) {
      seen[size_t(chunk)] = {begin, end};
    });
    const std::vector<std::pair<int64_t, int64_t>> expected = {{0, 3}, {3, 6}, {6, 9}, {9, 10}};
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(ThreadPoolTest, WorkersTakePartOnceTheyAreAwake) {
  set_num_threads(2);
  std::atomic<int> arrived = 0;
  std::atomic<int> met = 0;
  // Each of the two chunks waits for the other, so they must run on two threads.
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived == 2) ++met;
  });
  EXPECT_EQ(met, 2);
}

TEST_F(ThreadPoolTest, EachThreadBeginsWithAPartOfItsOwn) {
  set_num_threads(2);
  std::atomic<int> arrived = 0;
  std::array<std::atomic<bool>, 4> is_first{};
  // The chunks that wait for each other are the first of each thread.
  parallel_for(4, 1, [&](int64_t begin, int64_t) {
    if (arrived++ >= 2) return;
    is_first[size_t(begin)] = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_TRUE(is_first[0]);
  EXPECT_TRUE(is_first[2]);
}

TEST_F(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolStaysUsable) {
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (int round = 0; round < 20; ++round) {
      try {
        parallel_for(100, 1, [](int64_t begin, int64_t) {
          if (begin == 41) throw ShapeError("[kernel] item 41");
        });
        FAIL() << "no exception";
      } catch (const ShapeError& error) {
        EXPECT_EQ(std::string(error.what()), "[kernel] item 41");
      }
      std::atomic<int64_t> sum = 0;
      parallel_for(100, 1, [&](int64_t begin, int64_t) { sum += begin; });
      EXPECT_EQ(sum, 4950);
    }
  }
}

TEST_F(ThreadPoolTest, AGrainOfNothingIsRefused) {
  expect_error<Error>(
      [] {
        parallel_for(10, 0, [](int64_t, int64_t) {});
        return 0;
      },
      "[parallel_for] wants a grain of at least 1 item, got 0");
}

TEST_F(ThreadPoolTest, NestedLoopsRunOnTheThreadThatMetThem) {
  set_num_threads(4);
  std::atomic<int> elsewhere = 0;
  std::atomic<int64_t> sum = 0;
  parallel_for(16, 1, [&](int64_t, int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(10, 1, [&](int64_t begin, int64_t) {
      if (std::this_thread::get_id() != self) ++elsewhere;
      sum += begin;
    });
  });
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(sum, 16 * 45);
}

TEST_F(ThreadPoolTest, LoopsUnderInlineLoopsRunInOrderOnTheCaller) {
  set_num_threads(4);
  const InlineLoops inline_loops;
  std::vector<int64_t> order;
  std::set<std::thread::id> threads;
  parallel_for(50, 1, [&](int64_t begin, int64_t) {
    order.push_back(begin);
    threads.insert(std::this_thread::get_id());
  });
  ASSERT_EQ(order.size(), 50U);
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(order[size_t(i)], i);
  EXPECT_EQ(threads, std::set{std::this_thread::get_id()});
}

TEST_F(ThreadPoolTest, SeveralThreadsMayRunLoopsAtOnce) {
  set_num_threads(3);
  std::atomic<int64_t> wrong = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        std::atomic<int64_t> sum = 0;
        parallel_for(64, 4, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        if (sum != 2016) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

// Memory written by a chunk is plain memory to the caller afterwards, and the reverse; the pauses
// let the workers park between some of the loops.
TEST_F(ThreadPoolTest, ManyShortLoopsSeeEachOthersPlainMemory) {
  set_num_threads(2);
  std::vector<int64_t> values(8, 0);
  for (int round = 0; round < 2000; ++round) {
    parallel_for(8, 1, [&](int64_t begin, int64_t) { ++values[size_t(begin)]; });
    if (round % 200 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(values, std::vector<int64_t>(8, 2000));
}

TEST_F(ThreadPoolTest, TheNumberOfThreadsCanBeChangedAndIsChecked) {
  for (const int threads : {1, 5, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(num_threads(), threads);
  }
  try {
    set_num_threads(0);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "[set_num_threads] wants at least 1 thread, got 0");
  }
  EXPECT_EQ(num_threads(), 2);
}

}  // namespace
}  // namespace adret

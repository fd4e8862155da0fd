// Splits loops over the CPU's cores. Chunks depend on the loop alone, never on the number of
// threads, so results are the same bits for any number.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace adret {

// Threads that kernels may use, the calling one included: at first the cores this process may run
// on. Throws Error below 1. Not to be called while kernels run.
void set_num_threads(int count);
int num_threads();

// While it lives, loops of this thread run on it alone: for loader threads, and nested loops.
class InlineLoops {
 public:
  InlineLoops();
  ~InlineLoops();
  InlineLoops(const InlineLoops&) = delete;
  InlineLoops& operator=(const InlineLoops&) = delete;

 private:
  bool before_;
};

// A reference to a callable that outlives the call; allocates nothing.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F&& function)
      : object_(const_cast<void*>(static_cast<const void*>(&function))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Number of chunks of a loop over n items with `grain` items to a chunk.
constexpr int64_t chunk_count(int64_t n, int64_t grain) { return (n + grain - 1) / grain; }

// f(begin, end) over 0..n-1 in chunks of `grain` items (the last may be shorter), on all threads.
// A single chunk runs on the caller. The first exception is thrown to the caller when all have
// stopped. Throws Error for a grain below 1.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> f);
// The same with the chunk's index: f(chunk, begin, end), for partial results that are summed in
// order afterwards.
void parallel_chunks(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int64_t)> f);

}  // namespace adret

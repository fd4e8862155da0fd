// Loops compiled for several instruction sets, in a file that is compiled for any processor.
#pragma once

#include <adret/core/formula/kernel.h>

namespace adret::formula {

// Note [Inlined whole]
// GCC compiles a function for the instruction set in its `target`; with `flatten` all that it calls
// is inlined, and so compiled for that one too. What is inlined has no target of its own, so
// nothing that another function could call is made for a processor that may not be there.
template <class Loop>
[[gnu::flatten]] void run_for_all(const Loop& loop) {
  loop();
}

#if defined(__x86_64__) && defined(__OPTIMIZE__) && !defined(__AVX512F__)
template <class Loop>
[[gnu::flatten, gnu::target("avx2,fma,bmi,bmi2")]] void run_for_avx2(const Loop& loop) {
  loop();
}
template <class Loop>
[[gnu::flatten, gnu::target("avx2,fma,bmi,bmi2,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]] void
run_for_avx512(const Loop& loop) {
  loop();
}

template <class Loop>
void run_for_processor(const Loop& loop) {
  switch (vector_level()) {
    case 2: return run_for_avx512(loop);
    case 1: return run_for_avx2(loop);
    default: return run_for_all(loop);
  }
}
#else
template <class Loop>
void run_for_processor(const Loop& loop) {
  run_for_all(loop);
}
#endif

}  // namespace adret::formula

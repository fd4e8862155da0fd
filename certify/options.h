// What certify() is told about a layer: its inputs, and what it does on purpose.
#pragma once

#include <adret/core/dtype.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace adret {

// One input. Floating ones hold different numbers between low and high, none of them 0.
struct CertifyInput {
  std::string name = {};  // in reasons; "input 0" by default
  double low = -1.6, high = 1.6;
  int64_t below = 0;           // not 0: whole numbers from 0 to below - 1,
  DType whole = DType::i32;    // of this dtype
  bool batch = true;           // its leading dimension is the batch's
  bool differentiable = true;  // a floating one that has no gradient, as a target
};

// The largest norm of a difference, relative to the norm of what it is compared with.
struct CertifyTolerances {
  double f64 = 1e-9, f32 = 1e-4, f16 = 1e-2, bf16 = 6e-2;
};

struct CertifyOptions {
  std::vector<CertifyInput> inputs = {};  // the first ones'; by default as CertifyInput
  // Floating dtypes to try, f32 among them. Without f64 gradients are checked in f32, coarsely.
  std::vector<DType> dtypes = {DType::f32, DType::f64, DType::f16, DType::bf16};
  CertifyTolerances tolerances = {};
  // What the CPU is compared with: "auto" (the first GPU, if there is one), "cpu" (nothing),
  // "cuda" or "cuda:N", which fails when it cannot be used.
  std::string device = "auto";
  std::vector<int64_t> batches = {0, 1, 3};
  int64_t calls = 1000;             // to check the memory by
  int64_t gradient_elements = 100;  // checked in each input and parameter, at most

  // -- what is meant to be so --------------------------------------------------------------------
  bool random = false;         // draws random numbers in evaluation too; in training each may
  bool mixes_samples = false;  // a sample's result depends on the others of its batch
  bool f32_outputs = false;    // for inputs of any dtype, as losses
  bool eager_step = false;     // a training step with it need not be replayed
  std::map<std::string, std::string> skip = {};  // check: why it is left out
};

}  // namespace adret

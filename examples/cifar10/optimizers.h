// What trains the network: Sgd, or Muon for most of the convolutions and Sgd for the rest.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "arguments.h"

namespace cifar10 {

struct Optimizers {
  std::unique_ptr<Sgd> sgd;
  std::unique_ptr<Muon> muon;            // null without args.muon_lr
  std::vector<ScheduledOptimizer> list;  // of those that are there
};

// For a training of `steps` steps; args.lr is set.
Optimizers make_optimizers(const Module& model, const Arguments& args, int64_t steps);

}  // namespace cifar10

// Running statistics of batch norms, measured anew.
#pragma once

#include <adret/data/loader.h>
#include <adret/layers/module.h>

namespace adret {

// Replaces the running statistics of every batch norm by the means of those of the loader's
// batches, which the model in training mode sees once (Izmailov et al. 2018; PyTorch's update_bn):
// for weights that were not trained with the statistics, as averages of weights.
//
//   const AveragedWeights averaged(average);
//   update_batch_norm(model, train_loader);
//   ... evaluate, save_weights ...
//
// Weights and every layer's mode stay, and a norm that no batch reaches keeps its statistics.
// Throws Error for a momentum of 0, with which a norm does not tell its statistics. Any error
// leaves all statistics as they were, as that of a norm for a last batch of one sample, which
// drop_last leaves out. Does nothing for a model without norms.
void update_batch_norm(Module& model, const DataLoader& loader);

}  // namespace adret

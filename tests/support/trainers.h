// A short training on a device, from making the model to letting go of everything.
#pragma once

#include <adret/core/random.h>
#include <adret/data/loader.h>
#include <adret/layers/init.h>
#include <adret/layers/models/lenet.h>
#include <adret/optim/sgd.h>
#include <adret/train/trainer.h>

namespace adret::test {

inline void train_once(Device device) {
  random::manual_seed(1);
  const Tensor images = Tensor::empty({40, 28, 28, 1});
  init::normal_(images, 0, 1);
  LeNet model;
  model.to(device);
  Sgd optimizer(model, {.lr = 0.01, .momentum = 0.9});
  const TensorDataset data(images, Tensor::zeros({40}, {.dtype = DType::i32}), 10);
  Trainer(model, optimizer).fit(DataLoader(data, {.batch_size = 16, .shuffle = true}));
}

}  // namespace adret::test

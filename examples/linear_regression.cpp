// Fits a line to noisy points of y = 2 x - 1 by gradient descent.
// Reaches: weight within 0.02 of 2, bias within 0.02 of -1, in well under a second.
#include <adret/adret.h>

#include <cstdio>

using namespace adret;

int main() {
  random::manual_seed(1);
  const Tensor x = Tensor::empty({200, 1});
  init::uniform_(x, -1, 1);
  const Tensor noise = Tensor::empty({200, 1});
  init::normal_(noise, 0, 0.05);
  const Tensor y = 2 * x - 1 + noise;

  Linear line(1, 1);
  Sgd optimizer(line, {.lr = 0.1, .momentum = 0.9});
  for (int step = 0; step <= 100; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(line(x), y);
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::printf("step %3d  loss %.5f\n", step, loss.item());
  }
  std::printf("weight %.3f  bias %.3f\n", line.weight.value.item(), line.bias.value.item());
}

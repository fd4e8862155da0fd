// Optimizers step by step against PyTorch 1.13.
#include <adret/layers/module.h>
#include <adret/optim/adam.h>
#include <adret/optim/sgd.h>
#include <gtest/gtest.h>

#include <cmath>

namespace adret {
namespace {

// The numbers below come from
//   a = (torch.arange(6.).reshape(2, 3) / 10).requires_grad_()
//   b = torch.tensor([1., -1.]).requires_grad_()
//   o = make([a, b])
//   for t in range(5):
//       a.grad = torch.tensor([math.cos(t + 0.7 * i) for i in range(6)]).reshape(2, 3)
//       b.grad = torch.tensor([math.sin(t + 0.7 * i) for i in range(2)])
//       o.step()
//   print(a.flatten().tolist() + b.tolist())
struct Pair : Layer<Pair> {
  Parameter& a = parameter("a", Tensor::from({0.f, .1f, .2f, .3f, .4f, .5f}, {2, 3}));
  Parameter& b = parameter("b", Tensor::from({1.f, -1.f}, {2}));
};

using Values = std::vector<float>;

void expect_after_five_steps(Pair& model, Optimizer& optimizer, const Values& wanted) {
  for (int t = 0; t < 5; ++t) {
    Values da, db;
    for (int i = 0; i < 6; ++i) da.push_back(float(std::cos(t + 0.7 * i)));
    for (int i = 0; i < 2; ++i) db.push_back(float(std::sin(t + 0.7 * i)));
    model.a.value.set_grad(Tensor::from(da, {2, 3}));
    model.b.value.set_grad(Tensor::from(db, {2}));
    optimizer.step();
  }
  Values got = model.a.value.to_vector();
  const Values b = model.b.value.to_vector();
  got.insert(got.end(), b.begin(), b.end());
  // f32, five steps; the order of the operations may differ in the last bits.
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
}

TEST(Sgd, MatchesPyTorch) {  // SGD(p, lr=0.1)
  Pair model;
  Sgd optimizer(model, {.lr = 0.1});
  expect_after_five_steps(model, optimizer,
                          {0.0519480631, 0.212856323, 0.32068646, 0.371755898, 0.389077425,
                           0.411536008, 0.886491418, -1.05335033});
}

TEST(Sgd, MatchesPyTorchWithMomentumAndWeightDecay) {  // momentum=0.9, weight_decay=0.01
  Pair model;
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
  expect_after_five_steps(model, optimizer,
                          {-0.227135003, 0.237936944, 0.637518287, 0.830094457, 0.771508694,
                           0.535729766, 0.501071811, -1.50478315});
}

TEST(Sgd, MatchesPyTorchWithNesterov) {  // momentum=0.9, weight_decay=0.01, nesterov=True
  Pair model;
  Sgd optimizer(model, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  expect_after_five_steps(model, optimizer,
                          {-0.150497183, 0.336923242, 0.712126672, 0.844892383, 0.719021678,
                           0.439956844, 0.434191465, -1.50012624});
}

// SGD([{'params': [a], 'lr': 0.1, 'momentum': 0.9},
//      {'params': [b], 'lr': 0.01, 'weight_decay': 0.5}], lr=1)
TEST(Sgd, MatchesPyTorchWithGroups) {
  Pair model;
  const auto parameters = model.parameters();
  Sgd optimizer({{{parameters[0]}, {.lr = 0.1, .momentum = 0.9}},
                 {{parameters[1]}, {.lr = 0.01, .weight_decay = 0.5}}});
  expect_after_five_steps(model, optimizer,
                          {-0.229081213, 0.238480523, 0.640912712, 0.83597672, 0.778962493,
                           0.543716371, 0.964121282, -0.980291784});
}

TEST(Adam, MatchesPyTorch) {  // Adam(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
  Pair model;
  Adam optimizer(model,
                 {.lr = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.1});
  expect_after_five_steps(model, optimizer,
                          {-0.167477608, 0.0838718265, 0.337210059, 0.621788323, 0.617756963,
                           0.571540415, 0.6190781, -1.28178477});
}

TEST(AdamW, MatchesPyTorch) {  // AdamW(p, lr=0.1, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1)
  Pair model;
  AdamW optimizer(model,
                  {.lr = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3, .weight_decay = 0.1});
  expect_after_five_steps(model, optimizer,
                          {-0.165450901, 0.084457688, 0.335352063, 0.611504257, 0.608633459,
                           0.566536605, 0.69826597, -1.25800729});
}

// The same in f64 beside f32: a segment has its own dtype.
TEST(Adam, UpdatesEachParameterInItsDtype) {
  struct Mixed : Layer<Mixed> {
    Parameter& wide = parameter("wide", Tensor::full({3}, 1, {.dtype = DType::f64}));
    Parameter& narrow = parameter("narrow", Tensor::full({3}, 1));
  } model;
  Adam optimizer(model, {.lr = 0.25});
  model.wide.value.set_grad(Tensor::full({3}, 2, {.dtype = DType::f64}));
  model.narrow.value.set_grad(Tensor::full({3}, -2));
  optimizer.step();  // the first step moves by lr against the sign of the gradient
  EXPECT_NEAR(model.wide.value.to_vector<double>()[2], 0.75, 1e-8);
  EXPECT_NEAR(model.narrow.value.to_vector()[2], 1.25, 1e-6);
}

}  // namespace
}  // namespace adret

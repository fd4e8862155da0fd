// Captured kernel calls beside the same calls made again, and what a captured step may not do.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/activation.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/autograd/ops/loss.h>
#include <adret/autograd/ops/matmul.h>
#include <adret/autograd/ops/pool.h>
#include <adret/autograd/ops/reduce.h>
#include <adret/autograd/ops/shape.h>
#include <adret/core/compute_mode.h>
#include <adret/core/error.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/random.h>
#include <adret/core/storage.h>
#include <adret/layers/conv.h>
#include <adret/layers/linear.h>
#include <adret/layers/norm.h>
#include <adret/optim/sgd.h>

#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/second_device_test.h"
#include "tests/support/seen_kernels.h"

namespace adret {
namespace {

using namespace test;

using Work = std::function<void()>;

Tensor there(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape, second);
}

// Numbers between -1 and 1 that differ from seed to seed.
Tensor noise(const Shape& shape, uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    values.push_back(float(int32_t(philox({uint32_t(i), 0, 0, 0}, {seed, 7})[0])) * 0x1p-31f);
  }
  return Tensor::from(values, shape);
}

TEST(DeviceGraph, IsNullWhereADeviceHasNone) {
  bool was_called = false;
  EXPECT_EQ(backend_for(Device::cpu()).services().capture([&] { was_called = true; }), nullptr);
  EXPECT_FALSE(was_called);
}

struct Captured : OnSecondDevice {
  DeviceServices& services = backend_for(second).services();

  void SetUp() override {
    if (!services.capture([] {})) GTEST_SKIP() << "the second device has no graphs";
  }
  // Behind one ordinary call.
  std::unique_ptr<DeviceGraph> capture(const Work& work) const {
    work();
    return services.capture(work);
  }
};

// -- the same bits -------------------------------------------------------------------------------

struct Net : Layer<Net> {
  Conv2d& conv = add("conv", Conv2d(3, 8, {.kernel = 3, .padding = 1}));
  BatchNorm2d& norm = add("norm", BatchNorm2d(8));
  Linear& head = add("head", Linear(8 * 4 * 4, 10));

  Tensor forward(const Tensor& x) { return head(flatten(max_pool2d(relu(norm(conv(x))), 2))); }
};

// A training with momentum, whose step is a list of calls that always work on the same memory.
class Training {
 public:
  Training() {
    net_.to(second);
    optimizer_ = std::make_unique<Sgd>(
        net_, SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
    for (uint32_t i = 0; i < 2; ++i) {
      set_batch(i);
      step();
    }
    set_batch(2);
    const PoolScope scope(second, *memory_);
    SeenKernels seen;
    step();
    calls_ = std::move(seen.calls);
  }

  void set_batch(uint32_t number) {
    const NoGrad guard;
    copy_(images_, noise(images_.shape(), number));
    std::vector<int32_t> labels;
    for (uint32_t i = 0; i < 16; ++i) labels.push_back(int32_t((i * 3 + number) % 10));
    copy_(labels_, Tensor::from(labels, {16}));
  }
  void run_calls() const {
    for (const Kernel& call : calls_) dispatch(call);
  }
  std::vector<float> state() const {
    std::vector<float> values = loss_.to_vector();
    const auto append = [&](const Tensor& tensor) {
      for (const float value : tensor.to(DType::f32).to_vector()) values.push_back(value);
    };
    for (const auto& parameter : net_.parameters()) append(parameter->value);
    for (const auto& buffer : net_.named_buffers()) append(buffer.tensor);
    return values;
  }

 private:
  static Net make_net() {
    random::manual_seed(3);
    return Net();
  }
  static MemoryPool& pool() { return backend_for(second).services().pool(); }
  void step() {
    optimizer_->zero_grad();
    const Tensor loss = cross_entropy(net_(images_), labels_, {.label_smoothing = 0.1});
    loss.backward();
    optimizer_->clip_norm(1);
    optimizer_->step();
    loss_ = loss.detach();
  }

  Net net_ = make_net();
  std::unique_ptr<Sgd> optimizer_;
  Tensor images_ = Tensor::zeros({16, 8, 8, 3}, {.device = second});
  Tensor labels_ = Tensor::zeros({16}, {.dtype = DType::i32, .device = second});
  Tensor loss_;
  std::unique_ptr<MemoryPool> memory_ = pool().make_private("the step of a test");
  std::vector<Kernel> calls_;
};

TEST_F(Captured, TrainsLikeTheCalls) {
  ComputeMode mode = compute_mode();
  mode.deterministic = true;
  const ComputeModeScope scope(mode);
  Training eager, replayed;
  ASSERT_EQ(eager.state(), replayed.state());
  replayed.set_batch(3);
  const auto graph = capture([&] { replayed.run_calls(); });
  ASSERT_NE(graph, nullptr);
  EXPECT_GE(graph->nodes(), 15);
  eager.set_batch(3);
  eager.run_calls();
  std::vector<float> before;
  for (uint32_t batch = 4; batch < 12; ++batch) {
    eager.set_batch(batch);
    eager.run_calls();
    replayed.set_batch(batch);
    graph->launch();
    ASSERT_EQ(eager.state(), replayed.state()) << batch;
    EXPECT_NE(replayed.state(), before);
    before = replayed.state();
  }
}

TEST_F(Captured, ComputesNothingUntilItIsLaunched) {
  const NoGrad guard;
  const Tensor y = there({1, 2}, {2});
  const auto graph = services.capture([&] { fill_(y, 5); });
  EXPECT_EQ(graph->nodes(), 1);
  EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 2}));
  graph->launch();
  EXPECT_EQ(y.to_vector(), (std::vector<float>{5, 5}));
}

TEST_F(Captured, IsOrderedWithTheKernelsAroundIt) {
  const NoGrad guard;
  const Tensor x = Tensor::zeros({1 << 16}, {.device = second}), sum = x.clone();
  const auto graph = capture([&] { add_(sum, x); });
  for (int i = 1; i <= 100; ++i) {
    fill_(x, i);
    graph->launch();
    if (i == 50) fill_(sum, 0);
  }
  EXPECT_EQ(sum.to_vector(), std::vector<float>(1 << 16, 51 * 50 / 2 + 50 * 50));
}

// -- order and copies ----------------------------------------------------------------------------

TEST_F(Captured, LanesWaitForWhatTheyAreTold) {
  const NoGrad guard;
  const Tensor x = noise({512, 512}, 1).to(second), w = noise({512, 512}, 2).to(second);
  const Tensor y = Tensor::zeros({512, 512}, {.device = second}), z = y.clone();
  const Tensor total = Tensor::zeros({}, {.device = second});
  const auto product = [&](const Tensor& a, const Tensor& to) {
    run(kernels::Matmul{.a = a, .b = w, .y = to});
  };
  const auto add_up = [&] { run(kernels::Reduce{.x = z, .y = total, .dims = 3}); };
  product(x, y);
  product(y, z);
  add_up();
  const float expected = float(total.item());
  const std::vector<float> other = y.to_vector();
  const auto graph = services.capture([&](GraphOrder& order) {
    product(x, y);  // call 0
    const size_t first[] = {0};
    order.lane(1, first);
    product(y, z);  // 1
    add_up();       // 2, behind it
    order.lane(0, {});
    fill_(x, 0);  // 3, beside them
    const size_t both[] = {2};
    order.lane(0, both);
    fill_(z, 0);  // 4, behind what reads it
  });
  EXPECT_GE(graph->nodes(), 5);
  graph->launch();
  EXPECT_EQ(float(total.item()), expected);
  EXPECT_EQ(y.to_vector(), other);
  EXPECT_EQ(sum(abs(z)).item(), 0);
  EXPECT_EQ(sum(abs(x)).item(), 0);
}

// Kernels that count blocks in device memory, in two lanes at once; for 64 channels, the bias's.
TEST_F(Captured, GradientsOfWeightsMayRunInBothLanes) {
  struct Layer {
    Tensor x, dy, dweight, dbias;
    Layer(int64_t batch, int64_t channels, int64_t outputs)
        : x(noise({batch, 10, 10, channels}, 1).to(DType::bf16).to(second)),
          dy(noise({batch, 8, 8, outputs}, 2).to(DType::bf16).to(second)),
          dweight(Tensor::zeros({outputs, 3, 3, channels}, {DType::bf16, second})),
          dbias(Tensor::zeros({outputs}, {DType::bf16, second})) {}
    void run() const { adret::run(kernels::Conv2dBackwardWeight{x, dy, dweight, dbias}); }
    void clear() const { fill_(dweight, 0), fill_(dbias, 0); }
    std::vector<float> result() const {
      return concatenate({dweight.reshape({-1}), dbias}, 0).to(DType::f32).to_vector();
    }
  };
  const Layer layers[] = {{256, 6, 16}, {192, 6, 16}, {256, 64, 64}, {192, 64, 64}};
  std::vector<std::vector<float>> expected;
  for (const Layer& layer : layers) {
    layer.run();
    expected.push_back(layer.result());
  }
  const auto graph = services.capture([&](GraphOrder& order) {
    for (int i = 0; i < 16; ++i) {
      order.lane(i % 2, {});
      layers[i % 4].run();
    }
  });
  const NoGrad guard;
  for (int launch = 0; launch < 20; ++launch) {
    for (const Layer& layer : layers) layer.clear();
    graph->launch();
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(layers[i].result(), expected[i]) << launch;
  }
}

TEST_F(Captured, CopiesHaveTheAddressesOfTheLaunch) {
  const NoGrad guard;
  for (const int64_t count : {1, 3, 1000, 1 << 20}) {
    const Tensor in = Tensor::zeros({count}, {.device = second}), out = in.clone();
    const auto bytes = size_t(count) * sizeof(float);
    const auto graph = services.capture([&](GraphOrder& order) {
      order.copy({in.data(), in.data(), bytes});
      copy_(out, in);
      order.copy({out.data(), out.data(), bytes});
    });
    // Off the alignment of vectors, too.
    std::vector<float> numbers(size_t(count) + 1);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    const Tensor from = there(numbers, {count + 1}), to = from.clone();
    for (const int64_t offset : {0, 1, 0}) {
      fill_(to, -1);
      const MemoryCopy copies[] = {{in.data(), static_cast<float*>(from.data()) + offset, bytes},
                                   {static_cast<float*>(to.data()) + offset, out.data(), bytes}};
      graph->launch(copies);
      const std::vector<float> result = to.to_vector();
      for (int64_t i = 0; i < count; ++i) ASSERT_EQ(result[size_t(i + offset)], float(i + offset));
      EXPECT_EQ(result[size_t(offset ? 0 : count)], -1);
    }
    expect_error<DeviceError>([&] { return graph->launch(), 0; },
                              "[capture] the graph has 2 copies, got addresses for 0");
  }
}

// -- memory --------------------------------------------------------------------------------------

// y = relu(a b) and its sum, with tensors in between that the step takes itself.
struct Chain {
  Tensor a = noise({256, 512}, 1).to(second), b = noise({512, 300}, 2).to(second);
  Tensor y = Tensor::zeros({256, 300}, {.device = second});
  Tensor total = Tensor::zeros({}, {.device = second});

  void operator()() const {
    const NoGrad guard;
    const Tensor product = relu(matmul(a, b));
    copy_(y, product);
    copy_(total, sum(product * 2));
  }
};

TEST_F(Captured, KeepsItsMemoryFromOthers) {
  const NoGrad guard;
  const Chain chain;
  chain();
  const std::vector<float> y = chain.y.to_vector();
  const float total = float(chain.total.item());
  const auto graph = services.capture(chain);
  EXPECT_GE(graph->bytes(), 256 * 300 * sizeof(float));
  for (int round = 0; round < 5; ++round) {
    std::vector<Tensor> others;
    for (int64_t size = 1; size <= (1 << 22); size *= 4) {
      others.push_back(Tensor::full({size}, 77, {.device = second}));
    }
    services.pool().free_cache();
    fill_(chain.y, 0);
    graph->launch();
    EXPECT_EQ(chain.y.to_vector(), y);
    EXPECT_EQ(chain.total.item(), total);
    for (const Tensor& other : others) {
      EXPECT_EQ(other.to_vector(), std::vector<float>(size_t(other.numel()), 77));
    }
  }
}

TEST_F(Captured, TakesNoMemoryInAThousandLaunches) {
  const Chain chain;
  const auto graph = capture(chain);
  graph->launch();
  const MemoryStats before = services.pool().stats();
  const size_t held = graph->bytes();
  for (int i = 0; i < 1000; ++i) graph->launch();
  services.synchronize();
  EXPECT_EQ(services.pool().stats().reserved, before.reserved);
  EXPECT_EQ(services.pool().stats().allocations, before.allocations);
  EXPECT_EQ(graph->bytes(), held);
}

TEST_F(Captured, MayBeDestroyedWhileItRuns) {
  const Chain chain;
  chain();
  const std::vector<float> y = chain.y.to_vector();
  for (int round = 0; round < 10; ++round) {
    const auto graph = services.capture(chain);
    for (int i = 0; i < 20; ++i) graph->launch();
  }
  EXPECT_EQ(chain.y.to_vector(), y);
}

TEST_F(Captured, MayFreeAndTakeMemoryMeanwhile) {
  const NoGrad guard;
  const Chain chain;
  chain();
  const std::vector<float> y = chain.y.to_vector();
  const auto graph = services.capture([&] {
    services.pool().free_cache();
    chain();
    services.pool().free_cache();
    chain();
  });
  fill_(chain.y, 0);
  graph->launch();
  EXPECT_EQ(chain.y.to_vector(), y);
}

TEST_F(Captured, LeavesTensorsThatOutliveIt) {
  Tensor kept;
  const NoGrad guard;
  auto graph = services.capture([&] { kept = Tensor::full({3}, 4, {.device = second}); });
  graph->launch();
  graph.reset();
  EXPECT_EQ(kept.to_vector(), (std::vector<float>{4, 4, 4}));
}

// -- what it may not do --------------------------------------------------------------------------

struct Refusing : Captured {
  // Work that ends in `last` throws with the text; what was before is not done, the device works.
  template <class Last>
  void expect_refused(const Last& last, const std::string& text) const {
    SCOPED_TRACE(text);
    const NoGrad guard;
    const Tensor y = there({1, 2}, {2});
    expect_error<DeviceError>(
        [&] {
          return services.capture([&] {
            fill_(y, 5);
            last(y);
          }) != nullptr;
        },
        text);
    EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 2}));
    const auto graph = services.capture([&] { fill_(y, 6); });
    graph->launch();
    EXPECT_EQ(y.to_vector(), (std::vector<float>{6, 6}));
  }
};

TEST_F(Refusing, ReadingAndSending) {
  expect_refused([](const Tensor& y) { sum(y).item(); },
                 "[capture] a value is read on the host inside a captured step");
  expect_refused([](const Tensor& y) { y.to_vector(); }, "; read it behind the step");
  expect_refused([](const Tensor&) { there({1}, {1}); },
                 "[capture] a value of the host is sent to the device inside a captured step");
}

TEST_F(Refusing, Waiting) {
  DeviceServices& s = services;
  const auto buffer = s.host_buffer(8);
  const auto copies = [&](const Tensor& y) {
    return std::vector<MemoryCopy>{{.to = y.data(), .from = buffer->data(), .bytes = 8}};
  };
  expect_refused([&](const Tensor&) { s.synchronize(); },
                 "[capture] the device is waited for inside a captured step");
  expect_refused([&](const Tensor&) { s.now(); }, "[capture] a moment is taken");
  expect_refused([&](const Tensor&) { s.run_after({}); }, "[capture] kernels are held up");
  expect_refused([&](const Tensor& y) { s.upload(copies(y), {}); }, "[capture] a copy beside");
  expect_refused([&](const Tensor& y) { s.download(copies(y), {}); }, "[capture] a copy beside");
}

TEST_F(Refusing, AnotherCaptureAndALaunch) {
  const NoGrad guard;
  const Tensor z = there({1}, {1});
  const auto other = services.capture([&] { fill_(z, 2); });
  expect_refused([&](const Tensor&) { services.capture([] {}); },
                 "[capture] a step is captured inside a captured step");
  expect_refused([&](const Tensor&) { other->launch(); },
                 "[capture] a captured step is launched inside a captured step");
  EXPECT_EQ(z.to_vector(), std::vector<float>{1});
}

TEST_F(Refusing, WhatIsDrawnOnTheHost) {
  const Tensor z = Tensor::zeros({64}, {.device = second});
  const Tensor step = Tensor::zeros({}, {.dtype = DType::i64, .device = second});
  const auto draw = [&](const Tensor&) {
    run(kernels::RandomNormal{.y = z, .step = step, .key = {}, .mean = 0, .std = 1});
  };
  draw(z);
  expect_refused(draw, "[capture] normals are drawn on the host inside a captured step");
}

TEST_F(Refusing, ToChooseAPlan) {
  const Tensor a = noise({211, 307}, 1).to(second), b = noise({307, 509}, 2).to(second);
  expect_refused(
      [&](const Tensor&) { matmul(a, b); },
      "[capture] a matrix product's plan is chosen inside a captured step, by matmul; run "
      "the same calls once before");
  const auto graph = capture([&] { matmul(a, b); });
  EXPECT_NE(graph, nullptr);
}

TEST_F(Captured, IsGivenUpWhenItsWorkThrows) {
  const NoGrad guard;
  const Tensor y = there({1, 2}, {2});
  EXPECT_THROW(services.capture([&] {
    fill_(y, 5);
    throw std::runtime_error("stop");
  }),
               std::runtime_error);
  const auto graph = services.capture([&] { fill_(y, 6); });
  EXPECT_EQ(y.to_vector(), (std::vector<float>{1, 2}));
  graph->launch();
  EXPECT_EQ(y.to_vector(), (std::vector<float>{6, 6}));
}

TEST_F(Captured, IsNothingToOtherThreads) {
  const NoGrad guard;
  const Tensor y = there({1, 2}, {2}), z = there({3}, {1});
  services.synchronize();  // the copy to z does not wait for what was there before
  std::future<std::vector<float>> read;
  const auto graph = services.capture([&] {
    fill_(y, 5);
    read = std::async(std::launch::async, [&] {
      const auto buffer = services.host_buffer(4);
      *static_cast<float*>(buffer->data()) = 9;
      const MemoryCopy copy{.to = z.data(), .from = buffer->data(), .bytes = 4};
      if (const Moment over = services.upload({&copy, 1}, {})) over->wait();
      return z.to_vector();  // waits until the capture is over
    });
    fill_(y, 6);
  });
  EXPECT_EQ(read.get(), std::vector<float>{9});
  EXPECT_EQ(graph->nodes(), 2);
}

}  // namespace
}  // namespace adret

// Running statistics of batch norms, measured anew.
#include <adret/autograd/grad_mode.h>
#include <adret/autograd/ops/arithmetic.h>
#include <adret/autograd/ops/inplace.h>
#include <adret/core/error.h>
#include <adret/layers/eval_mode.h>
#include <adret/layers/norm.h>
#include <adret/train/update_batch_norm.h>
#include <fmt/core.h>

#include <list>
#include <optional>
#include <string>

namespace adret {
namespace {

// The means of a norm's statistics while it lives; what was there before stays unless the
// measurement is completed and had a call. Running statistics that are 0 become momentum
// times those of the next batch, so they are taken from there.
class Measurement {
 public:
  template <class Layer>
  Measurement(Layer& norm, const std::string& name)
      : norm_{norm, norm.running_mean, norm.running_var, norm.num_batches_tracked,
              norm.options.momentum},
        mean_before_(norm.running_mean.clone()),
        var_before_(norm.running_var.clone()),
        batches_before_(norm.num_batches_tracked.clone()) {
    if (norm.options.momentum == 0) {
      throw Error(
          fmt::format("[update_batch_norm] the momentum of \"{}\" is 0, so that its running "
                      "statistics never change; give it another one",
                      name));
    }
    hook_ = norm_.module.add_forward_hook([this](Module&, const Tensor&) { take(); });
    clear();
    fill_(norm_.num_batches_tracked, 0);
  }
  ~Measurement() {
    norm_.module.remove_forward_hook(hook_);
    const NoGrad no_grad;
    const bool measured = is_complete_ && calls_ > 0;
    try {
      copy_(norm_.running_mean, measured ? mean_ : mean_before_);
      copy_(norm_.running_var, measured ? var_ : var_before_);
      if (!measured) copy_(norm_.num_batches_tracked, batches_before_);
    } catch (...) {
      // The device itself failed: there is nothing to put anything into.
    }
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  void complete() { is_complete_ = true; }

 private:
  void take() {
    const NoGrad no_grad;
    ++calls_;
    const auto move = [this](Tensor& mean, const Tensor& running) {
      const Tensor latest = running * (1 / norm_.momentum);
      mean = calls_ == 1 ? latest : mean + (latest - mean) * (1 / double(calls_));
    };
    move(mean_, norm_.running_mean);
    move(var_, norm_.running_var);
    clear();
  }
  void clear() {
    fill_(norm_.running_mean, 0);
    fill_(norm_.running_var, 0);
  }

  // Of a layer of any of the kinds.
  struct Norm {
    Module& module;
    Tensor &running_mean, &running_var, &num_batches_tracked;
    double momentum;
  };
  const Norm norm_;
  const Tensor mean_before_, var_before_, batches_before_;
  Tensor mean_, var_;  // of the calls
  int hook_ = 0;
  int64_t calls_ = 0;
  bool is_complete_ = false;
};

// Begins to measure the module if it is such a layer.
template <class Layer>
void measure(Module* module, const std::string& name, std::list<Measurement>& measurements) {
  auto* const norm = dynamic_cast<Layer*>(module);
  if (norm && norm->training()) measurements.emplace_back(*norm, name);
}

}  // namespace

void update_batch_norm(Module& model, const DataLoader& loader) {
  const NameScope scope("update_batch_norm");
  const NoGrad no_grad;
  std::optional<EvalMode> modes;  // to be restored
  if (!model.training()) {
    modes.emplace(model);
    model.train();
  }
  std::list<Measurement> measurements;
  for (const auto& [name, module] : model.named_modules()) {
    measure<BatchNorm1d>(module, name, measurements);
    measure<BatchNorm2d>(module, name, measurements);
    measure<BatchNorm3d>(module, name, measurements);
  }
  if (measurements.empty()) return;
  const Device device = model.device();
  for (const Batch& batch : loader.epoch(0)) model.call(batch.inputs.to(device));
  for (Measurement& measurement : measurements) measurement.complete();
}

}  // namespace adret

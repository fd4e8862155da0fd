// The dry run of a model, and the table of what it found.
#include <adret/autograd/grad_mode.h>
#include <adret/core/decorators/dry_run.h>
#include <adret/layers/eval_mode.h>
#include <adret/layers/summary.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace adret {
namespace {

// Notes the shapes of all layers' outputs in their rows while it lives.
class Watch {
 public:
  Watch(const std::vector<NamedModule>& modules, std::vector<SummaryRow>& rows)
      : modules_(modules) {
    for (size_t i = 0; i < modules_.size(); ++i) {
      hooks_.push_back(modules_[i].module->add_forward_hook(
          [&rows, i](Module&, const Tensor& y) { rows[i].outputs.push_back(y.shape()); }));
    }
  }
  ~Watch() {
    for (size_t i = 0; i < modules_.size(); ++i) {
      modules_[i].module->remove_forward_hook(hooks_[i]);
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  const std::vector<NamedModule>& modules_;
  std::vector<int> hooks_;
};

int64_t count(const Module& module) {
  int64_t elements = 0;
  for (const auto& parameter : module.parameters()) elements += parameter->value.numel();
  return elements;
}

// 1234567 -> "1,234,567"
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (auto i = int64_t(digits.size()) - 3; i > 0; i -= 3) digits.insert(size_t(i), ",");
  return digits;
}

// 1234567 -> "1.23 M"
std::string scaled(double value) {
  constexpr const char* units[] = {"", " k", " M", " G", " T", " P"};
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}{}", value, units[unit]);
}

using Line = std::array<std::string, 5>;

Line line_of(const SummaryRow& row) {
  std::string shape = row.outputs.empty() ? "not called" : to_string(row.outputs.front());
  if (row.outputs.size() > 1) shape += fmt::format(" x{}", row.outputs.size());
  return {row.name.empty() ? "(model)" : row.name, row.type, shape, grouped(row.parameters),
          scaled(row.flops)};
}

std::string print(const std::vector<Line>& lines) {
  std::array<size_t, 5> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}\n", line[0], widths[0], line[1],
                        widths[1], line[2], widths[2], line[3], widths[3], line[4], widths[4]);
  }
  return text;
}

}  // namespace

std::vector<SummaryRow> summarize(Module& model, const Shape& input) {
  const NoGrad no_grad;
  const EvalMode evaluation(model);
  const std::vector<NamedModule> modules = model.named_modules();
  std::vector<SummaryRow> rows(modules.size());
  const Watch watch(modules, rows);
  const Tensor x = Tensor::empty(input, {.device = model.device()});
  const std::string outside = NameScope::path();
  DryRun dry_run;
  model.call(x);
  const std::string root = (outside.empty() ? "" : outside + "/") + model.name();
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [name, module] = modules[i];
    std::string path = root;
    if (!name.empty()) path.append("/").append(name);
    std::replace(path.begin() + std::ptrdiff_t(root.size()), path.end(), '.', '/');
    rows[i].name = name;
    rows[i].type = module->type_name();
    rows[i].parameters = count(*module);
    rows[i].flops = dry_run.under(path).flops;
  }
  return rows;
}

std::string summary(Module& model, const Shape& input) {
  std::vector<Line> lines{{"layer", "type", "output", "parameters", "FLOPs"}};
  const std::vector<SummaryRow> rows = summarize(model, input);
  for (const SummaryRow& row : rows) lines.push_back(line_of(row));
  int64_t frozen = 0;
  for (const auto& parameter : model.parameters()) {
    if (!parameter->requires_grad()) frozen += parameter->value.numel();
  }
  return print(lines) + fmt::format("{} parameters, {} of them trained; {} FLOPs for an input {}\n",
                                    grouped(rows[0].parameters),
                                    grouped(rows[0].parameters - frozen), scaled(rows[0].flops),
                                    to_string(input));
}

}  // namespace adret

// Prints tensors like NumPy.
#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/tensor.h>
#include <fmt/core.h>

#include <ostream>
#include <vector>

namespace adret {
namespace {

constexpr int64_t edge_items = 3;           // shown at either end of an abbreviated dimension
constexpr int64_t abbreviate_above = 1000;  // elements

std::vector<std::string> element_texts(const Tensor& tensor) {
  const Tensor host = tensor.detach().to(Device::cpu());
  std::vector<std::string> texts;
  texts.reserve(size_t(host.numel()));
  if (is_floating(host.dtype())) {
    for (double value : host.to(DType::f64).to_vector<double>())
      texts.push_back(fmt::format("{:.6g}", value));
  } else if (host.dtype() == DType::boolean) {
    for (bool value : host.to_vector<bool>()) texts.push_back(value ? "true" : "false");
  } else {
    for (int64_t value : host.to(DType::i64).to_vector<int64_t>())
      texts.push_back(fmt::format("{}", value));
  }
  return texts;
}

struct Printer {
  const Shape& shape;
  const std::vector<std::string>& texts;
  bool abbreviate;
  size_t width = 0;

  std::string print(int dim, int64_t first) const {
    if (dim == shape.rank()) return fmt::format("{:>{}}", texts[size_t(first)], width);
    int64_t stride = 1;
    for (int i = dim + 1; i < shape.rank(); ++i) stride *= shape[i];
    const bool last = dim == shape.rank() - 1;
    const std::string separator = last ? ", "
                                       : "," + std::string(size_t(shape.rank() - 1 - dim), '\n') +
                                             std::string(size_t(dim) + 1, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < shape[dim]; ++i) {
      if (abbreviate && shape[dim] > 2 * edge_items && i == edge_items) {
        text += "..." + separator;
        i = shape[dim] - edge_items;
      }
      text += print(dim + 1, first + i * stride);
      if (i + 1 < shape[dim]) text += separator;
    }
    return text + "]";
  }
};

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "tensor(undefined)";
  const std::vector<std::string> texts = element_texts(tensor);
  Printer printer{tensor.shape(), texts, tensor.numel() > abbreviate_above};
  for (const std::string& text : texts) printer.width = std::max(printer.width, text.size());
  return fmt::format("{} {} {} {}", printer.print(0, 0), to_string(tensor.shape()),
                     name(tensor.dtype()), to_string(tensor.device()));
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

}  // namespace adret

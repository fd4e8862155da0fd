// Layers that pad.
#include <adret/core/error.h>
#include <adret/layers/pad.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret::detail {

void copy_paddings(std::span<const Padding> each, std::span<Padding> directions) {
  if (each.size() != directions.size()) {
    throw Error(
        fmt::format("[PadLayer] got {} paddings; there must be one for each of {} directions",
                    each.size(), directions.size()));
  }
  std::ranges::copy(each, directions.begin());
}

Tensor pad_directions(const Module& layer, const Tensor& x, std::span<const Padding> paddings,
                      const PadOptions& options) {
  constexpr const char* layouts[] = {"sequences (N, L, C)", "images (N, H, W, C)",
                                     "volumes (N, D, H, W, C)"};
  if (size_t(x.rank()) != paddings.size() + 2) {
    throw ShapeError(fmt::format("[{}] wants {}, got {}", layer.type_name(),
                                 layouts[paddings.size() - 1], to_string(x.shape())));
  }
  std::vector<Padding> of_all(size_t(x.rank()));
  std::ranges::copy(paddings, of_all.begin() + 1);
  return pad(x, of_all, options);
}

}  // namespace adret::detail

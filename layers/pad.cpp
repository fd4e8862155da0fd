// Layers that pad.
#include <adret/core/error.h>
#include <adret/layers/pad.h>
#include <fmt/core.h>

#include <algorithm>

namespace adret {

template <int Directions>
DirectionPaddings<Directions>::DirectionPaddings(std::initializer_list<Padding> each) {
  if (each.size() != size_t(Directions)) {
    throw Error(
        fmt::format("[PadLayer] got {} paddings; there must be one for each of {} directions",
                    each.size(), Directions));
  }
  std::copy(each.begin(), each.end(), this->begin());
}

template <class Self, int Directions>
Tensor PadLayer<Self, Directions>::forward(const Tensor& x) {
  constexpr const char* layouts[] = {"sequences (N, L, C)", "images (N, H, W, C)",
                                     "volumes (N, D, H, W, C)"};
  if (x.rank() != Directions + 2) {
    throw ShapeError(
        fmt::format("[{}] wants {}, got {}", type_, layouts[Directions - 1], to_string(x.shape())));
  }
  std::vector<Padding> of_all(size_t(x.rank()));
  std::copy(paddings.begin(), paddings.end(), of_all.begin() + 1);
  return pad(x, of_all, options);
}

template struct DirectionPaddings<1>;
template struct DirectionPaddings<2>;
template struct DirectionPaddings<3>;
template class PadLayer<ZeroPad1d, 1>;
template class PadLayer<ZeroPad2d, 2>;
template class PadLayer<ZeroPad3d, 3>;
template class PadLayer<ReflectionPad1d, 1>;
template class PadLayer<ReflectionPad2d, 2>;
template class PadLayer<ReflectionPad3d, 3>;
template class PadLayer<ReplicationPad1d, 1>;
template class PadLayer<ReplicationPad2d, 2>;
template class PadLayer<ReplicationPad3d, 3>;
template class PadLayer<CircularPad1d, 1>;
template class PadLayer<CircularPad2d, 2>;
template class PadLayer<CircularPad3d, 3>;
template class PadLayer<ConstantPad1d, 1>;
template class PadLayer<ConstantPad2d, 2>;
template class PadLayer<ConstantPad3d, 3>;

}  // namespace adret

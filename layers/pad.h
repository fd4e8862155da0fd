// Layers that pad sequences (N, L, C), images (N, H, W, C) and volumes (N, D, H, W, C), see pad.
#pragma once

#include <adret/autograd/ops/pad.h>
#include <adret/layers/module.h>

#include <array>
#include <initializer_list>
#include <span>

namespace adret {

namespace detail {
// Throws Error for another number than there are directions.
void copy_paddings(std::span<const Padding> each, std::span<Padding> directions);
Tensor pad_directions(const Module& layer, const Tensor& x, std::span<const Padding> paddings,
                      const PadOptions& options);
}  // namespace detail

// What each of 1, 2 or 3 directions gets at its ends, in our order (H before W): ReflectionPad2d(1)
// or ReflectionPad2d({{1, 0}, {2, 2}}); PyTorch's begins with the last direction. Negative ones are
// cut off.
template <int Directions>
struct DirectionPaddings : std::array<Padding, Directions> {
  DirectionPaddings(int64_t all) { this->fill({all, all}); }  // implicit: ReflectionPad2d(1)
  DirectionPaddings(std::initializer_list<Padding> each) {    // throws Error for another number
    detail::copy_paddings({each.begin(), each.size()}, *this);
  }
};

// The base of ZeroPad1d to ConstantPad3d.
template <class Self, int Directions>
class PadLayer : public Layer<Self> {
 public:
  using Paddings = DirectionPaddings<Directions>;
  // Throws ShapeError for an input of another rank, and as pad.
  Tensor forward(const Tensor& x) { return detail::pad_directions(*this, x, paddings, options); }

  const Paddings paddings;
  const PadOptions options;

 protected:
  PadLayer(const Paddings& paddings, const PadOptions& options)
      : paddings(paddings), options(options) {}
};

// With zeros.
class ZeroPad1d : public PadLayer<ZeroPad1d, 1> {
 public:
  explicit ZeroPad1d(const Paddings& paddings) : PadLayer(paddings, {.mode = PadMode::constant}) {}
  ZeroPad1d rebuild() const { return ZeroPad1d(paddings); }
};
class ZeroPad2d : public PadLayer<ZeroPad2d, 2> {
 public:
  explicit ZeroPad2d(const Paddings& paddings) : PadLayer(paddings, {.mode = PadMode::constant}) {}
  ZeroPad2d rebuild() const { return ZeroPad2d(paddings); }
};
class ZeroPad3d : public PadLayer<ZeroPad3d, 3> {
 public:
  explicit ZeroPad3d(const Paddings& paddings) : PadLayer(paddings, {.mode = PadMode::constant}) {}
  ZeroPad3d rebuild() const { return ZeroPad3d(paddings); }
};

// With the elements inside, in the opposite order.
class ReflectionPad1d : public PadLayer<ReflectionPad1d, 1> {
 public:
  explicit ReflectionPad1d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::reflect}) {}
  ReflectionPad1d rebuild() const { return ReflectionPad1d(paddings); }
};
class ReflectionPad2d : public PadLayer<ReflectionPad2d, 2> {
 public:
  explicit ReflectionPad2d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::reflect}) {}
  ReflectionPad2d rebuild() const { return ReflectionPad2d(paddings); }
};
class ReflectionPad3d : public PadLayer<ReflectionPad3d, 3> {
 public:
  explicit ReflectionPad3d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::reflect}) {}
  ReflectionPad3d rebuild() const { return ReflectionPad3d(paddings); }
};

// With the outermost elements.
class ReplicationPad1d : public PadLayer<ReplicationPad1d, 1> {
 public:
  explicit ReplicationPad1d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::replicate}) {}
  ReplicationPad1d rebuild() const { return ReplicationPad1d(paddings); }
};
class ReplicationPad2d : public PadLayer<ReplicationPad2d, 2> {
 public:
  explicit ReplicationPad2d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::replicate}) {}
  ReplicationPad2d rebuild() const { return ReplicationPad2d(paddings); }
};
class ReplicationPad3d : public PadLayer<ReplicationPad3d, 3> {
 public:
  explicit ReplicationPad3d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::replicate}) {}
  ReplicationPad3d rebuild() const { return ReplicationPad3d(paddings); }
};

// With the elements of the other end.
class CircularPad1d : public PadLayer<CircularPad1d, 1> {
 public:
  explicit CircularPad1d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::circular}) {}
  CircularPad1d rebuild() const { return CircularPad1d(paddings); }
};
class CircularPad2d : public PadLayer<CircularPad2d, 2> {
 public:
  explicit CircularPad2d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::circular}) {}
  CircularPad2d rebuild() const { return CircularPad2d(paddings); }
};
class CircularPad3d : public PadLayer<CircularPad3d, 3> {
 public:
  explicit CircularPad3d(const Paddings& paddings)
      : PadLayer(paddings, {.mode = PadMode::circular}) {}
  CircularPad3d rebuild() const { return CircularPad3d(paddings); }
};

// With a number.
class ConstantPad1d : public PadLayer<ConstantPad1d, 1> {
 public:
  ConstantPad1d(const Paddings& paddings, double value) : PadLayer(paddings, {.value = value}) {}
  ConstantPad1d rebuild() const { return ConstantPad1d(paddings, options.value); }
};
class ConstantPad2d : public PadLayer<ConstantPad2d, 2> {
 public:
  ConstantPad2d(const Paddings& paddings, double value) : PadLayer(paddings, {.value = value}) {}
  ConstantPad2d rebuild() const { return ConstantPad2d(paddings, options.value); }
};
class ConstantPad3d : public PadLayer<ConstantPad3d, 3> {
 public:
  ConstantPad3d(const Paddings& paddings, double value) : PadLayer(paddings, {.value = value}) {}
  ConstantPad3d rebuild() const { return ConstantPad3d(paddings, options.value); }
};

}  // namespace adret

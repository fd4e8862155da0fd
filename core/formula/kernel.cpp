// Formulas on the CPU, block by block: the compiled loops only know dense numbers.
#include <adret/core/backend.h>
#include <adret/core/cpu/grain.h>
#include <adret/core/cpu/loop_nest.h>
#include <adret/core/demangle.h>
#include <adret/core/error.h>
#include <adret/core/formula/kernel.h>
#include <adret/core/formula/vector_level.h>
#include <adret/core/thread_pool.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace adret::formula {
namespace {

// Elements of a block, so that the operands' blocks stay in the first cache.
constexpr int64_t block = 256;

template <class To, class From>
void convert(const From* from, To* to, int64_t n) {
  run_for_processor([=] {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) to[i] = To(float(from[i]));
  });
}
template <class T>
void convert(const T* from, T* to, int64_t n) {
  std::copy_n(from, n, to);
}

// f gets a value of the dtype's C++ type, of those that are computed in T.
template <class T, class F>
void dispatch(DType dtype, F f) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::bf16) return f(bfloat16{});
    if (dtype == DType::f16) return f(float16{});
  }
  f(T{});
}

// An input as dense blocks of T.
template <class T>
class Source {
 public:
  Source() = default;
  Source(const TensorView& view, const Shape& shape)
      : view_(view),
        is_full_(view.numel() == shape.numel()),
        nest_(cpu::broadcast_nest<1>(shape, {view.shape})) {}
  bool is_direct() const { return is_full_ && view_.dtype == dtype_of<T>; }
  const T* direct(int64_t begin) const { return view_.as<T>() + begin; }

  void read(int64_t begin, int64_t count, T* buffer) const {
    dispatch<T>(view_.dtype, [&](auto zero) {
      using From = decltype(zero);
      const From* const from = view_.as<From>();
      if (is_full_) return convert(from + begin, buffer, count);
      nest_.for_runs(begin, begin + count, [&](int64_t at, const auto& places, int64_t length) {
        T* const to = buffer + (at - begin);
        if (nest_.inner_strides()[0] == 0) {
          std::fill_n(to, length, T(from[places[0]]));
        } else if (length < step) {
          for (int64_t i = 0; i < length; ++i) to[i] = T(from[places[0] + i]);
        } else {
          convert(from + places[0], to, length);
        }
      });
    });
  }

 private:
  TensorView view_;
  bool is_full_ = false;
  cpu::LoopNest<1> nest_;
};

template <class T>
using Loop = void (*)(const void*, const T* const*, T* const*, int64_t);

// One of the code's outputs; not wanted: undefined.
using Outputs = std::vector<TensorView>;
using Views = std::span<const TensorView>;

template <class T>
void run_blocks(Loop<T> loop, const void* formula, Views in, const Outputs& out,
                const Shape& shape) {
  std::array<Source<T>, max_operands> sources;
  bool all_direct = true;
  for (size_t i = 0; i < in.size(); ++i) {
    sources[i] = Source<T>(in[i], shape);
    all_direct &= sources[i].is_direct();
  }
  const auto is_direct = [](const TensorView& y) { return y.defined() && y.dtype == dtype_of<T>; };
  for (const TensorView& y : out) all_direct &= is_direct(y);

  parallel_for(shape.numel(), cpu::math_grain, [&](int64_t begin, int64_t end) {
    alignas(64) T buffers[2 * max_operands][block];
    const T* x[max_operands];
    T* y[max_operands];
    int64_t count = 0;
    for (int64_t at = begin; at < end; at += count) {
      count = std::min(end - at, all_direct ? end - at : block);
      // What is not a whole step goes by itself, through buffers.
      const bool is_whole = count >= step;
      if (is_whole) count -= count % step;
      const int64_t steps = (count + step - 1) / step;
      for (size_t i = 0; i < in.size(); ++i) {
        if (is_whole && sources[i].is_direct()) {
          x[i] = sources[i].direct(at);
          continue;
        }
        sources[i].read(at, count, buffers[i]);
        std::fill(buffers[i] + count, buffers[i] + steps * step, T(0));
        x[i] = buffers[i];
      }
      for (size_t k = 0; k < out.size(); ++k) {
        y[k] = is_whole && is_direct(out[k]) ? out[k].as<T>() + at : buffers[max_operands + k];
      }
      loop(formula, x, y, steps);
      for (size_t k = 0; k < out.size(); ++k) {
        if (!out[k].defined() || y[k] != buffers[max_operands + k]) continue;
        dispatch<T>(out[k].dtype,
                    [&](auto zero) { convert(y[k], out[k].as<decltype(zero)>() + at, count); });
      }
    }
  });
}

// The code's outputs, from those that a call has.
Outputs spread(Views given, uint32_t wanted, int count) {
  Outputs outputs(size_t(count), TensorView{});
  size_t next = 0;
  for (int k = 0; k < count; ++k) {
    if (wanted >> k & 1) outputs[size_t(k)] = given[next++];
  }
  return outputs;
}

}  // namespace

std::unique_ptr<const AnyCustomKernel> FormulaKernel::clone() const {
  return std::make_unique<const FormulaKernel>(*this);
}

bool FormulaKernel::equals(const AnyCustomKernel& other) const {
  if (other.type() != type()) return false;
  const auto& that = static_cast<const FormulaKernel&>(other);
  return code_ == that.code_ && wanted_ == that.wanted_ &&
         std::memcmp(formula_.get(), that.formula_.get(), code_->bytes) == 0;
}

void FormulaKernel::run_cpu(const CustomCall& work) const {
  const auto& [in, out, workspace] = work;
  const Outputs outputs = spread(out, wanted_, code_->outputs);
  const Shape& shape = out[0].shape;
  if (out[0].dtype == DType::f64) {
    run_blocks<double>(code_->f64, formula_.get(), in, outputs, shape);
  } else {
    run_blocks<float>(code_->f32, formula_.get(), in, outputs, shape);
  }
}

void FormulaKernel::run_cuda(const CustomCall& work, void* stream) const {
  const auto& [in, out, workspace] = work;
  if (!code_->cuda) {
    throw DeviceError(fmt::format(
        "[{}] this formula was compiled for the CPU alone: let nvcc compile the file that calls "
        "pointwise (as a .cu file) and mark the formula's call ADRET_FN, or move the operands with "
        "to(Device::cpu())",
        name_));
  }
  const Shape& shape = out[0].shape;
  if (shape.numel() == 0) return;
  DeviceCall call{.name = name_,
                  .dtype = out[0].dtype,
                  .count = shape.numel(),
                  .inputs = code_->inputs,
                  .outputs = code_->outputs};
  std::array<Shape, max_operands> shapes{};
  for (size_t i = 0; i < in.size(); ++i) {
    shapes[i] = in[i].shape;
    call.in[i] = in[i].data;
  }
  const auto nest = cpu::broadcast_nest<max_operands>(shape, shapes);
  call.rank = nest.rank();
  for (int d = 0; d < call.rank; ++d) {
    call.sizes[d] = nest.size(d);
    std::ranges::copy(nest.strides(d), call.strides[d]);
  }
  const Outputs outputs = spread(out, wanted_, code_->outputs);
  for (size_t k = 0; k < outputs.size(); ++k) call.out[k] = outputs[k].data;
  code_->cuda(formula_.get(), call, stream);
}

DeviceCall take_vectors(DeviceCall& rest, int n) {
  const int rank = rest.rank;
  const auto repeats = [&](int i) { return rank == 0 || rest.strides[rank - 1][i] == 0; };
  const auto is_aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  bool all = rank <= 1 || rest.sizes[rank - 1] % n == 0;
  for (int k = 0; k < rest.outputs; ++k) all &= is_aligned(rest.out[k]);
  for (int i = 0; i < rest.inputs; ++i) {
    if (repeats(i)) continue;
    all &= is_aligned(rest.in[i]);
    for (int d = 0; d + 1 < rank; ++d) all &= rest.strides[d][i] % n == 0;
  }
  DeviceCall taken = rest;
  taken.count = all ? rest.count / n * n : 0;
  rest.count -= taken.count;
  // What is left, if anything, is the end of the only dimension.
  const int64_t bytes = taken.count * int64_t(size_of(rest.dtype));
  for (int i = 0; i < rest.inputs; ++i) {
    if (!repeats(i)) rest.in[i] = static_cast<const char*>(rest.in[i]) + bytes;
  }
  for (void*& y : rest.out) {
    if (y) y = static_cast<char*>(y) + bytes;
  }
  return taken;
}

double FormulaKernel::flops(const CustomCall& call) const {
  double count = 0;  // as of the built-in functions: one an element
  for (const TensorView& y : call.outputs) count += double(y.numel());
  return count;
}

const char* readable_name(const std::type_info& type, const char* suffix) {
  std::string name = demangled(type);
  const std::string unnamed = "(anonymous namespace)::";
  for (size_t at; (at = name.find(unnamed)) != std::string::npos;) name.erase(at, unnamed.size());
  static std::mutex mutex;
  static std::set<std::string>* const names = new std::set<std::string>;  // outlives all statics
  const std::lock_guard lock(mutex);
  return names->insert(name + suffix).first->c_str();
}

int vector_level() {
  static const int level = [] {
#if defined(__x86_64__)
    const std::string arch = cpu_arch();
    const bool any = arch != "x86-64-v4" && arch != "x86-64-v3" && arch != "x86-64-v2";
    if (arch == "x86-64-v4" || (any && __builtin_cpu_supports("x86-64-v4"))) return 2;
    if (arch == "x86-64-v3" || (any && __builtin_cpu_supports("x86-64-v3"))) return 1;
#endif
    return 0;
  }();
  return level;
}

}  // namespace adret::formula

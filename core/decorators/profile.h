// Times kernel calls on their devices, and adds them up by kernel and operands.
#pragma once

#include <adret/core/backend.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace adret {

// What a kernel computes in: convolutions and matrix products in their operands' dtype, or TF32 if
// so asked; all others in f32, or f64 for f64.
enum class Arithmetic : uint8_t { f64, f32, tf32, bf16, f16 };
const char* to_string(Arithmetic arithmetic);
Arithmetic arithmetic_of(const Kernel& call);

// Calls of one kernel with operands of the same shapes and dtypes and the same parameters.
struct ProfileRow {
  std::string kernel;    // "linear_forward"
  std::string operands;  // "x=(64, 784) f32 weight=(256, 784) -> y=(64, 256) activation relu"
  std::string place;     // where they were run (current_place)
  Device device;
  Arithmetic arithmetic = Arithmetic::f32;
  // Of all calls together; bytes are what they must read and write at least.
  int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

// While it lives, the kernel calls of this thread are timed:
//   Profile profile;
//   loss = ...; loss.backward(); optimizer.step();
//   for (const ProfileRow& row : profile.rows()) ...
// On the CPU a time is that of the call by the host's clock. On a GPU it is the time between two
// events around the call on the device's clock: all launches of the call with the gaps between
// them, and what the events themselves take, which is the same for each call. If the device waits
// for the host, that counts too, so let the host get ahead for the true time of small kernels:
//   backend_for(device).services().hold(1e-3);  // seconds; about what launching the step takes
//   step();
// Decorators that were made before it are timed with the calls. Calls that throw do not count. A
// CUDA graph's calls cannot be timed while they are captured, and are not seen when it runs.
class Profile : public Decorator {
 public:
  void run(const Kernel& call) override;
  // In the order of their first calls. Waits for the device.
  const std::vector<ProfileRow>& rows();

 private:
  struct Timed {
    size_t row;
    Moment begin, end;
  };
  size_t row_of(const Kernel& call);
  void settle();

  std::vector<ProfileRow> rows_;
  std::map<std::string, size_t> index_;
  std::vector<Timed> running_;
};

// Rows that differ in their places alone as one, with the first place "and 3 more".
std::vector<ProfileRow> merge_places(const std::vector<ProfileRow>& rows);

}  // namespace adret

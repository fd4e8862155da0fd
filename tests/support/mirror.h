// Which device computes in a test program: Note [Test devices].
#pragma once

#include <adret/core/backend.h>
#include <adret/core/kernels/kernel.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>

namespace adret::test {

// Note [Test devices]
// ADRET_TEST_DEVICE says what runs the kernels that a test calls on operands of the CPU:
//   cpu     the CPU, as without the variable;
//   cuda    the first GPU: a decorator on the test's thread copies each call's operands there, runs
//           it, and copies the outputs back, so that the same tests judge the GPU's results;
//   shadow  the same way, to the CPU's kernels over separate memory in the place of the GPU.
// A device that is named and cannot be used fails the program. What a test does on Device::cuda()
// itself runs on the GPU under `cuda`, else on the shadow device (SecondDevice).
// A test of the CPU alone begins with ADRET_CPU_ONLY("why").
enum class TestDevice { cpu, cuda, shadow };
TestDevice test_device();
// Whether another device computes.
inline bool mirrored() { return test_device() != TestDevice::cpu; }

#define ADRET_CPU_ONLY(why) \
  if (adret::test::mirrored()) GTEST_SKIP() << "of the CPU alone: " << why

// Whether a call is of a custom kernel other than the library's own: it may be written for the CPU.
bool is_of_tests(const Kernel& call);

// Runs every call on operands of the CPU on Device::cuda(). A custom kernel goes there if it has a
// CUDA part, to the shadow device if it is of the library.
class Mirror final : public Decorator {
 public:
  void run(const Kernel& call) override;
  bool watches() const override;
};

// While it lives, calls of this thread on operands of the CPU do run on the CPU: for tests that
// compare both devices themselves.
class MirrorPause {
 public:
  MirrorPause();
  ~MirrorPause();
  MirrorPause(const MirrorPause&) = delete;
  MirrorPause& operator=(const MirrorPause&) = delete;

 private:
  bool before_;
};

// A decorator that each program's mirror has within it, to be called before main.
void add_decorator_within_mirror(std::function<std::unique_ptr<Decorator>()> make);

// Makes Device::cuda() the shadow device while this lives, unless the program has a second device
// already; its tensors must go before.
class SecondDevice {
 public:
  SecondDevice();
  ~SecondDevice();
  SecondDevice(const SecondDevice&) = delete;
  SecondDevice& operator=(const SecondDevice&) = delete;

 private:
  std::unique_ptr<Backend> before_;
};

// The repository: where it was when the tests were built, or where ADRET_SOURCE_DIR says, for
// programs that were carried to another machine.
std::filesystem::path source_dir();

}  // namespace adret::test

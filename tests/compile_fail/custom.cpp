// Wrong uses of run_custom: each CASE must be refused, by the message that CMakeLists.txt gives.
#include <adret/core/kernels/custom.h>

#include <memory>

using namespace adret;

struct Sound {
  static constexpr const char* name = "sound";
  static constexpr CustomOperand inputs[] = {{.name = "x"}};
  static constexpr bool capturable = false;
  int radius = 1;
  bool operator==(const Sound&) const = default;
  void run_cpu(const CustomCall&) const {}
  size_t workspace_bytes(const CustomCall&) const { return 1; }
};
struct NotCompared {
  static constexpr const char* name = "not_compared";
  int radius = 1;
  void run_cpu(const CustomCall&) const {}
};
struct ComparesNothing {
  static constexpr const char* name = "compares_nothing";
  Sound sound;
  NotCompared member;
  bool operator==(const ComparesNothing&) const = default;  // deleted, as that of its member is
  void run_cpu(const CustomCall&) const {}
};
struct NotCopied {
  static constexpr const char* name = "not_copied";
  std::unique_ptr<int> radius;
  bool operator==(const NotCopied&) const = default;
  void run_cpu(const CustomCall&) const {}
};
struct WithoutName {
  bool operator==(const WithoutName&) const = default;
  void run_cpu(const CustomCall&) const {}
};
struct NotConst {
  static constexpr const char* name = "not_const";
  bool operator==(const NotConst&) const = default;
  void run_cpu(const CustomCall&) {}
};
struct OtherWorkspace {
  static constexpr const char* name = "other_workspace";
  bool operator==(const OtherWorkspace&) const = default;
  void run_cpu(const CustomCall&) const {}
  size_t workspace_bytes() const { return 1; }
};

void use(const Tensor& x) {
#if CASE == 1
  run_custom(NotCompared{}, {x}, {x});
#elif CASE == 2
  run_custom(ComparesNothing{}, {x}, {x});
#elif CASE == 3
  run_custom(NotCopied{}, {x}, {x});
#elif CASE == 4
  run_custom(WithoutName{}, {x}, {x});
#elif CASE == 5
  run_custom(NotConst{}, {x}, {x});
#elif CASE == 6
  run_custom(OtherWorkspace{}, {x}, {x});
#else
  run_custom(Sound{.radius = 2}, {x}, {x});
#endif
}

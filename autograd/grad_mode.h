// Whether this thread records what it computes.
#pragma once

namespace adret {

bool grad_enabled();

// Turns recording on or off for this thread while it lives.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

// Records nothing: results need no gradient and keep nothing alive.
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace adret

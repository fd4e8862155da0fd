// The exceptions the library throws. Every message starts with "[function]" and says what was
// expected, what came, and what to change.
#pragma once

#include <stdexcept>
#include <string>

namespace adret {

// Base of all errors thrown by the library.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  // Adds the layer whose forward failed, once, so that the innermost one stays: "... (in
  // Net/conv1)".
  void set_origin(const std::string& path) {
    if (has_origin_) return;
    has_origin_ = true;
    std::runtime_error::operator=(std::runtime_error(what() + (" (in " + path + ")")));
  }

 private:
  bool has_origin_ = false;
};

// Shapes, ranks, dtypes or arguments that do not go together.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// Operands on different devices, or a device that is not there.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// An allocation that failed even after the pool's cache was freed.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

// A data file or data set that is missing, damaged or not what it claims to be.
class DataError : public Error {
 public:
  using Error::Error;
};

// A weights file that cannot be read, or does not fit the model.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

}  // namespace adret

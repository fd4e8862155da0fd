// The CPU backend: Eigen for matrix products, our own loops for the rest.
#pragma once

#include <adret/core/backend.h>

#include <memory>

namespace adret {

// Throws DeviceError when the processor lacks the instructions the kernels were built for.
std::unique_ptr<Backend> make_cpu_backend();

}  // namespace adret

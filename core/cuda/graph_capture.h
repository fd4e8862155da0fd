// Capturing of kernel calls into a CUDA graph.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>

#include <functional>
#include <memory>

namespace adret::cuda {

// DeviceServices::capture, with scratch memory from a private pool beside `pool`. The device must
// be the current one.
std::unique_ptr<DeviceGraph> capture(Context& context, const MemoryPool& pool,
                                     const std::function<void()>& work);

// To be called behind each kernel that is captured. Throws DeviceError when the kernel, or
// something since the one before, broke the capture.
void check_capture(Context& context);

}  // namespace adret::cuda

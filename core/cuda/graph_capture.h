// Capturing of kernel calls into a CUDA graph.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/cuda/context.h>

#include <functional>
#include <memory>

namespace adret::cuda {

// DeviceServices::capture, with scratch memory from private pools beside `pool`. The device must
// be the current one.
std::unique_ptr<DeviceGraph> capture(Context& context, const MemoryPool& pool,
                                     const std::function<void(GraphOrder&)>& work);

}  // namespace adret::cuda

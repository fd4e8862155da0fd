// Files of named tensors in the safetensors format (https://github.com/huggingface/safetensors):
// the length of a JSON header, the header with each tensor's dtype, shape and place, then the
// elements.
#pragma once

#include <adret/core/tensor.h>
#include <adret/layers/parameter.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace adret {

using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<NamedTensor> tensors;  // in the order of their places, on the CPU
  Metadata metadata;
};

// Reads all tensors: F32, F64, F16, BF16, I32, I64, U8, BOOL. Throws CheckpointError with the path:
// for a file of another kind, saying which and what to do; and, naming the tensor and before memory
// is taken for it, for places that disagree with the shape, overlap, run backward, leave holes or
// pass the end, for names that come twice, and for other dtypes.
TensorFile read_tensors(const std::filesystem::path& path);

// Writes tensors on the CPU, replacing the file only when the new one is complete: a full disk or a
// killed process leaves the old one. Throws CheckpointError with the system's reason, and for a
// name that comes twice.
void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata = {});

}  // namespace adret

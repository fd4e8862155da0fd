// A model's weights in files: PyTorch's names and layouts, as safetensors.
#pragma once

#include <adret/layers/module.h>
#include <adret/train/safetensors.h>

#include <filesystem>
#include <string>
#include <vector>

namespace adret {

// Writes parameters and buffers under PyTorch's names, convolution weights as (O, I/groups, KH,
// KW); floats of 16 bits become f32, a parameter's being its master where it has one. A parameter
// with several names is written once, under its first. The file is replaced only when the new one
// is complete (see write_tensors).
void save_weights(const Module& model, const std::filesystem::path& path,
                  const Metadata& metadata = {});

// How a file and a model differ; each entry names the tensor.
struct WeightsMismatch {
  std::vector<std::string> missing;     // in the model only
  std::vector<std::string> unexpected;  // in the file only
  std::vector<std::string> different;   // with both shapes or dtypes, as in the file's layout

  bool empty() const { return missing.empty() && unexpected.empty() && different.empty(); }
};
std::string to_string(const WeightsMismatch& mismatch);

struct LoadOptions {
  bool strict = true;  // everything must fit; else what fits is loaded and the rest reported
};

// Copies the file's tensors into the model's, converting floats to the model's dtypes, and into the
// masters of 16-bit parameters; handles on parameters, ties and an optimizer's arena stay. One of
// several names of a parameter is enough. Throws CheckpointError listing all differences (strict),
// or as read_tensors; the model is then unchanged.
WeightsMismatch load_weights(Module& model, const std::filesystem::path& path,
                             const LoadOptions& options = {});

}  // namespace adret

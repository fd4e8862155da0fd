// The model, what it says, and its file.
#pragma once

#include <adret/adret.h>

#include <filesystem>
#include <string>

#include "text.h"

namespace char_gpt {

struct SampleOptions {
  int64_t length = 300;      // bytes
  double temperature = 0.8;  // what logits are divided by: lower is more of the same
};

// `prompt` and what the model says behind it, each byte drawn from the user stream.
std::string sample(Gpt2& model, const Alphabet& alphabet, const std::string& prompt,
                   const SampleOptions& options);

struct Speaker {
  Gpt2 model;
  Alphabet alphabet;
};

void save(const Speaker& speaker, const std::filesystem::path& path);
// Throws CheckpointError for a file that `save` did not write.
Speaker load(const std::filesystem::path& path);

}  // namespace char_gpt

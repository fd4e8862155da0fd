// What the model says, and its file.
#include "model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../command_line.h"

namespace char_gpt {
namespace {

// The token behind the last of `tokens`.
int64_t draw_next(Gpt2& model, const std::vector<int32_t>& tokens, double temperature) {
  const int64_t length = std::min(int64_t(tokens.size()), model.options.context);
  const std::vector<int32_t> seen(tokens.end() - length, tokens.end());
  const Tensor logits = model(Tensor::from(seen, {1, length}).to(model.device()));
  const Tensor last = slice(logits.reshape({length, -1}), 0, length - 1, length);
  // Below the largest, so that a low temperature cannot overflow.
  const Tensor wide = last.to(DType::f64), below = wide - max(wide);
  const std::vector<double> shares = softmax(below / temperature).to_vector<double>();
  double left = rand({1}, {.dtype = DType::f64}).item<double>();
  for (size_t token = 0; token < shares.size(); ++token) {
    left -= shares[token];
    if (left < 0) return int64_t(token);
  }
  return int64_t(std::ranges::max_element(shares) - shares.begin());  // of rounding
}

}  // namespace

std::string sample(Gpt2& model, const Alphabet& alphabet, const std::string& prompt,
                   const SampleOptions& options) {
  const bool training = model.training();
  model.eval();
  const NoGrad no_grad;
  std::vector<int32_t> tokens = alphabet.encode(prompt, "the prompt");
  std::string text = prompt;
  for (int64_t i = 0; i < options.length; ++i) {
    const int64_t token = draw_next(model, tokens, options.temperature);
    tokens.push_back(int32_t(token));
    text += alphabet.decode(token);
  }
  model.train(training);
  return text;
}

void save(const Speaker& speaker, const std::filesystem::path& path) {
  const Gpt2Options& options = speaker.model.options;
  save_weights(speaker.model, path,
               {{"alphabet", to_hex(speaker.alphabet.bytes())},
                {"context", std::to_string(options.context)},
                {"features", std::to_string(options.features)},
                {"heads", std::to_string(options.heads)},
                {"depth", std::to_string(options.depth)}});
}

namespace {

// What the metadata asks for must be there, before it is built: weights of the blocks' linear
// layers and embeddings.
void check_size(const Gpt2Options& options, const TensorFile& file) {
  double stored = 0;
  for (const NamedTensor& tensor : file.tensors) stored += double(tensor.tensor.numel());
  const auto features = double(options.features);
  const double asked =
      (12 * double(options.depth) * features + double(options.vocabulary + options.context)) *
      features;
  if (asked <= stored) return;
  throw CheckpointError(fmt::format(
      "[char_gpt] the weights' metadata asks for {:.0f} weights or more, but the file has {:.0f}; "
      "use weights that this example saved",
      asked, stored));
}

}  // namespace

Speaker load(const std::filesystem::path& path) {
  const TensorFile file = read_tensors(path);
  const Metadata& metadata = file.metadata;
  const auto alphabet = metadata.find("alphabet");
  const auto size = [&](const char* key) {
    const double number = examples::number_of("char_gpt", metadata, key).value_or(0);
    if (number >= 1 && number <= std::numeric_limits<int32_t>::max() &&
        number == std::floor(number)) {
      return int64_t(number);
    }
    throw CheckpointError(fmt::format(
        "[char_gpt] the weights' metadata says that \"{}\" is {}, wanted a whole number "
        "from 1; use weights that this example saved",
        key, number));
  };
  const Alphabet bytes(from_hex(alphabet == metadata.end() ? "" : alphabet->second));
  const Gpt2Options options{.vocabulary = bytes.size(),
                            .context = size("context"),
                            .features = size("features"),
                            .heads = size("heads"),
                            .depth = size("depth"),
                            .dropout = 0};
  check_size(options, file);
  Speaker speaker{Gpt2(options), bytes};
  load_weights(speaker.model, path);
  return speaker;
}

}  // namespace char_gpt

// Texts as numbers: an alphabet of the bytes that occur, and windows for training.
#pragma once

#include <adret/adret.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace char_gpt {

using namespace adret;

// The bytes that a model knows, in order; a byte's place is its token.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text);

  int64_t size() const { return int64_t(bytes_.size()); }
  const std::string& bytes() const { return bytes_; }
  // Throws DataError for a byte that the alphabet lacks, saying where; `what` names the text.
  std::vector<int32_t> encode(const std::string& text, const char* what = "the text") const;
  char decode(int64_t token) const { return bytes_.at(size_t(token)); }

 private:
  std::string bytes_;
};

// For metadata, which holds text: two hexadecimal digits a byte. Throws CheckpointError for others.
std::string to_hex(const std::string& bytes);
std::string from_hex(const std::string& digits);

// Throws DataError when it cannot be read or is empty.
std::string read_text(const std::filesystem::path& path);

// A text's windows of `context` tokens, each with the tokens that come next: two tensors (N,
// context).
class Windows {
 public:
  // Throws DataError for a text that is shorter than one window and a byte.
  Windows(std::vector<int32_t> tokens, int64_t context);

  std::pair<Tensor, Tensor> random(int64_t count) const;  // drawn from the user stream
  // One behind the other, `most` at most; (n, context) twice.
  std::pair<Tensor, Tensor> in_order(int64_t most) const;

 private:
  std::pair<Tensor, Tensor> at(const std::vector<int64_t>& starts) const;
  int64_t starts() const { return int64_t(tokens_.size()) - context_; }

  std::vector<int32_t> tokens_;
  int64_t context_;
};

}  // namespace char_gpt

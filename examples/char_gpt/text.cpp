// Texts as numbers.
#include "text.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

namespace char_gpt {

Alphabet::Alphabet(const std::string& text) {
  const std::set<char> found(text.begin(), text.end());
  bytes_.assign(found.begin(), found.end());
}

std::vector<int32_t> Alphabet::encode(const std::string& text, const char* what) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) {
    const auto place = std::ranges::lower_bound(bytes_, byte);
    if (place == bytes_.end() || *place != byte) {
      throw DataError(
          fmt::format("[char_gpt] byte {} of {} is 0x{:02x}, which the text that the model "
                      "learns from does not have",
                      tokens.size(), what, uint8_t(byte)));
    }
    tokens.push_back(int32_t(place - bytes_.begin()));
  }
  return tokens;
}

std::string to_hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", uint8_t(byte));
  return digits;
}

std::string from_hex(const std::string& digits) {
  constexpr std::string_view values = "0123456789abcdef";
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    const size_t high = values.find(digits[i]), low = values.find(digits[i + 1]);
    if (high == values.npos || low == values.npos) break;
    bytes += char(high * 16 + low);
  }
  if (bytes.empty() || bytes.size() * 2 != digits.size()) {
    throw CheckpointError(
        "[char_gpt] the weights' metadata has no alphabet in hexadecimal digits; "
        "use weights that this example saved");
  }
  return bytes;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file;
  if (!std::filesystem::is_directory(path)) file.open(path, std::ios::binary);
  std::string text;
  if (file.is_open()) text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
    throw DataError(fmt::format("[char_gpt] {} cannot be read", path.string()));
  }
  if (text.empty()) throw DataError(fmt::format("[char_gpt] {} is empty", path.string()));
  return text;
}

Windows::Windows(std::vector<int32_t> tokens, int64_t context)
    : tokens_(std::move(tokens)), context_(context) {
  if (starts() < 1) {
    throw DataError(
        fmt::format("[char_gpt] a part of the text has {} bytes, wanted more than the "
                    "{} of --context; take a longer text or a shorter context",
                    tokens_.size(), context));
  }
}

std::pair<Tensor, Tensor> Windows::at(const std::vector<int64_t>& starts) const {
  std::vector<int32_t> inputs, next;
  for (const int64_t start : starts) {
    const auto from = tokens_.begin() + start;
    inputs.insert(inputs.end(), from, from + context_);
    next.insert(next.end(), from + 1, from + 1 + context_);
  }
  const Shape shape{int64_t(starts.size()), context_};
  return {Tensor::from(inputs, shape), Tensor::from(next, shape)};
}

std::pair<Tensor, Tensor> Windows::random(int64_t count) const {
  return at(randint(0, starts(), {count}, {.dtype = DType::i64}).to_vector<int64_t>());
}

std::pair<Tensor, Tensor> Windows::in_order(int64_t most) const {
  std::vector<int64_t> places;
  for (int64_t start = 0; start < starts() && int64_t(places.size()) < most; start += context_) {
    places.push_back(start);
  }
  return at(places);
}

}  // namespace char_gpt

// Reading and writing safetensors; everything a header says is checked before it is believed.
#include <adret/core/error.h>
#include <adret/data/file_kind.h>
#include <adret/train/atomic_file.h>
#include <adret/train/safetensors.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace adret {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

// As the reference reader: a longer header is taken for damage.
constexpr uint64_t max_header_bytes = 100'000'000;
constexpr const char* metadata_key = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr std::array<DTypeName, 8> dtype_names = {{{DType::f32, "F32"},
                                                   {DType::f64, "F64"},
                                                   {DType::f16, "F16"},
                                                   {DType::bf16, "BF16"},
                                                   {DType::i32, "I32"},
                                                   {DType::i64, "I64"},
                                                   {DType::u8, "U8"},
                                                   {DType::boolean, "BOOL"}}};

const char* file_name(DType dtype) {
  return std::ranges::find(dtype_names, dtype, &DTypeName::dtype)->name;
}

// A tensor as the header describes it; begin and end are bytes behind the header.
struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path) {
    if (const char* reason = why_no_file(path)) fail(reason);
    file_bytes_ = fs::file_size(path);
    file_.open(path, std::ios::binary);
    if (!file_) fail("it cannot be opened");
  }

  TensorFile read() {
    const Json header = parse(read_header());
    TensorFile result;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == metadata_key)
        result.metadata = read_metadata(value);
      else
        entries.push_back(read_entry(name, value));
    }
    check_places(entries);
    for (const Entry& entry : entries) result.tensors.push_back({entry.name, read_elements(entry)});
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw CheckpointError(fmt::format("[read_tensors] {}: {}", path_.string(), problem));
  }
  [[noreturn]] void fail_tensor(const std::string& name, const std::string& problem) const {
    fail(fmt::format("tensor \"{}\": {}", name, problem));
  }

  // For a file that is no safetensors file at all: what it is, and what to do.
  [[noreturn]] void fail_kind(const std::string& found) {
    std::array<char, 32> first{};
    file_.clear();
    file_.seekg(0);
    file_.read(first.data(), first.size());
    const std::string kind =
        describe_content(std::as_bytes(std::span(first.data(), size_t(file_.gcount()))));
    const bool is_pytorch = kind == "a zip archive" || kind == "a Python pickle";
    fail(fmt::format("expected a safetensors file, found {} ({}){}", kind, found,
                     is_pytorch
                         ? "; if it is a PyTorch checkpoint, convert it in Python: "
                           "safetensors.torch.save_file(torch.load(file), new_file), given the "
                           "state_dict alone"
                         : ""));
  }

  std::string read_header() {
    uint64_t length = 0;
    if (!file_.read(reinterpret_cast<char*>(&length), sizeof length)) {
      fail_kind(fmt::format("{} bytes; a header alone takes 10", file_bytes_));
    }
    if (length > file_bytes_ - sizeof length || length > max_header_bytes) {
      fail_kind(fmt::format("its first 8 bytes promise a header of {} bytes, the file has {}",
                            length, file_bytes_));
    }
    std::string header(length, '\0');
    if (!file_.read(header.data(), std::streamsize(length))) fail("the header cannot be read");
    if (!header.starts_with('{')) fail_kind("its header does not begin with '{'");
    data_begin_ = sizeof length + length;
    data_bytes_ = file_bytes_ - data_begin_;
    return header;
  }

  // A JSON object whose keys differ, at every level.
  Json parse(const std::string& text) const {
    std::vector<std::set<std::string>> keys;
    const auto check_keys = [&](int, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key &&
          !keys.back().insert(parsed.get<std::string>()).second) {
        fail(fmt::format("the name \"{}\" comes twice in the header", parsed.get<std::string>()));
      }
      return true;
    };
    try {
      return Json::parse(text, check_keys);
    } catch (const Json::exception& error) {
      fail(fmt::format("the header is not valid JSON: {}", error.what()));
    }
  }

  Metadata read_metadata(const Json& value) const {
    Metadata metadata;
    if (!value.is_object()) fail("__metadata__ is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) fail(fmt::format("the metadata \"{}\" is not a string", key));
      metadata[key] = text.get<std::string>();
    }
    return metadata;
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    Entry entry{.name = name};
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string()) {
      fail_tensor(name, "the header gives no dtype");
    }
    const std::string dtype = value["dtype"].get<std::string>();
    const auto known = std::ranges::find_if(
        dtype_names, [&](const DTypeName& pair) { return dtype == pair.name; });
    if (known == dtype_names.end()) {
      fail_tensor(name, fmt::format("dtype {} has no counterpart here; convert it to F32", dtype));
    }
    entry.dtype = known->dtype;
    const std::vector<uint64_t> sizes = read_numbers(name, value, "shape");
    const std::vector<uint64_t> offsets = read_numbers(name, value, "data_offsets");
    if (sizes.size() > Shape::max_rank) {
      fail_tensor(name, fmt::format("{} dimensions, at most {} are possible", sizes.size(),
                                    Shape::max_rank));
    }
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fail_tensor(name, fmt::format("data_offsets {} run backward or are not two",
                                    value["data_offsets"].dump()));
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (entry.end > data_bytes_) {
      fail_tensor(name, fmt::format("its bytes {}..{} pass the end of the {} bytes of data",
                                    entry.begin, entry.end, data_bytes_));
    }
    uint64_t bytes = size_of(entry.dtype);
    bool overflow = false;
    for (const uint64_t size : sizes) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
    if (overflow || bytes != entry.end - entry.begin) {
      fail_tensor(name, fmt::format("shape {} {} does not take the {} bytes of data_offsets {}..{}",
                                    value["shape"].dump(), dtype, entry.end - entry.begin,
                                    entry.begin, entry.end));
    }
    entry.shape = Shape(std::vector<int64_t>(sizes.begin(), sizes.end()));
    return entry;
  }

  std::vector<uint64_t> read_numbers(const std::string& name, const Json& value,
                                     const char* key) const {
    if (!value.contains(key) || !value[key].is_array()) {
      fail_tensor(name, fmt::format("the header gives no {}", key));
    }
    std::vector<uint64_t> numbers;
    for (const Json& number : value[key]) {
      if (!number.is_number_unsigned()) {
        fail_tensor(name,
                    fmt::format("{} {} holds something else than sizes", key, value[key].dump()));
      }
      numbers.push_back(number.get<uint64_t>());
    }
    return numbers;
  }

  // The tensors must lie side by side and fill the file; sorts them by place.
  void check_places(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {},
                      [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
    uint64_t end = 0;
    const Entry* before = nullptr;
    for (const Entry& entry : entries) {
      if (entry.begin < end) {
        fail_tensor(entry.name,
                    fmt::format("its bytes {}..{} overlap those of \"{}\" ({}..{})", entry.begin,
                                entry.end, before->name, before->begin, end));
      }
      if (entry.begin > end) {
        fail_tensor(entry.name,
                    fmt::format("there is a hole before its bytes {}..{}: the tensor before "
                                "ends at {}",
                                entry.begin, entry.end, end));
      }
      end = entry.end;
      before = &entry;
    }
    if (end != data_bytes_) {
      fail(fmt::format("{} bytes follow the last tensor{}", data_bytes_ - end,
                       before ? " \"" + before->name + "\"" : ""));
    }
  }

  Tensor read_elements(const Entry& entry) {
    Tensor tensor = Tensor::empty(entry.shape, {.dtype = entry.dtype});
    auto* const bytes = static_cast<char*>(tensor.data());
    file_.seekg(std::streamoff(data_begin_ + entry.begin));
    if (tensor.bytes() && !file_.read(bytes, std::streamsize(tensor.bytes()))) {
      fail_tensor(entry.name, "its elements cannot be read");
    }
    if (entry.dtype == DType::boolean && std::any_of(bytes, bytes + tensor.bytes(), [](char byte) {
          return byte != 0 && byte != 1;
        })) {
      fail_tensor(entry.name, "a BOOL is neither 0 nor 1");
    }
    return tensor;
  }

  fs::path path_;
  std::ifstream file_;
  uint64_t file_bytes_ = 0;
  uint64_t data_begin_ = 0, data_bytes_ = 0;
};

std::string make_header(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (header.contains(name) || name == metadata_key) {
      throw CheckpointError(
          fmt::format("[write_tensors] the name \"{}\" comes twice or is reserved", name));
    }
    header[name] = {{"dtype", file_name(tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {offset, offset + tensor.bytes()}}};
    offset += tensor.bytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    throw CheckpointError(
        fmt::format("[write_tensors] names and metadata must be UTF-8: {}", error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the elements behind it are aligned
  return text;
}

}  // namespace

TensorFile read_tensors(const fs::path& path) { return Reader(path).read(); }

void write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                   const Metadata& metadata) {
  // Wide elements first, so that all are aligned.
  std::vector<NamedTensor> sorted = tensors;
  std::ranges::stable_sort(sorted, std::ranges::greater(),
                           [](const NamedTensor& entry) { return size_of(entry.tensor.dtype()); });
  const std::string header = make_header(sorted, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : sorted) {
    if (!tensor.device().is_cpu()) {
      throw DeviceError(
          fmt::format("[write_tensors] \"{}\" is on {}; copy it with to(Device::cpu())", name,
                      to_string(tensor.device())));
    }
    file.write({static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  }
  file.commit();
}

}  // namespace adret

// What the examples' command lines share: checks of numbers, the choice of a device, of a place for
// the weights.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/device.h>
#include <adret/core/error.h>
#include <adret/train/safetensors.h>
#include <adret/train/step.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace adret::examples {

// The finite number that the whole text is, if it is one.
template <class Number>
std::optional<Number> read_number(const std::string& text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, number);
  if (status != std::errc() || stop != end || !std::isfinite(double(number))) return std::nullopt;
  return number;
}

// CLI11's own checks of ranges print limits of 300 digits.
inline CLI::Validator between(int64_t low, int64_t high) {
  return {[low, high](const std::string& text) {
            const auto number = read_number<int64_t>(text);
            if (number && *number >= low && *number <= high) return std::string();
            return fmt::format("{} is no whole number in {}..{}", text, low, high);
          },
          fmt::format("in {}..{}", low, high)};
}

inline CLI::Validator above_zero() {
  return {[](const std::string& text) {
            const auto number = read_number<double>(text);
            return number && *number > 0 ? std::string() : text + " is no number above 0";
          },
          "above 0"};
}

inline CLI::Validator not_negative() {
  return {[](const std::string& text) {
            const auto number = read_number<double>(text);
            return number && *number >= 0 ? std::string() : text + " is no number from 0";
          },
          "from 0"};
}

// 0 included, 1 not.
inline CLI::Validator below_one() {
  return {[](const std::string& text) {
            const auto number = read_number<double>(text);
            return number && *number >= 0 && *number < 1 ? std::string()
                                                         : text + " is no number from 0 to below 1";
          },
          "from 0 to below 1"};
}

// --mode of how steps are made.
inline void add_mode(CLI::App& app, StepMode& mode) {
  const std::map<std::string, StepMode> names = {
      {"auto", StepMode::automatic}, {"eager", StepMode::eager}, {"graph", StepMode::graph}};
  app.add_option("--mode", mode,
                 "of the steps: eager; graph: replayed; auto: replayed on a GPU where they can be")
      ->transform(CLI::CheckedTransformer(names))
      ->default_str("auto");
}

struct DeviceChoice {
  Device device;
  std::string why_not_cuda;  // of auto, when it is the CPU
};

// Throws DeviceError when a device that was named cannot be used.
inline DeviceChoice choose_device(const std::string& text) {
  DeviceChoice choice;
  choice.device = text == "auto" ? Device::best(&choice.why_not_cuda) : Device::parse(text);
  backend_for(choice.device);  // throws now when it cannot be used
  return choice;
}

// A long training must not end at a folder that is not there, or at a path that is no file.
inline void check_can_save(const std::string& program, const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK) != 0) {
    throw CheckpointError(
        fmt::format("[{}] cannot write into {}; choose another place with --save FILE", program,
                    folder.string()));
  }
  if (!path.has_filename() ||
      (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))) {
    throw CheckpointError(
        fmt::format("[{}] {} is not a file; name one with --save FILE", program, path.string()));
  }
}

// A number in the metadata of saved weights, if it is there.
inline std::optional<double> number_of(const std::string& program, const Metadata& metadata,
                                       const std::string& key) {
  const auto entry = metadata.find(key);
  if (entry == metadata.end()) return std::nullopt;
  if (const auto number = read_number<double>(entry->second)) return number;
  throw CheckpointError(fmt::format(
      "[{}] the weights' metadata says that \"{}\" is \"{}\", wanted a number; save them again",
      program, key, entry->second));
}

}  // namespace adret::examples

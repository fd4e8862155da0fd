// What the examples' mains share: options and checks of numbers, the choice of a device and of a
// place for the weights, the progress of a training.
#pragma once

#include <adret/core/backend.h>
#include <adret/core/device.h>
#include <adret/core/error.h>
#include <adret/train/logger.h>
#include <adret/train/progress.h>
#include <adret/train/safetensors.h>
#include <adret/train/step.h>
#include <adret/train/trainer.h>
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
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

// --mode of how steps are made; automatic or graph by default.
inline void add_mode(CLI::App& app, StepMode& mode) {
  const std::map<std::string, StepMode> names = {
      {"auto", StepMode::automatic}, {"eager", StepMode::eager}, {"graph", StepMode::graph}};
  app.add_option("--mode", mode,
                 "of the steps: eager; graph: replayed; auto: replayed on a GPU where they can be")
      ->transform(CLI::CheckedTransformer(names))
      ->default_str(mode == StepMode::graph ? "graph" : "auto");
}

inline void add_device(CLI::App& app, std::string& device) {
  app.add_option("--device", device,
                 "cpu, cuda, cuda:N, or auto: the first GPU that can be used, else the CPU")
      ->capture_default_str();
}

inline void add_data(CLI::App& app, std::string& folder, const std::string& files) {
  app.add_option("--data", folder,
                 "folder of " + files + "; default: $ADRET_DATA, then ./datasets");
}

inline void add_seed(CLI::App& app, uint64_t& seed, const std::string& meaning) {
  app.add_option("--seed", seed, meaning)
      ->check(between(0, std::numeric_limits<int64_t>::max()))
      ->capture_default_str();
}

inline void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "CPU threads")
      ->check(between(1, 1024))
      ->capture_default_str();
}

// Reads the flags and runs the body. Returns the program's exit status.
inline int run_program(const std::string& program, CLI::App& app, int argc, char** argv,
                       const std::function<void()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    std::cerr << program << ": " << error.what() << "\n";
    return 1;
  }
}

// Throws DeviceError when a device that was named cannot be used.
inline Device choose_device(const std::string& text, std::string* why_not_cuda = nullptr) {
  const Device device = text == "auto" ? Device::best(why_not_cuda) : Device::parse(text);
  backend_for(device);  // throws now when it cannot be used
  return device;
}

// Says which one it is: the GPU, or why auto took none.
inline Device choose_training_device(const std::string& program, const std::string& text) {
  std::string why_not_cuda;
  const Device device = choose_device(text, &why_not_cuda);
  if (!device.is_cpu()) std::cerr << program << ": trains on " << device_report(device) << "\n";
  if (!why_not_cuda.empty()) {
    std::cerr << program << ": trains on the CPU: " << why_not_cuda << "\n";
  }
  return device;
}

// A bar on standard error with `result` behind each epoch; with `json`, lines on standard output.
inline TrainerCallbacks show_progress(int64_t epochs, int64_t samples, bool json,
                                      std::function<std::string(const EpochReport&)> result) {
  const auto bar = std::make_shared<ProgressBar>(
      std::cerr, ProgressOptions{.width = [] { return terminal_width(STDERR_FILENO); }});
  return {
      .on_epoch_begin =
          [=](int64_t epoch) { bar->start(fmt::format("epoch {}/{}", epoch, epochs), samples); },
      .on_batch_end =
          [=](const BatchReport& report) {
            bar->update(report.samples, fmt::format("loss {:.4f}", report.loss));
          },
      .on_epoch_end =
          [=](const EpochReport& report) {
            bar->finish(result(report));
            if (json) JsonLogger(std::cout).log(report);
          }};
}

// A long training must not end at a folder that is not there, or at a path that is no file.
inline void check_can_save(const std::string& program, const std::filesystem::path& path,
                           const std::string& option = "--save") {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (!std::filesystem::is_directory(folder) || access(folder.c_str(), W_OK) != 0) {
    throw CheckpointError(
        fmt::format("[{}] cannot write into {}; choose another place with {} FILE", program,
                    folder.string(), option));
  }
  if (!path.has_filename() ||
      (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))) {
    throw CheckpointError(fmt::format("[{}] {} is not a file; name one with {} FILE", program,
                                      path.string(), option));
  }
}

// Nor may one file of a program take the place of another.
inline void check_apart(const std::string& program, const std::filesystem::path& kept,
                        const std::filesystem::path& path, const std::string& option) {
  if (std::filesystem::weakly_canonical(kept) != std::filesystem::weakly_canonical(path)) return;
  throw Error(fmt::format("[{}] {} would be written over {}; choose another place with {} FILE",
                          program, path.string(), kept.string(), option));
}

// Weights of a training that diverged must not take the place of good ones.
inline void check_finite(const std::string& program, double test_loss) {
  if (std::isfinite(test_loss)) return;
  throw Error(fmt::format("[{}] the test loss is {}, so nothing is saved; train with a lower --lr",
                          program, test_loss));
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

// Epoch reports as JSON.
#include <adret/core/error.h>
#include <adret/train/logger.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

namespace adret {
namespace {

template <class T>
nlohmann::ordered_json value_or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string to_json(const EpochReport& report) {
  return nlohmann::ordered_json{{"epoch", report.epoch},
                                {"train_loss", report.train_loss},
                                {"train_accuracy", value_or_null(report.train_accuracy)},
                                {"test_loss", value_or_null(report.test_loss)},
                                {"test_accuracy", value_or_null(report.test_accuracy)},
                                {"images_per_s", report.images_per_s},
                                {"seconds", report.seconds},
                                {"waiting", report.waiting},
                                {"skipped_steps", value_or_null(report.skipped_steps)}}
      .dump();
}

void JsonLogger::log(const EpochReport& report) {
  out_ << to_json(report) << std::endl;
  if (!out_)
    throw Error("[JsonLogger] the log cannot be written; is its disk full or its reader gone?");
}

}  // namespace adret

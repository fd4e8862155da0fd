// A log of training: one JSON object a line for each epoch.
#pragma once

#include <adret/train/report.h>

#include <iosfwd>
#include <string>

namespace adret {

// {"epoch":1,"train_loss":...,"train_accuracy":...,"test_loss":...,"test_accuracy":...,
// "images_per_s":...,"seconds":...,"waiting":...,"skipped_steps":...}; null for what there is none
// of.
std::string to_json(const EpochReport& report);

class JsonLogger {
 public:
  // The stream must outlive the logger.
  explicit JsonLogger(std::ostream& out) : out_(out) {}
  // Writes a line and flushes. Throws Error when the stream does not take it.
  void log(const EpochReport& report);

 private:
  std::ostream& out_;
};

}  // namespace adret

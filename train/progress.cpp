// Drawing of progress.
#include <adret/core/error.h>
#include <adret/train/progress.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <string_view>
#include <utility>

namespace adret {
namespace {

constexpr const char* to_line_start_and_clear = "\r\x1b[K";
constexpr int narrowest_bar = 10, widest_bar = 40;

// "0:05", "12:34", "1:02:03".
std::string clock_time(double seconds) {
  const int64_t whole = std::llround(std::clamp(seconds, 0.0, 1e9));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
               : fmt::format("{}:{:02}", minutes, whole % 60);
}

// "43210/s"; with decimals when slow.
std::string rate_text(double rate) {
  return rate >= 100 ? fmt::format("{:.0f}/s", rate) : fmt::format("{:.3g}/s", rate);
}

std::string with_gap(const std::string& note) { return note.empty() ? "" : "  " + note; }

}  // namespace

int terminal_width(int file_descriptor) {
  const char* kind = std::getenv("TERM");
  if (!isatty(file_descriptor) || !kind || std::string_view(kind) == "dumb") return 0;
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ProgressBar::ProgressBar(std::ostream& out, ProgressOptions options)
    : out_(out), options_(std::move(options)) {
  if (!options_.clock)
    throw Error("[ProgressBar] the clock is empty; leave it out for the usual one");
}

ProgressBar::~ProgressBar() {
  if (!line_begun_) return;
  try {
    out_ << '\n' << std::flush;
  } catch (...) {  // a stream may be told to throw; the line is lost
  }
}

void ProgressBar::start(const std::string& label, int64_t total) {
  label_ = label;
  total_ = total;
  done_ = 0;
  started_ = drawn_ = updated_ = options_.clock();
}

void ProgressBar::update(int64_t done, const std::string& note) {
  const double now = updated_ = options_.clock();
  done_ = done;
  if (now - drawn_ < std::min(options_.redraw_every, options_.line_every)) return;
  const int width = options_.width ? options_.width() : 0;
  if (now - drawn_ < (width ? options_.redraw_every : options_.line_every)) return;
  drawn_ = now;
  const std::string line = running_line(now - started_, note, width);
  if (width == 0) {
    put_line(line);
    return;
  }
  out_ << to_line_start_and_clear << line.substr(0, size_t(width - 1)) << std::flush;
  line_begun_ = true;
}

void ProgressBar::finish(const std::string& note) {
  const double elapsed = updated_ - started_;
  const std::string rate = elapsed > 0 ? ", " + rate_text(double(done_) / elapsed) : "";
  put_line(
      fmt::format("{}  {} in {}{}{}", label_, done_, clock_time(elapsed), rate, with_gap(note)));
}

// "epoch 1/5  [====>    ]  45%  43210/s  0:03 left  loss 0.1234"; the bar takes the space there is.
std::string ProgressBar::running_line(double elapsed, const std::string& note, int width) const {
  const double part = total_ > 0 ? std::clamp(double(done_) / double(total_), 0.0, 1.0) : 0;
  std::string figures = fmt::format("{:3.0f}%", std::floor(100 * part));
  if (elapsed > 0 && done_ > 0) {
    const double rate = double(done_) / elapsed;
    figures +=
        fmt::format("  {}  {} left", rate_text(rate), clock_time(double(total_ - done_) / rate));
  }
  const std::string end = figures + with_gap(note);
  const int space = width - 1 - int(label_.size() + end.size()) - 6;
  if (space < narrowest_bar) return label_ + "  " + end;
  const int length = std::min(space, widest_bar);
  const auto filled = int(part * length);
  std::string bar(size_t(filled), '=');
  if (filled < length) bar += '>';
  bar.resize(size_t(length), ' ');
  return label_ + "  [" + bar + "]  " + end;
}

void ProgressBar::put_line(const std::string& line) {
  if (std::exchange(line_begun_, false)) out_ << to_line_start_and_clear;
  out_ << line << '\n' << std::flush;
}

}  // namespace adret

// A progress bar with rate and time left; whole lines where there is no terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

namespace adret {

// Columns of the terminal behind a file descriptor; 0 when it is none, or one that cannot redraw
// (TERM=dumb).
int terminal_width(int file_descriptor);
// Seconds of a clock that never goes back.
double steady_seconds();

struct ProgressOptions {
  // Asked before each drawing, as windows change: 0 for no terminal, e.g.
  // [] { return terminal_width(STDERR_FILENO); }. Unset: none.
  std::function<int()> width = {};
  double redraw_every = 0.1;  // seconds, on a terminal
  double line_every = 10;     // seconds, elsewhere
  std::function<double()> clock = steady_seconds;
};

// On a terminal one line is redrawn in place; elsewhere lines are written now and then, without
// control characters. Either way finish() leaves one line, with the time of the last update:
//   epoch 1/5  60000 in 0:01, 43210/s  loss 0.1234
class ProgressBar {
 public:
  // The stream must outlive the bar. Throws Error for an empty clock.
  explicit ProgressBar(std::ostream& out, ProgressOptions options = {});
  ~ProgressBar();  // ends a line that was begun
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void start(const std::string& label, int64_t total);
  // `done` of `total` units; draws when it is time.
  void update(int64_t done, const std::string& note = {});
  void finish(const std::string& note = {});

 private:
  std::string running_line(double elapsed, const std::string& note, int width) const;
  void put_line(const std::string& line);

  std::ostream& out_;
  ProgressOptions options_;
  std::string label_;
  int64_t total_ = 0, done_ = 0;
  double started_ = 0, drawn_ = 0, updated_ = 0;
  bool line_begun_ = false;
};

}  // namespace adret

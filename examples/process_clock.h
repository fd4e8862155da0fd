// How long this process has been running.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace adret::examples {

// Since the kernel started this process, in its ticks of 10 ms (proc(5), field 22 of stat).
inline double seconds_since_start() {
  std::ifstream file("/proc/self/stat");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::istringstream fields(text.substr(text.rfind(')') + 1));  // field 3 and on
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9 -
         std::strtod(field.c_str(), nullptr) / double(sysconf(_SC_CLK_TCK));
}

}  // namespace adret::examples

// Reading and printing of device names, and the choice of the best device.
#include <adret/core/backend.h>
#include <adret/core/device.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <charconv>
#include <ostream>

namespace adret {

Device Device::best(std::string* why) {
  try {
    backend_for(cuda());
    return cuda();
  } catch (const DeviceError& error) {
    if (why) *why = error.what();
    return cpu();
  }
}

Device Device::parse(std::string_view text) {
  if (text == "auto") return best();
  if (text == "cpu") return cpu();
  if (text == "cuda") return cuda();
  if (text.starts_with("cuda:")) {
    const std::string_view digits = text.substr(5);
    uint8_t index = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (status == std::errc() && end == digits.data() + digits.size() && !digits.empty()) {
      return cuda(index);
    }
  }
  throw DeviceError(
      fmt::format("[device] unknown device \"{}\"; use auto, cpu, cuda or cuda:N", text));
}

std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : fmt::format("cuda:{}", int(device.index));
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace adret

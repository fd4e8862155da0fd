// Where a tensor lives.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace adret {

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  uint8_t index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(uint8_t index = 0) { return {DeviceType::cuda, index}; }
  // The first CUDA device if it can be used, else the CPU; `why` then gets the reason.
  static Device best(std::string* why = nullptr);
  // Reads "cpu", "cuda", "cuda:N", or "auto" for best(); throws DeviceError for anything else.
  static Device parse(std::string_view text);

  constexpr bool is_cpu() const { return type == DeviceType::cpu; }
  bool operator==(const Device&) const = default;
};

std::string to_string(Device device);  // "cpu", "cuda:0"
std::ostream& operator<<(std::ostream& out, Device device);

}  // namespace adret

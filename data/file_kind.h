// Says what a file is from its first bytes, for errors about files that are not what they should
// be.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace adret {

// "a gzip file", "a web page (HTML)", ...; else the first bytes in hex, or "empty".
std::string describe_content(std::span<const std::byte> first_bytes);

}  // namespace adret

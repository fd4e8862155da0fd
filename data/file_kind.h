// What is at a path and in a file, for errors about files that are not what they should be.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace adret {

// Why there is no file to read at a path; null if there is one.
const char* why_no_file(const std::filesystem::path& path);

// From a file's first bytes: "a gzip file", "a web page (HTML)", ...; else the first bytes in hex,
// or "empty".
std::string describe_content(std::span<const std::byte> first_bytes);

}  // namespace adret

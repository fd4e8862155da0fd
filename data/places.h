// Where data sets are looked for.
#pragma once

#include <filesystem>
#include <vector>

namespace adret {

// Where data sets are looked for: `given` alone when it is not empty, else the folder that the
// environment variable ADRET_DATA names, then ./datasets.
std::vector<std::filesystem::path> data_places(const std::filesystem::path& given = {});

}  // namespace adret

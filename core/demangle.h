// Names of types as they are written in the source.
#pragma once

#include <string>
#include <typeinfo>

namespace adret {

// With namespaces: "adret::Conv2d".
std::string demangled(const std::type_info& type);

}  // namespace adret

// Names of types as they are written in the source.
#include <adret/core/demangle.h>
#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace adret {

std::string demangled(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  return text ? text.get() : type.name();
}

}  // namespace adret

// Opening of cuDNN and cuBLASLt: their versions, and cuDNN's parts.
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <filesystem>

namespace adret::cuda {
namespace {

using std::filesystem::path;

constexpr size_t oldest_cudnn = 91400;
constexpr const char* advice =
    "install it, or name its folder in LD_LIBRARY_PATH; Device::cpu() works without";

// cuDNN before 9 counted 8.9.7 as 8907; all others count 9.19.0 as 91900.
std::string version_text(size_t version) {
  return version >= 90000
             ? fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
             : fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
}

std::string compiled_cudnn() {
  return fmt::format("{}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
}

// Null, and then dlerror() says why. Never closed: handles and plans live in it.
void* open(const std::string& name) { return dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL); }

std::string path_of(void* handle) {
  const link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : "";
}

template <class Function>
Function find(void* handle, const char* name) {
  return reinterpret_cast<Function>(dlsym(handle, name));
}

template <class Function>
void bind(void* handle, Function& function, const char* name, const char* library) {
  function = find<Function>(handle, name);
  if (!function) {
    throw DeviceError(
        fmt::format("[cuda] {} at {} has no function {}; install the version that this build was "
                    "compiled against, or build again",
                    library, path_of(handle), name));
  }
}

// "; found cuDNN 8.9.7 at ...", of the major versions that are there in place of ours, or nothing.
std::string other_majors(const std::string& name) {
  std::string text;
  const std::string stem = name.substr(0, name.rfind('.') + 1);
  for (int major = 7; major <= CUDNN_MAJOR + 3; ++major) {
    if (major == CUDNN_MAJOR) continue;
    void* const handle = dlopen((stem + std::to_string(major)).c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!handle) continue;
    const auto get_version = find<size_t (*)()>(handle, "cudnnGetVersion");
    text += fmt::format("{} cuDNN {} at {}", text.empty() ? "; found" : ",",
                        get_version ? version_text(get_version()) : std::to_string(major),
                        path_of(handle));
    dlclose(handle);
  }
  return text;
}

[[noreturn]] void refuse_part(const Cudnn& cudnn, const path& file, const std::string& problem) {
  throw DeviceError(
      fmt::format("[cuda] cuDNN {} at {} is not installed as a whole: its part {} {}; install "
                  "cuDNN again, all of one version",
                  version_text(cudnn.version), cudnn.path, file.string(), problem));
}

// "9.19.0" of libcudnn_ops.so.9.19.0 behind the link; empty for a file without.
std::string version_in_name(const path& file) {
  std::error_code ignored;
  const std::string name = std::filesystem::canonical(file, ignored).filename().string();
  const size_t at = name.rfind(".so.");
  const std::string version = at == std::string::npos ? "" : name.substr(at + 4);
  return std::ranges::count(version, '.') == 2 ? version : "";
}

// cuDNN looks for the rest of itself by name, and does without what it does not find: a foreign or
// empty file earlier in the search path would silently cost the fast engines. What is already
// loaded under that name is what it finds.
void open_part(const Cudnn& cudnn, const path& file, const char* check_name) {
  void* const part = open(file.string());
  if (!part) refuse_part(cudnn, file, fmt::format("cannot be opened: {}", dlerror()));
  // Its own, or that of the part that all others build on.
  const auto get_version = find<size_t (*)()>(part, "cudnnGetVersion");
  const auto check = check_name ? find<cudnnStatus_t (*)()>(part, check_name) : nullptr;
  std::string version = version_in_name(file);
  if (get_version && get_version() != cudnn.version) version = version_text(get_version());
  if (!version.empty() && version != version_text(cudnn.version)) {
    refuse_part(cudnn, file, fmt::format("is of version {}", version));
  }
  if (check && check() != CUDNN_STATUS_SUCCESS) refuse_part(cudnn, file, "is of another version");
}

void open_parts(const Cudnn& cudnn) {
  const path folder = path(cudnn.path).parent_path();
  const auto file = [&](const char* part) {
    return folder / fmt::format("libcudnn_{}.so.{}", part, CUDNN_MAJOR);
  };
  open_part(cudnn, file("graph"), "cudnnGraphVersionCheck");  // the others need it
  open_part(cudnn, file("ops"), "cudnnOpsVersionCheck");
  open_part(cudnn, file("cnn"), "cudnnCnnVersionCheck");
  open_part(cudnn, file("engines_precompiled"), nullptr);
  open_part(cudnn, file("engines_runtime_compiled"), nullptr);
  open_part(cudnn, file("heuristic"), nullptr);
}

}  // namespace

Cudnn open_cudnn(const std::string& name) {
  const std::string wanted =
      fmt::format("cuDNN {}, version {} or later (this was compiled against {})", CUDNN_MAJOR,
                  version_text(oldest_cudnn), compiled_cudnn());
  void* const handle = open(name);
  if (!handle) {
    const std::string reason = dlerror();
    throw DeviceError(
        fmt::format("[cuda] cannot open {}: {}{}; {}", wanted, reason, other_majors(name), advice));
  }
  Cudnn cudnn;
  cudnn.path = path_of(handle);
  bind(handle, cudnn.cudnnGetVersion, "cudnnGetVersion", "cuDNN");
  cudnn.version = cudnn.cudnnGetVersion();
  if (cudnn.version / 10000 != CUDNN_MAJOR || cudnn.version < oldest_cudnn) {
    throw DeviceError(fmt::format("[cuda] found cuDNN {} at {}, wanted {}; {}",
                                  version_text(cudnn.version), cudnn.path, wanted, advice));
  }
  open_parts(cudnn);
#define ADRET_BIND(function) bind(handle, cudnn.function, #function, "cuDNN");
  ADRET_CUDNN_FUNCTIONS(ADRET_BIND)
#undef ADRET_BIND
  return cudnn;
}

Cublas open_cublas(const std::string& name) {
  void* const handle = open(name);
  if (!handle) {
    throw DeviceError(fmt::format(
        "[cuda] cannot open cuBLASLt {} (this was compiled against {}.{}.{}): {}; {}",
        CUBLAS_VER_MAJOR, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH, dlerror(), advice));
  }
  Cublas cublas;
  cublas.path = path_of(handle);
#define ADRET_BIND(function) bind(handle, cublas.function, #function, "cuBLASLt");
  ADRET_CUBLAS_FUNCTIONS(ADRET_BIND)
#undef ADRET_BIND
  cublas.version = cublas.cublasLtGetVersion();
  if (cublas.version / 10000 != CUBLAS_VER_MAJOR) {
    throw DeviceError(fmt::format("[cuda] found cuBLASLt {} at {}, wanted {}; {}",
                                  version_text(cublas.version), cublas.path, CUBLAS_VER_MAJOR,
                                  advice));
  }
  return cublas;
}

const Cudnn& cudnn() {
  static const Cudnn library = open_cudnn(fmt::format("libcudnn.so.{}", CUDNN_MAJOR));
  return library;
}

const Cublas& cublas() {
  static const Cublas library = open_cublas(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR));
  return library;
}

// -- reports ----------------------------------------------------------------------------

LibraryVersion version_of(const Cudnn& library) {
  return {.name = "cuDNN",
          .version = version_text(library.version),
          .path = library.path,
          .compiled_version = compiled_cudnn(),
          .compiled_path = ADRET_CUDNN_LIBRARY};
}

LibraryVersion version_of(const Cublas& library) {
  return {.name = "cuBLASLt",
          .version = version_text(library.version),
          .path = library.path,
          .compiled_version =
              fmt::format("{}.{}.{}", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH),
          .compiled_path = ADRET_CUBLAS_LIBRARY};
}

std::string to_string(const LibraryVersion& library) {
  std::string text = fmt::format("{} {} at {}", library.name, library.version, library.path);
  if (library.version != library.compiled_version) {
    text += fmt::format(" (compiled against {} at {})", library.compiled_version,
                        library.compiled_path);
  }
  return text;
}

std::string path_of_library(const std::string& name) {
  void* const handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return {};
  const std::string path = path_of(handle);
  dlclose(handle);
  return path;
}

}  // namespace adret::cuda

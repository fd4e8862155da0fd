// Opening of cuDNN and cuBLASLt, their versions, and cuDNN's sub-libraries.
#include <adret/core/cuda/libraries.h>
#include <adret/core/error.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>

namespace adret::cuda {
namespace {

constexpr size_t oldest_cudnn = 91400;

std::string version_text(size_t version) {
  return version >= 90000
             ? fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
             : fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
}

void* open(const std::string& name, const char* library, const char* advice) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw DeviceError(fmt::format("[cuda] cannot open {}: {}; {}", library, dlerror(), advice));
  }
  return handle;
}

// Where the object that holds `function` was loaded from.
std::filesystem::path file_of(void* function) {
  Dl_info info{};
  return dladdr(function, &info) && info.dli_fname ? std::filesystem::path(info.dli_fname)
                                                   : std::filesystem::path();
}

template <class Function>
void bind(void* handle, Function& function, const char* name, const char* library) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) {
    throw DeviceError(
        fmt::format("[cuda] {} at {} has no function {}; install the version that "
                    "this build was compiled against, or build again",
                    library, name, name));
  }
}

// cuDNN looks for the rest of itself by name, and does without what it does not find: a foreign or
// empty file earlier in the search path would silently cost the fast engines. What is already
// loaded under that name is what it finds.
void open_parts(const Cudnn& cudnn) {
  const std::filesystem::path folder = std::filesystem::path(cudnn.path).parent_path();
  for (const char* part :
       {"graph", "ops", "cnn", "engines_precompiled", "engines_runtime_compiled", "heuristic"}) {
    const std::filesystem::path file = folder / fmt::format("libcudnn_{}.so.{}", part, CUDNN_MAJOR);
    open(file.string(),
         fmt::format("the part of cuDNN {} that belongs to {}", version_text(cudnn.version),
                     cudnn.path)
             .c_str(),
         "install cuDNN again");
  }
}

}  // namespace

Cudnn open_cudnn(const std::string& name) {
  const std::string wanted = fmt::format(
      "cuDNN {} (compiled against {}.{}.{}, wants {} or later of the same major)", CUDNN_MAJOR,
      CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL, version_text(oldest_cudnn));
  const std::string advice =
      fmt::format("install it, or name its folder in LD_LIBRARY_PATH; Device::cpu() works without");
  void* handle = open(name, wanted.c_str(), advice.c_str());
  Cudnn cudnn;
  bind(handle, cudnn.cudnnGetVersion, "cudnnGetVersion", "cuDNN");
  cudnn.path = file_of(reinterpret_cast<void*>(cudnn.cudnnGetVersion)).string();
  cudnn.version = cudnn.cudnnGetVersion();
  if (cudnn.version / 10000 != CUDNN_MAJOR || cudnn.version < oldest_cudnn) {
    throw DeviceError(fmt::format("[cuda] found cuDNN {} at {}, wanted {}; {}",
                                  version_text(cudnn.version), cudnn.path, wanted, advice));
  }
  open_parts(cudnn);
#define ADRET_BIND(function) bind(handle, cudnn.function, #function, cudnn.path.c_str());
  ADRET_CUDNN_FUNCTIONS(ADRET_BIND)
#undef ADRET_BIND
  return cudnn;
}

Cublas open_cublas(const std::string& name) {
  void* handle = open(name, fmt::format("cuBLASLt {}", CUBLAS_VER_MAJOR).c_str(),
                      "install the CUDA toolkit's libraries, or name their folder in "
                      "LD_LIBRARY_PATH; Device::cpu() works without");
  Cublas cublas;
#define ADRET_BIND(function) bind(handle, cublas.function, #function, "cuBLASLt");
  ADRET_CUBLAS_FUNCTIONS(ADRET_BIND)
#undef ADRET_BIND
  cublas.path = file_of(reinterpret_cast<void*>(cublas.cublasLtGetVersion)).string();
  cublas.version = cublas.cublasLtGetVersion();
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

}  // namespace adret::cuda

// Finding and loading of backends.
#include <adret/core/error.h>
#include <adret/core/plugin.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

namespace adret {
namespace {

// The shared object that this function is in: the core library.
std::filesystem::path library_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&load_backend), &info) || !info.dli_fname) {
    throw DeviceError("[device] cannot find the folder of the library; is it linked statically?");
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

// The instruction sets of this build, the plainest first.
std::vector<std::string> built_cpu_archs() {
  std::vector<std::string> archs;
  std::string_view list = ADRET_CPU_ARCHS;
  for (size_t comma; !list.empty(); list.remove_prefix(std::min(list.size(), comma + 1))) {
    comma = std::min(list.find(','), list.size());
    archs.emplace_back(list.substr(0, comma));
  }
  return archs;
}

bool processor_has(const std::string& arch) {
#ifdef __x86_64__
  if (arch == "x86-64-v2") return __builtin_cpu_supports("x86-64-v2");
  if (arch == "x86-64-v3") return __builtin_cpu_supports("x86-64-v3");
  if (arch == "x86-64-v4") return __builtin_cpu_supports("x86-64-v4");
#endif
  return true;  // the builder's own choice, as native
}

std::string choose_cpu_arch() {
  const std::vector<std::string> archs = built_cpu_archs();
  if (const char* wanted = std::getenv("ADRET_CPU_ARCH"); wanted && *wanted) {
    for (const std::string& arch : archs) {
      if (arch == wanted && processor_has(arch)) return arch;
    }
    throw DeviceError(fmt::format(
        "[device] ADRET_CPU_ARCH={}: this build has {}, and the processor must know it; "
        "unset the variable or name one of them",
        wanted, ADRET_CPU_ARCHS));
  }
  std::string best;
  for (const std::string& arch : archs) {
    if (processor_has(arch)) best = arch;
  }
  if (best.empty()) {
    throw DeviceError(
        fmt::format("[device] the processor knows none of the instruction sets of this build ({}); "
                    "configure with -DADRET_CPU_ARCH=x86-64 and build again",
                    ADRET_CPU_ARCHS));
  }
  return best;
}

}  // namespace

std::unique_ptr<Backend> load_backend(const std::string& file, Device device) {
  const std::string path = (library_folder() / file).string();
  // Never unloaded: its code may be on any thread's stack at exit.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    throw DeviceError(fmt::format(
        "[device] cannot load the backend {}: {}; build or install it again", path, dlerror()));
  }
  const auto* plugin = static_cast<const BackendPlugin*>(dlsym(library, "adret_backend_plugin"));
  while (dlerror()) {  // the loader keeps a message until it was taken and asked for again
  }
  if (!plugin || plugin->stamp != plugin_stamp(device.type)) {
    throw DeviceError(fmt::format(
        "[device] the backend {} belongs to another build of the library; build or install "
        "both together",
        path));
  }
  return plugin->make(device.index);
}

std::string cpu_arch() {
  static const std::string arch = choose_cpu_arch();
  return arch;
}

std::unique_ptr<Backend> load_cpu_backend() {
  return load_backend("libadret_cpu_" + cpu_arch() + ".so", Device::cpu());
}

std::unique_ptr<Backend> load_cuda_backend(uint8_t device) {
  const char* file = "libadret_cuda.so";
  if (!std::filesystem::exists(library_folder() / file)) {
    throw DeviceError(
        fmt::format("[device] cuda:{} has no backend: {} is not there; build with the preset cuda "
                    "(-DADRET_CUDA=ON), or use Device::cpu()",
                    device, (library_folder() / file).string()));
  }
  return load_backend(file, Device::cuda(device));
}

}  // namespace adret

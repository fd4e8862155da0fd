// The command line of programs that certify.
#include <adret/certify/certify.h>
#include <adret/core/device.h>
#include <adret/core/error.h>
#include <fmt/core.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>

namespace adret {
namespace {

constexpr int all_passed = 0, some_failed = 1, wrong_use = 2;

struct CommandLine {
  std::vector<std::string> names;
  std::optional<std::string> device;
  bool list = false, help = false;
};

CommandLine parse(int argc, const char* const* argv) {
  CommandLine line;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      line.list = true;
    } else if (word == "--help" || word == "-h") {
      line.help = true;
    } else if (word == "--device" || word.starts_with("--device=")) {
      if (word == "--device" && ++i == argc)
        throw Error("--device wants cpu, cuda, cuda:N or auto");
      line.device = word == "--device" ? argv[i] : word.substr(word.find('=') + 1);
      if (*line.device != "auto") Device::parse(*line.device);
    } else if (word.starts_with("-")) {
      throw Error(fmt::format("unknown option {}", word));
    } else {
      line.names.push_back(word);
    }
  }
  return line;
}

std::string names_of(const std::vector<Certification>& list) {
  std::string text;
  for (const Certification& one : list) text += (text.empty() ? "" : ", ") + one.name;
  return text;
}

std::vector<const Certification*> chosen(const std::vector<Certification>& list,
                                         const std::vector<std::string>& names) {
  std::vector<const Certification*> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(list, name, &Certification::name);
    if (found == list.end()) {
      throw Error(fmt::format("there is no \"{}\"; there are: {}", name, names_of(list)));
    }
    chosen.push_back(&*found);
  }
  if (names.empty()) {
    for (const Certification& one : list) chosen.push_back(&one);
  }
  return chosen;
}

void check_names(const std::vector<Certification>& list) {
  std::set<std::string> seen;
  for (const Certification& one : list) {
    if (one.name.empty() || !seen.insert(one.name).second) {
      throw Error(fmt::format("the name \"{}\" is empty or comes twice", one.name));
    }
  }
  if (list.empty()) throw Error("there is nothing to certify");
}

bool run_all(const std::vector<const Certification*>& list,
             const std::optional<std::string>& device) {
  std::string failed;
  for (const Certification* one : list) {
    CertifyOptions options = one->options;
    if (device) options.device = *device;
    const Certificate certificate = one->run(options);
    std::cout << certificate << std::endl;
    if (!certificate.passed()) failed += (failed.empty() ? "" : ", ") + one->name;
  }
  if (failed.empty()) {
    std::cout << fmt::format("certified: all {}\n", list.size());
  } else {
    std::cout << "failed: " << failed << "\n";
  }
  return failed.empty();
}

}  // namespace

int certify_main(int argc, const char* const* argv, const std::vector<Certification>& list) {
  const std::string program = argc > 0 ? argv[0] : "certify";
  try {
    check_names(list);
    const CommandLine line = parse(argc, argv);
    if (line.help) {
      std::cout << fmt::format(
          "{} [NAME...] [--device cpu|cuda|cuda:N|auto] [--list]\n"
          "Certifies the layers named, all by default: {}\n"
          "Exit status: 0 when all passed, 1 when one failed, 2 for wrong use\n",
          program, names_of(list));
      return all_passed;
    }
    const std::vector<const Certification*> run = chosen(list, line.names);
    if (line.list) {
      for (const Certification* one : run) std::cout << one->name << "\n";
      return all_passed;
    }
    return run_all(run, line.device) ? all_passed : some_failed;
  } catch (const std::exception& error) {
    std::cerr << fmt::format("{}: {}; see --help\n", program, error.what());
    return wrong_use;
  }
}

}  // namespace adret

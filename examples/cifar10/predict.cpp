// The probabilities of the classes for an image file.
#include <sstream>

#include "../command_line.h"
#include "arguments.h"

namespace cifar10 {
namespace {

using namespace adret::examples;

std::string text_of(const Metadata& metadata, const std::string& key) {
  const auto entry = metadata.find(key);
  return entry == metadata.end() ? std::string() : entry->second;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

// Of the three colours.
std::vector<double> numbers_of(const Metadata& metadata, const std::string& key) {
  std::vector<double> numbers;
  for (const std::string& part : split(text_of(metadata, key))) {
    if (const auto number = read_number<double>(part)) numbers.push_back(*number);
  }
  if (numbers.size() == 3) return numbers;
  throw CheckpointError(fmt::format(
      "[cifar10] the weights' metadata says that \"{}\" is \"{}\", wanted three numbers; use "
      "weights that this example saved",
      key, text_of(metadata, key)));
}

std::vector<std::string> classes_of(const Metadata& metadata) {
  const std::vector<std::string> classes = split(text_of(metadata, "classes"));
  if (classes.size() == 10) return classes;
  throw CheckpointError(fmt::format(
      "[cifar10] the weights' metadata names the classes \"{}\", wanted ten; use weights that this "
      "example saved",
      text_of(metadata, "classes")));
}

}  // namespace

void predict(const Arguments& args) {
  const Metadata metadata = read_tensors(args.weights).metadata;
  const std::vector<std::string> classes = classes_of(metadata);
  const Normalize normalize(numbers_of(metadata, "mean"), numbers_of(metadata, "std"));
  const Device device = choose_device(args.device);
  const std::unique_ptr<Module> model = build(text_of(metadata, "model"));
  load_weights(*model, args.weights);
  model->to(device);
  model->eval();

  const Tensor image = load_image(args.predict, {.channels = 3});
  const Tensor images = resize(image, 32).reshape({1, 32, 32, 3});
  const NoGrad off;
  const Tensor logits = model->call(normalize(images.to(device)));
  const std::vector<float> probabilities = softmax(logits).to_vector();
  for (size_t c = 0; c < classes.size(); ++c) {
    fmt::print("{:<10}  {:.4f}\n", classes[c], probabilities[c]);
  }
}

}  // namespace cifar10

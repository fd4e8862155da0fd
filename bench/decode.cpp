// Times decoding and augmenting image files: a folder's files in batches through a loader, random
// crop with padding 4, flip, normalisation. Prints one JSON line, as bench/peers/pillow_decode.py.
//
//   decode FOLDER [--images N] [--threads T] [--batch B] [--seconds S]
#include <adret/core/error.h>
#include <adret/core/thread_pool.h>
#include <adret/data/image_folder.h>
#include <adret/data/loader.h>
#include <adret/data/transforms.h>
#include <adret/train/progress.h>
#include <fmt/core.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace adret;

// The first `count` files below a folder, by the bytes of their paths.
ImageFolder first_images(const std::filesystem::path& folder, size_t count) {
  std::vector<ImageFolder::Item> items;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) items.push_back({.path = entry.path()});
  }
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return a.path.native() < b.path.native(); });
  if (items.size() > count) items.resize(count);
  return ImageFolder::from_items(std::move(items), {"image"}, {.allow_one_class = true});
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

int64_t pass(const DataLoader& loader, int64_t number) {
  int64_t images = 0;
  for (const Batch& batch : loader.epoch(number)) images += batch.size();
  return images;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times decoding and augmenting a folder of image files.");
  std::string folder;
  size_t images = 10000;
  int threads = num_threads();
  int64_t batch = 128;
  double seconds = 3;
  app.add_option("folder", folder, "image files of one size, in it or below")->required();
  app.add_option("--images", images, "how many of them")->capture_default_str();
  app.add_option("--threads", threads, "that decode")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", batch, "images in a batch")->capture_default_str();
  app.add_option("--seconds", seconds, "how long to measure")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  try {
    set_num_threads(1);
    const Normalize normalize({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616});
    const DataLoader loader(
        first_images(folder, images),
        {.batch_size = batch,
         .workers = threads,
         .transform = Augment(
             {.crop = {.padding = 4}, .flip = Flip::random, .normalize = normalize, .seed = 1})});
    int64_t epoch = 0, done = 0;
    pass(loader, epoch);  // the files are in memory from here on
    const double begin = steady_seconds(), processor_begin = processor_seconds();
    while (steady_seconds() < begin + seconds) done += pass(loader, ++epoch);
    const double elapsed = steady_seconds() - begin;
    const nlohmann::ordered_json result = {
        {"images", loader.samples()},
        {"threads", threads},
        {"items_per_s", double(done) / elapsed},
        {"items_per_processor_s", double(done) / (processor_seconds() - processor_begin)}};
    fmt::print("{}\n", result.dump());
  } catch (const std::exception& error) {
    fmt::print(stderr, "decode: {}\n", error.what());
    return 1;
  }
}

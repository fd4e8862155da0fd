// Walking folders and reading lists of image files.
#include <adret/core/error.h>
#include <adret/data/file_kind.h>
#include <adret/data/image_list.h>
#include <adret/data/input_file.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace adret {
namespace {

namespace fs = std::filesystem;

constexpr std::array endings = {".jpg", ".jpeg", ".png", ".bmp", ".pgm", ".ppm"};

[[noreturn]] void fail(const fs::path& path, const std::string& problem) {
  throw DataError(fmt::format("[ImageFolder] {}: {}", path.string(), problem));
}

// Notes a bad file, or throws.
void reject(ImageList& list, const ImageFolderOptions& options, const fs::path& path,
            const std::string& reason) {
  if (options.bad_files == BadFiles::error) {
    fail(path, reason + "; with bad_files = BadFiles::skip it is left out");
  }
  list.skipped.push_back({path, reason});
}

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool has_known_ending(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

// What is in a folder, without hidden names, sorted.
std::vector<fs::directory_entry> entries_of(const fs::path& folder, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_hidden(entry->path())) entries.push_back(*entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  return entries;
}

// Adds the images below a folder. Links to folders are not followed here: they could lead back.
void add_images(ImageList& list, const ImageFolderOptions& options, const fs::path& folder,
                int64_t label) {
  std::error_code error;
  const std::vector<fs::directory_entry> entries = entries_of(folder, error);
  if (error) reject(list, options, folder, "the folder cannot be read: " + error.message());
  for (const fs::directory_entry& entry : entries) {
    std::error_code ignored;
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) {
      add_images(list, options, entry.path(), label);
    } else if (!has_known_ending(entry.path())) {
      reject(list, options, entry.path(),
             fmt::format("expected image files ending in {}", fmt::join(endings, ", ")));
    } else if (const char* reason = why_no_file(entry.path())) {
      reject(list, options, entry.path(), reason);
    } else {
      list.items.push_back({entry.path(), label});
    }
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* space = " \t\r\n\v\f";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return number;
}

// One line of a list that is not blank.
ImageFolder::Item parse_line(std::string_view line, const std::string& place,
                             const ImageFolderOptions& options) {
  const size_t space = line.find_last_of(" \t");
  const auto label =
      space == std::string_view::npos ? std::nullopt : whole_number(line.substr(space + 1));
  const int64_t classes = options.classes.empty() ? 65536 : int64_t(options.classes.size());
  if (!label || *label < 0 || *label >= classes) {
    throw DataError(
        fmt::format("[ImageFolder] {}: expected a path, a space and a label of 0..{}, found \"{}\"",
                    place, classes - 1, line));
  }
  return {trimmed(line.substr(0, space)), *label};
}

}  // namespace

ImageList list_folder(const fs::path& folder, const ImageFolderOptions& options) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    fail(folder, fs::exists(folder, ignored) ? "expected a folder with a subfolder for each class; "
                                               "ImageFolder::from_list reads a list of files"
                                             : "there is no such folder");
  }
  ImageList list{.items = {}, .skipped = {}, .classes = options.classes};
  std::vector<fs::path> subfolders;
  size_t others = 0;
  std::error_code error;
  const std::vector<fs::directory_entry> entries = entries_of(folder, error);
  if (error) fail(folder, "the folder cannot be read: " + error.message());
  for (const fs::directory_entry& entry : entries) {
    if (!entry.is_directory(ignored)) {
      ++others;
      continue;
    }
    subfolders.push_back(entry.path());
    if (options.classes.empty()) list.classes.push_back(entry.path().filename().string());
  }
  if (subfolders.empty()) {
    fail(folder, fmt::format("expected a subfolder for each class, found none and {} files; for "
                             "images in one folder use ImageFolder::from_list",
                             others));
  }
  std::vector<bool> seen(list.classes.size());
  for (const fs::path& subfolder : subfolders) {
    const auto name =
        std::find(list.classes.begin(), list.classes.end(), subfolder.filename().string());
    if (name == list.classes.end()) fail(subfolder, "there is no class of this name in `classes`");
    const auto label = name - list.classes.begin();
    const size_t before = list.items.size();
    add_images(list, options, subfolder, label);
    if (list.items.size() == before) {
      reject(list, options, subfolder, "the folder of this class holds no image");
    }
    seen[size_t(label)] = true;
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) reject(list, options, folder / list.classes[i], "this class has no folder");
  }
  return list;
}

ImageList read_list(const fs::path& path, const ImageFolderOptions& options) {
  const InputFile file("ImageFolder", path);
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  ImageList list{.items = {}, .skipped = {}, .classes = options.classes};
  std::vector<bool> used;  // by label
  size_t number = 0;
  std::string_view rest = text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);  // a byte order mark
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = trimmed(rest.substr(0, end + 1));
    rest.remove_prefix(end + 1);
    ++number;
    if (line.empty()) continue;
    const std::string place = fmt::format("{}, line {}", path.string(), number);
    ImageFolder::Item item = parse_line(line, place, options);
    item.path = path.parent_path() / item.path;
    used.resize(std::max(used.size(), size_t(item.label) + 1));
    used[size_t(item.label)] = true;
    if (const char* reason = why_no_file(item.path)) {
      reject(list, options, item.path, fmt::format("{} ({})", reason, place));
    } else {
      list.items.push_back(std::move(item));
    }
  }
  if (options.classes.empty()) {
    for (size_t label = 0; label < used.size(); ++label) {
      if (!used[label]) {
        fail(path,
             fmt::format("no line has the label {}, and one has {}; number the classes from 0, "
                         "or name them all in `classes`",
                         label, used.size() - 1));
      }
      list.classes.push_back(std::to_string(label));
    }
  }
  return list;
}

}  // namespace adret

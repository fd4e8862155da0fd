// Augmentation against a NumPy version of Note [Augmentation], and by hand.
#include <adret/core/kernels/image_plan.h>
#include <adret/core/kernels/jitter_colors.h>
#include <adret/core/kernels/kernel.h>
#include <adret/core/kernels/mix_images.h>
#include <adret/core/tensor.h>
#include <adret/core/thread_pool.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/close.h"
#include "tests/support/guarded.h"

namespace adret {
namespace {

using namespace test;
using kernels::AugmentParams;
using kernels::Border;
using kernels::Flip;
using kernels::ImageBox;
using kernels::ImagePlan;
using kernels::ImageSizes;
using Levels = std::vector<uint8_t>;

RandomKey key_of(uint64_t seed) { return {.seed = seed, .stream = RandomStream::augment}; }

ImagePlan plan_of(const AugmentParams& params, ImageSizes sizes, uint64_t seed, int64_t id,
                  int64_t epoch) {
  const auto key = philox_key(key_of(seed));
  return plan_image(params, sizes, kernels::SampleWords(key[0], key[1], 0, id, epoch));
}

std::array<int, 4> corners(const ImageBox& box) {
  return {box.top, box.left, box.bottom, box.right};
}

// Image i has (53 i + 29 h + 7 w + 101 c) mod 256 at (h, w, c).
Tensor images_of(const Shape& shape) {
  Levels levels;
  for (int64_t i = 0; i < shape[0]; ++i) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t w = 0; w < shape[2]; ++w) {
        for (int64_t c = 0; c < shape[3]; ++c) {
          levels.push_back(uint8_t((53 * i + 29 * h + 7 * w + 101 * c) % 256));
        }
      }
    }
  }
  return Tensor::from(levels, shape);
}

Tensor words(const std::vector<int64_t>& values) {
  return Tensor::from(values, {int64_t(values.size())});
}
Tensor word(int64_t value) { return Tensor::full({}, double(value), {.dtype = DType::i64}); }

struct Call {
  Tensor x;
  std::vector<int64_t> ids;
  int64_t epoch = 0;
  uint64_t seed = 9;
  AugmentParams params = {};
  std::vector<int64_t> indices = {};

  void into(const TensorView& y) const {
    const Tensor id_words = words(ids), epoch_word = word(epoch), index_words = words(indices);
    kernels::AugmentImages call{.x = x,
                                .ids = id_words,
                                .epoch = epoch_word,
                                .y = y,
                                .key = key_of(seed),
                                .augment = params};
    if (!indices.empty()) call.indices = index_words;
    run(call);
  }
  Levels levels(const Shape& shape) const {
    const Tensor y = Tensor::empty(shape, {.dtype = DType::u8});
    into(y);
    return y.to_vector<uint8_t>();
  }
};

// NumPy, with square roots in floating point: seed 7, images 6x5 and crops of that size.
TEST(ImagePlan, DrawsCropFlipCutoutAndErasing) {
  const AugmentParams params{.random_crop = true,
                             .padding = 2,
                             .flip = Flip::random,
                             .cutout = 3,
                             .erase_chance = uint64_t(1) << 31,
                             .erase_area = {3277, 19661},
                             .erase_aspect = {32768, 131072}};
  struct Golden {
    int64_t id, epoch;
    int top, left;
    bool flip;
    std::array<int, 4> cut, erased;
  };
  const Golden goldens[] = {
      {0, 0, -1, -2, false, {3, 2, 6, 5}, {0, 0, 0, 0}},
      {1, 0, 2, 1, true, {3, 2, 6, 5}, {0, 0, 0, 0}},
      {2, 0, -2, 1, true, {2, 0, 5, 3}, {4, 3, 6, 5}},
      {3, 0, 1, 2, true, {0, 2, 2, 5}, {0, 0, 2, 2}},
      {4, 0, -1, 2, true, {1, 0, 4, 2}, {5, 3, 6, 4}},
      {7, 3, 0, -1, true, {4, 1, 6, 4}, {2, 2, 4, 5}},
      {int64_t(1) << 33, 5, 1, -2, true, {1, 1, 4, 4}, {2, 2, 5, 4}},
      {49999, 12, -2, -2, true, {2, 0, 5, 2}, {4, 0, 6, 4}},
  };
  for (const Golden& golden : goldens) {
    const ImagePlan plan = plan_of(params, {6, 5, 6, 5}, 7, golden.id, golden.epoch);
    EXPECT_EQ(plan.top, golden.top) << golden.id;
    EXPECT_EQ(plan.left, golden.left) << golden.id;
    EXPECT_EQ(plan.flip, golden.flip) << golden.id;
    EXPECT_EQ(corners(plan.cut), golden.cut) << golden.id;
    EXPECT_EQ(corners(plan.erased), golden.erased) << golden.id;
  }
}

TEST(ImagePlan, AlternatingFlipsTakeTurns) {
  // NumPy, for ids 0 to 7 in epoch 0.
  const std::array<bool, 8> goldens = {true, false, false, false, false, true, false, true};
  int first = 0;
  for (int64_t id = 0; id < 1000; ++id) {
    const auto flips = [id](int64_t epoch) {
      return plan_of({.flip = Flip::alternating}, {6, 5, 6, 5}, 7, id, epoch).flip;
    };
    if (id < 8) {
      EXPECT_EQ(flips(0), goldens[size_t(id)]) << id;
    }
    for (int64_t epoch = 1; epoch < 5; ++epoch) EXPECT_NE(flips(epoch), flips(epoch - 1)) << id;
    first += flips(0);
  }
  EXPECT_NEAR(first, 500, 5 * std::sqrt(250));
}

TEST(ImagePlan, OffsetsFlipsAndCentresAreUniform) {
  const AugmentParams params{.random_crop = true, .padding = 4, .flip = Flip::random, .cutout = 1};
  constexpr int samples = 90'000;
  std::array<int, 9> rows{}, columns{};
  std::array<int, 32> centre_rows{}, centre_columns{};
  int flips = 0, rows_with_columns = 0;
  for (int64_t id = 0; id < samples; ++id) {
    const ImagePlan plan = plan_of(params, {32, 32, 32, 32}, 3, id, 1);
    ++rows[size_t(plan.top + 4)];
    ++columns[size_t(plan.left + 4)];
    ++centre_rows[size_t(plan.cut.top)];
    ++centre_columns[size_t(plan.cut.left)];
    flips += plan.flip;
    rows_with_columns += plan.top == plan.left;
  }
  // Five standard deviations of a binomial count.
  const auto expect_count = [](int count, double p, const char* what) {
    EXPECT_NEAR(count, samples * p, 5 * std::sqrt(samples * p * (1 - p))) << what;
  };
  for (const int count : rows) expect_count(count, 1.0 / 9, "row");
  for (const int count : columns) expect_count(count, 1.0 / 9, "column");
  for (const int count : centre_rows) expect_count(count, 1.0 / 32, "centre row");
  for (const int count : centre_columns) expect_count(count, 1.0 / 32, "centre column");
  expect_count(flips, 0.5, "flips");
  expect_count(rows_with_columns, 1.0 / 9, "row and column together");
}

TEST(ImagePlan, CertainAndImpossibleDraws) {
  for (int64_t id = 0; id < 100; ++id) {
    const auto flips = [id](uint64_t chance) {
      return plan_of({.flip = Flip::random, .flip_chance = chance}, {4, 4, 4, 4}, 1, id, 0).flip;
    };
    EXPECT_TRUE(flips(uint64_t(1) << 32));
    EXPECT_FALSE(flips(0));
    // A box as large as the crop never fits, so that none is erased.
    const AugmentParams all{.erase_chance = uint64_t(1) << 32,
                            .erase_area = {65536, 65536},
                            .erase_aspect = {65536, 65536}};
    EXPECT_EQ(corners(plan_of(all, {4, 4, 4, 4}, 1, id, 0).erased), (std::array<int, 4>{}));
  }
}

TEST(ImagePlan, RootsAreRoundedToTheNearest) {
  using kernels::nearest_root;
  for (uint64_t square = 0; square < 2000; ++square) {
    EXPECT_EQ(nearest_root(square), uint64_t(std::lround(std::sqrt(double(square))))) << square;
  }
  EXPECT_EQ(nearest_root(uint64_t(0xfffffffe) * 0xfffffffe), 0xfffffffe);
}

// NumPy: np.pad with mode constant and reflect, a slice, [:, ::-1], the square set to 200. Images
// of ids 5, 11, 2 in epoch 4: offsets (0, 1), (-2, 3), (3, 3), the last one flipped.
TEST(AugmentImages, CropsFlipsAndCutsOut) {
  const Levels with_black = {
      7,   108, 209, 200, 200, 200, 200, 200, 200, 28,  129, 230, 36,  137, 238, 43, 144, 245,
      50,  151, 252, 57,  158, 3,   65,  166, 11,  72,  173, 18,  79,  180, 25,  86, 187, 32,
      0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   200, 200, 200, 0,  0,   0,
      0,   0,   0,   0,   0,   0,   200, 200, 200, 81,  182, 27,  0,   0,   0,   0,  0,   0,
      200, 200, 200, 0,   0,   0,   221, 66,  167, 214, 59,  160, 0,   0,   0,   0,  0,   0,
      0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,   0,  0,   0};
  const Levels reflected = {
      7,   108, 209, 200, 200, 200, 200, 200, 200, 28,  129, 230, 36,  137, 238, 43,  144, 245,
      50,  151, 252, 57,  158, 3,   65,  166, 11,  72,  173, 18,  79,  180, 25,  86,  187, 32,
      132, 233, 78,  139, 240, 85,  132, 233, 78,  125, 226, 71,  200, 200, 200, 110, 211, 56,
      103, 204, 49,  96,  197, 42,  200, 200, 200, 81,  182, 27,  74,  175, 20,  67,  168, 13,
      200, 200, 200, 214, 59,  160, 221, 66,  167, 214, 59,  160, 178, 23,  124, 185, 30,  131,
      192, 37,  138, 185, 30,  131, 149, 250, 95,  156, 1,   102, 163, 8,   109, 156, 1,   102};
  Call call{.x = images_of({3, 4, 5, 3}),
            .ids = {5, 11, 2},
            .epoch = 4,
            .params = {.random_crop = true,
                       .padding = 2,
                       .flip = Flip::random,
                       .cutout = 2,
                       .fill = {200, 200, 200, 200}}};
  EXPECT_EQ(call.levels({3, 3, 4, 3}), with_black);
  call.params.border = Border::reflect;
  EXPECT_EQ(call.levels({3, 3, 4, 3}), reflected);
}

// Numbers of f32: level * scale + shift rounded once. Black around the image is normalised, what is
// cut out is 0, and so are further channels.
TEST(AugmentImages, NormalisesEachChannelAndAddsChannels) {
  const AugmentParams params{.random_crop = true,
                             .padding = 2,
                             .flip = Flip::random,
                             .cutout = 2,
                             .scale = {1 / 63.0f, 1 / 64.5f, 1 / 66.6f, 1},
                             .shift = {-1.9891f, -1.9803f, -1.7070f, 0}};
  const Call call{.x = images_of({3, 4, 5, 3}), .ids = {5, 11, 2}, .epoch = 4, .params = params};
  const Guarded<float> y({3, 3, 4, 8});
  call.into(y);
  EXPECT_TRUE(y.guards_intact());
  AugmentParams plain = params;
  plain.fill = {1, 1, 1, 1};  // no pixel has it
  const Levels levels =
      Call{.x = call.x, .ids = call.ids, .epoch = 4, .params = plain}.levels({3, 3, 4, 3});
  const std::vector<float> values = y.exact();
  for (size_t pixel = 0; pixel < 36; ++pixel) {
    for (size_t c = 0; c < 8; ++c) {
      const float value = values[pixel * 8 + c];
      const bool cut = c < 3 && levels[pixel * 3] == 1 && levels[pixel * 3 + 1] == 1;
      if (c >= 3 || cut) {
        EXPECT_EQ(value, 0) << pixel;
      } else {
        // Exact in f64 but for its last bits.
        const double exact = double(levels[pixel * 3 + c]) * params.scale[c] + params.shift[c];
        EXPECT_EQ(value, float(exact)) << pixel << " " << c;
      }
    }
  }
}

TEST(AugmentImages, TakesOneToFourChannelsAndShiftsOfVectors) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor x = images_of({2, 8, 8, channels});
    const Guarded<float> y({2, 8, 8, channels});
    kernels::AugmentImages call{.x = x, .y = y};
    run(call);
    const Levels levels = x.to_vector<uint8_t>();
    EXPECT_EQ(y.values(), std::vector<double>(levels.begin(), levels.end())) << channels;
    // The centre: (8 - 4) / 2 rows, (8 - 5) / 2 = 1 column from the corner.
    const Tensor centre = Tensor::empty({2, 4, 5, channels}, {.dtype = DType::u8});
    call.y = centre;
    run(call);
    const Levels middle = centre.to_vector<uint8_t>();
    for (int64_t i = 0; i < 2; ++i) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t w = 0; w < 5; ++w) {
          const int64_t to = ((i * 4 + h) * 5 + w) * channels,
                        from = ((i * 8 + h + 2) * 8 + w + 1) * channels;
          EXPECT_EQ(middle[size_t(to)], levels[size_t(from)]);
        }
      }
    }
  }
}

TEST(AugmentImages, ASampleIsTheSameInEveryBatchAndOnEveryDevice) {
  const AugmentParams params{.random_crop = true,
                             .padding = 4,
                             .border = Border::reflect,
                             .flip = Flip::random,
                             .cutout = 8,
                             .erase_chance = uint64_t(1) << 31,
                             .erase_area = {1311, 21627},
                             .erase_aspect = {19661, 216269},
                             .scale = {0.017f, 0.016f, 0.015f, 1},
                             .shift = {-2, -2, -1.75f, 0}};
  const Tensor x = images_of({50, 32, 32, 3});
  const Shape one = {1, 32, 32, 3};
  std::vector<int64_t> all;
  for (int64_t i = 0; i < 50; ++i) all.push_back((i * 17) % 50);
  const Call batch{.x = x, .ids = all, .epoch = 6, .params = params, .indices = all};
  const Guarded<float> y({50, 32, 32, 3});
  batch.into(y);
  const std::vector<double> values = y.values();
  for (const size_t i : {size_t(0), size_t(1), size_t(31), size_t(49)}) {
    const Call alone{.x = x, .ids = {all[i]}, .epoch = 6, .params = params, .indices = {all[i]}};
    const Guarded<float> single(one);
    alone.into(single);
    EXPECT_EQ(single.values(), std::vector<double>(values.begin() + long(i) * 3072,
                                                   values.begin() + long(i + 1) * 3072));
  }
  expect_same_for_any_threads([&] {
    const Guarded<float> again({50, 32, 32, 3});
    batch.into(again);
    return again.values();
  });
  // Another epoch, another seed: other numbers.
  for (const auto& [epoch, seed] : {std::pair(7, 9), std::pair(6, 10)}) {
    const Guarded<float> other({50, 32, 32, 3});
    Call{.x = x,
         .ids = all,
         .epoch = epoch,
         .seed = uint64_t(seed),
         .params = params,
         .indices = all}
        .into(other);
    EXPECT_NE(other.values(), values);
  }
}

TEST(AugmentImages, NoImagesAreNoWork) {
  const Tensor x = images_of({2, 4, 4, 3});
  const Tensor none = Tensor::empty({0}, {.dtype = DType::i64});
  const Tensor y = Tensor::empty({0, 4, 4, 3});
  run(kernels::AugmentImages{.x = x, .indices = none, .ids = none, .epoch = word(1), .y = y});
}

TEST(AugmentImages, PrintsWhatItDraws) {
  const Tensor x = images_of({2, 4, 4, 3});
  const kernels::AugmentImages call{.x = x,
                                    .y = x,
                                    .key = key_of(5),
                                    .augment = {.random_crop = true,
                                                .padding = 4,
                                                .border = Border::reflect,
                                                .flip = Flip::random,
                                                .cutout = 8}};
  EXPECT_EQ(to_string(Kernel(call)),
            "augment_images x=(2, 4, 4, 3) u8 cpu indices=none ids=none epoch=none -> y=(2, 4, 4, "
            "3) u8 cpu seed 5 stream 2 call 0 random crop padding 4 reflect flip random 0.5 cutout "
            "8");
}

// -- resampling, colours and mixing: tests/data/ compare them with Pillow and torchvision --------

// By hand: places 1 and 2 of a weight of 1/4 and 3/4, and a sum that is clipped on either side.
TEST(ResampleImages, SumsWeightsAlongEitherDimension) {
  constexpr int32_t one = 1 << 22;
  const Tensor weights =
      Tensor::from<int32_t>({1, 2, one / 4, 3 * one / 4, 0, 1, one, 0, 1, 2, -one / 2, one,  //
                             0, 2, one, one / 2},
                            {4, 4});
  const Levels x = {0, 100, 201, 255, 10, 20};
  // 175.75, -100, 151, 50; 17.5, 255, 15, 260.
  const Levels columns = {176, 0, 151, 50, 18, 255, 15, 255};
  // (1, 2, 3, 1) along its columns; the two rows are the runs above.
  for (const int dim : {1, 2}) {
    const Tensor in = Tensor::from(x, dim == 2 ? Shape{1, 2, 3, 1} : Shape{2, 3, 1, 1});
    const Tensor y =
        Tensor::empty(dim == 2 ? Shape{1, 2, 4, 1} : Shape{2, 4, 1, 1}, {.dtype = DType::u8});
    run(kernels::ResampleImages{.x = in, .weights = weights, .y = y, .dim = dim});
    EXPECT_EQ(y.to_vector<uint8_t>(), columns) << dim;
  }
}

TEST(ResampleImages, TakesRunsOfAnyLength) {
  constexpr int32_t half = 1 << 21;
  const Tensor weights = Tensor::from<int32_t>({0, 2, half, half}, {1, 4});
  for (const int64_t width : {1, 85, 86, 300}) {
    const Tensor x = images_of({2, 2, width, 3});
    const Tensor y = Tensor::empty({2, 1, width, 3}, {.dtype = DType::u8});
    run(kernels::ResampleImages{.x = x, .weights = weights, .y = y, .dim = 1});
    const Levels from = x.to_vector<uint8_t>(), to = y.to_vector<uint8_t>();
    const size_t run = size_t(width) * 3;
    for (size_t i = 0; i < 2 * run; ++i) {
      const size_t image = i / run, at = image * 2 * run + i % run;
      ASSERT_EQ(to[i], (from[at] + from[at + run] + 1) / 2) << width << " " << i;
    }
  }
}

// Rows shorter than a vector, up to the end of the memory.
TEST(ResampleImages, TakesRowsOfAnyLength) {
  constexpr int32_t half = 1 << 21;
  for (const int64_t channels : {1, 2, 3, 4}) {
    for (const int64_t width : {1, 2, 3, 5}) {
      const Tensor x = images_of({1, 3, width, channels});
      std::vector<int32_t> rows;  // the mean of a pixel and the first one
      for (int64_t i = 0; i < width; ++i) {
        std::vector<int32_t> row(size_t(width + 2), 0);
        row[1] = int32_t(i + 1);
        row[2] = half;
        row[size_t(i) + 2] += half;
        rows.insert(rows.end(), row.begin(), row.end());
      }
      const Tensor y = Tensor::empty(x.shape(), {.dtype = DType::u8});
      run(kernels::ResampleImages{
          .x = x, .weights = Tensor::from(rows, {width, width + 2}), .y = y, .dim = 2});
      const Levels from = x.to_vector<uint8_t>(), to = y.to_vector<uint8_t>();
      for (size_t i = 0; i < to.size(); ++i) {
        const size_t line = size_t(width * channels), first = i / line * line;
        ASSERT_EQ(to[i], (from[i] + from[first + i % size_t(channels)] + 1) / 2)
            << width << " " << channels << " " << i;
      }
    }
  }
}

TEST(JitterColors, ContrastGoesToTheMeanLevel) {
  // Gray levels 10 and 41: the mean 25.5 is rounded up. Half of the way, rounded down.
  const Tensor x = Tensor::from<uint8_t>({10, 10, 10, 41, 41, 41}, {1, 1, 2, 3});
  const Tensor y = Tensor::empty({1, 1, 2, 3}, {.dtype = DType::u8});
  run_custom(kernels::JitterColors{.key = key_of(1), .jitter = {.contrast = {1 << 15, 1 << 15}}},
             {x, Tensor(), Tensor()}, {y});
  EXPECT_EQ(y.to_vector<uint8_t>(), (Levels{18, 18, 18, 33, 33, 33}));
}

// Shares of 1/4 are exact. Image 0 is 1, image 1 is 5; the box takes the partner's pixels.
TEST(MixImages, MixesOutsideOfTheBoxAndReplacesWithin) {
  constexpr int64_t quarter = int64_t(1) << 22;
  const Guarded<float> x({2, 2, 3, 1}, {1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5});
  const Tensor partners = words({1, 0});
  const Tensor mixed = words({quarter, 0, 1, 1, 3, 3 * quarter});
  for (const DType dtype : {DType::i32, DType::i64}) {
    const Tensor labels = dtype == DType::i32 ? Tensor::from<int32_t>({2, 0}, {2}) : words({2, 0});
    const Guarded<float> y({2, 2, 3, 1}), targets({2, 3});
    run_custom(kernels::MixImages{}, {x, labels, partners, mixed}, {y, targets});
    EXPECT_EQ(y.values(), (std::vector<double>{4, 5, 5, 4, 4, 4, 2, 1, 1, 2, 2, 2}));
    EXPECT_EQ(targets.values(), (std::vector<double>{0.25, 0, 0.75, 0.75, 0, 0.25}));
    EXPECT_TRUE(y.guards_intact() && targets.guards_intact());
  }
}

TEST(MixImages, KeepsWhatIsKeptWholeAndMarksWrongLabels) {
  const std::vector<double> values = random_values(4 * 5 * 8 * 3, 3);
  const Guarded<float> x({4, 5, 8, 3}, values), y({4, 5, 8, 3}), targets({4, 2});
  const Tensor labels = Tensor::from<int32_t>({0, 1, 2, 1}, {4}), partners = words({3, 2, 1, 0});
  const Tensor whole = words({int64_t(1) << 24, 0, 0, 0, 0, int64_t(1) << 24});
  run_custom(kernels::MixImages{}, {x, labels, partners, whole}, {y, targets});
  EXPECT_EQ(y.values(), x.values());
  const std::vector<double> rows = targets.values();
  EXPECT_EQ(rows[0], 1);
  EXPECT_TRUE(std::isnan(rows[2]) && std::isnan(rows[3]) && std::isnan(rows[4]));
  EXPECT_EQ(rows[7], 1);
}

TEST(MixImages, MixesByTheShare) {
  const std::vector<double> values = random_values(4 * 5 * 8 * 4, 4);
  const Guarded<float> x({4, 5, 8, 4}, values), y({4, 5, 8, 4}), targets({4, 2});
  const Tensor labels = Tensor::from<int32_t>({0, 1, 0, 1}, {4}), partners = words({3, 2, 1, 0});
  const int64_t kept = 5'000'000;
  const Tensor mixed = words({kept, 0, 0, 0, 0, kept});
  run_custom(kernels::MixImages{}, {x, labels, partners, mixed}, {y, targets});
  std::vector<double> expected;
  const double share = double(kept) / (1 << 24);
  for (size_t i = 0; i < 640; ++i) {
    const size_t other = (3 - i / 160) * 160 + i % 160;
    expected.push_back(share * values[i] + (1 - share) * values[other]);
  }
  expect_close(y.values(), expected, {.absolute = 2e-7}, "mixed");
  EXPECT_EQ(targets.values()[0], share);
}

}  // namespace
}  // namespace adret

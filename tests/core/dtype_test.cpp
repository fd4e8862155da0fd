// The 16-bit floats: rounding and special values.
#include <adret/core/dtype.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace adret {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Bit patterns by hand from the formats' definitions (sign, exponent, fraction).
TEST(Bfloat16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f).bits, 0x3f80);             // halfway, down to even
  EXPECT_EQ(bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);         // halfway, up to even
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f + 0x1p-20f).bits, 0x3f81);  // above halfway
  EXPECT_EQ(bfloat16(-2.0f).bits, 0xc000);
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds to infinity
  EXPECT_TRUE(std::isnan(float(bfloat16(std::nanf("")))));
  EXPECT_EQ(float(bfloat16(-infinity)), -infinity);
}

TEST(Float16, RoundsToNearestTiesToEven) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(1.0f + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(float16(1.0f + 3 * 0x1p-11f).bits, 0x3c02);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(float16(0x1p-14f).bits, 0x0400);
  EXPECT_EQ(float16(0x1p-14f - 0x1p-26f).bits, 0x0400);  // rounds up into the normal range
  EXPECT_EQ(float16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(float(float16(std::nanf("")))));
}

TEST(Float16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 half;
    half.bits = uint16_t(bits);
    if (std::isnan(float(half))) continue;
    ASSERT_EQ(float16(float(half)).bits, bits);
  }
}

TEST(Bfloat16, EveryValueSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bfloat16 brain;
    brain.bits = uint16_t(bits);
    if (std::isnan(float(brain))) continue;
    ASSERT_EQ(bfloat16(float(brain)).bits, bits);
  }
}

}  // namespace
}  // namespace adret

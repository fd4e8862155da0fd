// The ring that uploads to CUDA devices are staged in, with copies that end when a test says so.
#include <adret/core/cuda/ring.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace adret::cuda {
namespace {

// Copies in flight by part, as a stream would have them: done when their mark is waited for.
struct FakeStream {
  explicit FakeStream(size_t parts) : in_flight(parts), marked(parts) {}
  std::vector<std::vector<Ring::Piece>> in_flight, marked;
  int marks = 0, waits = 0;

  Ring::Piece take(Ring& ring, size_t bytes, size_t part_bytes) {
    const Ring::Piece piece = ring.take(
        bytes,
        [this](size_t part) {
          ++marks;
          marked[part] = in_flight[part];
        },
        [this](size_t part) {
          ++waits;
          EXPECT_EQ(in_flight[part].size(), marked[part].size()) << "a copy without a mark";
          in_flight[part].clear();
          marked[part].clear();
        });
    const size_t part = piece.offset / part_bytes;
    EXPECT_EQ((piece.offset + piece.bytes - 1) / part_bytes, part) << "across two parts";
    for (const Ring::Piece& other : in_flight[part]) {
      EXPECT_TRUE(piece.offset >= other.offset + other.bytes ||
                  other.offset >= piece.offset + piece.bytes)
          << "over a copy in flight";
    }
    in_flight[part].push_back(piece);
    return piece;
  }
};

TEST(Ring, MarksAndWaitsOnlyBetweenParts) {
  Ring ring(1024, 4);
  FakeStream stream(4);
  for (int i = 0; i < 16; ++i) stream.take(ring, 60, 1024);  // each takes 64 of 1024
  EXPECT_EQ(stream.marks, 0);
  EXPECT_EQ(stream.take(ring, 4, 1024).offset, 1024u);
  EXPECT_EQ(stream.marks, 1);
  EXPECT_EQ(stream.waits, 1);
}

TEST(Ring, NeverHandsOutWhatIsStillCopiedFrom) {
  Ring ring(1024, 3);
  FakeStream stream(3);
  for (size_t i = 0; i < 1000; ++i) stream.take(ring, i * 37 % 1500 + 1, 1024);
}

TEST(Ring, CutsLargeCopiesIntoPieces) {
  Ring ring(1024, 4);
  FakeStream stream(4);
  size_t done = 0;
  int pieces = 0;
  while (done < 10'000) {
    done += stream.take(ring, 10'000 - done, 1024).bytes;
    ++pieces;
  }
  EXPECT_EQ(done, 10'000u);
  EXPECT_EQ(pieces, 10);
}

TEST(Ring, TakesAWholePart) {
  Ring ring(1024, 2);
  FakeStream stream(2);
  EXPECT_EQ(stream.take(ring, 1000, 1024).offset, 0u);
  EXPECT_EQ(stream.take(ring, 1, 1024).offset, 1024u);  // 24 bytes are below the alignment
  EXPECT_EQ(stream.take(ring, 1024, 1024).offset, 0u);
  EXPECT_EQ(ring.bytes(), 2048u);
}

TEST(Ring, StaysAsItWasWhenAMarkOrAWaitFails) {
  Ring ring(1024, 2);
  FakeStream stream(2);
  stream.take(ring, 1024, 1024);
  const auto fails = [](size_t) { throw std::runtime_error("the device is lost"); };
  const auto works = [](size_t) {};
  EXPECT_THROW(ring.take(8, fails, works), std::runtime_error);
  EXPECT_THROW(ring.take(8, works, fails), std::runtime_error);
  EXPECT_EQ(stream.take(ring, 8, 1024).offset, 1024u);
}

}  // namespace
}  // namespace adret::cuda

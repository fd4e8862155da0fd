// The progress bar on a terminal and elsewhere, with a clock of the test's own.
#include <adret/core/error.h>
#include <adret/train/logger.h>
#include <adret/train/progress.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <sstream>

#include "tests/support/expect_error.h"

namespace adret {
namespace {

using namespace test;
using testing::HasSubstr;

class ProgressTest : public testing::Test {
 protected:
  ProgressOptions options(int width) {
    return {.width = [width] { return width; }, .clock = [this] { return now_; }};
  }
  // What was written since the last call.
  std::string written() {
    std::string text = out_.str();
    out_.str("");
    return text;
  }
  double now_ = 100;
  std::ostringstream out_;
};

TEST_F(ProgressTest, ATerminalLineIsRedrawnInPlaceWithRateAndTimeLeft) {
  ProgressBar bar(out_, options(60));
  bar.start("epoch 1/5", 1000);
  EXPECT_EQ(written(), "");
  now_ += 2;
  bar.update(250, "loss 0.5");
  // Label, gaps and figures take 47 of 59 columns, so the bar has 12, a quarter of them full; 250
  // in 2 s are 125/s, so 6 s remain.
  EXPECT_EQ(written(), "\r\x1b[Kepoch 1/5  [===>        ]   25%  125/s  0:06 left  loss 0.5");
  bar.update(260, "loss 0.4");
  EXPECT_EQ(written(), "") << "drawn again too soon";
  now_ += 6;
  bar.update(1000, "loss 0.1");
  EXPECT_THAT(written(), HasSubstr("[============]  100%  125/s  0:00 left"));
  now_ += 5;  // an evaluation, say, is not counted
  bar.finish("loss 0.1");
  EXPECT_EQ(written(), "\r\x1b[Kepoch 1/5  1000 in 0:08, 125/s  loss 0.1\n");
}

TEST_F(ProgressTest, ANarrowTerminalGetsNoBarAndNoSecondLine) {
  ProgressBar bar(out_, options(24));
  bar.start("epoch 1/5", 1000);
  now_ += 2;
  bar.update(250, "loss 0.5");
  EXPECT_EQ(written(), "\r\x1b[Kepoch 1/5   25%  125/s ");
}

TEST_F(ProgressTest, WithoutATerminalThereAreWholeLinesNowAndThen) {
  for (const bool asked : {true, false}) {
    ProgressOptions plain = options(0);
    if (!asked) plain.width = nullptr;
    ProgressBar bar(out_, plain);
    bar.start("epoch 2/5", 1000);
    for (int i = 0; i < 25; ++i) {
      now_ += 1;
      bar.update(10 * i);
    }
    EXPECT_EQ(written(), "epoch 2/5    9%  9/s  1:41 left\nepoch 2/5   19%  9.5/s  1:25 left\n");
    bar.finish("done");
    EXPECT_EQ(written(), "epoch 2/5  240 in 0:25, 9.6/s  done\n");
  }
}

TEST_F(ProgressTest, AnInterruptedLineIsEnded) {
  {
    ProgressBar bar(out_, options(80));
    bar.start("epoch 1/5", 10);
    now_ += 4000;
    bar.update(1);
    EXPECT_THAT(written(), HasSubstr("0.00025/s  10:00:00 left"));
  }
  EXPECT_EQ(written(), "\n");
  { ProgressBar untouched(out_, options(80)); }
  EXPECT_EQ(written(), "");
}

TEST_F(ProgressTest, AFileIsNoTerminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(terminal_width(ends[1]), 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(JsonLogger, WritesOneObjectALine) {
  std::ostringstream out;
  JsonLogger logger(out);
  logger.log({.epoch = 1,
              .train_loss = 0.5,
              .train_accuracy = 0.25,
              .test_loss = 0.125,
              .test_accuracy = 1,
              .images_per_s = 1000,
              .seconds = 2.5,
              .waiting = 0.0625,
              .skipped_steps = 3});
  logger.log({.epoch = 2, .train_loss = NAN});
  EXPECT_EQ(
      out.str(),
      R"({"epoch":1,"train_loss":0.5,"train_accuracy":0.25,"test_loss":0.125,"test_accuracy":1.0,"images_per_s":1000.0,"seconds":2.5,"waiting":0.0625,"skipped_steps":3})"
      "\n"
      R"({"epoch":2,"train_loss":null,"train_accuracy":null,"test_loss":null,"test_accuracy":null,"images_per_s":0.0,"seconds":0.0,"waiting":0.0,"skipped_steps":null})"
      "\n");
}

TEST(JsonLogger, AStreamThatFailsIsTold) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_THAT(thrown<Error>([&] { JsonLogger(out).log({}); }), HasSubstr("cannot be written"));
}

}  // namespace
}  // namespace adret

#include "worker/agent/attempt_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::BytesOfFile;

class AttemptLogTest : public ::testing::Test {
 protected:
  std::string Logged() const { return BytesOfFile(path_); }

  testing::TempDir dir_;
  const std::string path_ = dir_.Path("logs/abcd/2.log");
  SimulatedClock clock_;
};

TEST_F(AttemptLogTest, LinesHaveTheirTimeAndAreThereAtOnce) {
  AttemptLog log(path_, "attempt 2 of train job 7", &clock_);
  log.Write("step 0: loss 3");
  EXPECT_EQ(Logged(),
            "2027-01-15T08:00:01.000Z attempt 2 of train job 7\n"
            "2027-01-15T08:00:01.000Z step 0: loss 3\n");
  clock_.Advance(1'500'000);
  log.Write("two\nlines");
  log.End(absl::OkStatus(), 2'500'000);
  EXPECT_EQ(Logged().substr(Logged().find("two") - 25),
            "2027-01-15T08:00:02.500Z two lines\n"
            "2027-01-15T08:00:02.500Z done after 2.5 s\n");
}

TEST_F(AttemptLogTest, WhatSaysNothingLeavesNoFile) {
  {
    AttemptLog log(path_, "attempt 1", &clock_);
    log.Progress(1, 1, 1);
    log.End(absl::InternalError("broken"), 1);
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.Path("logs")));
  AttemptLog nowhere("", "attempt 1", &clock_);
  nowhere.Write("a line");
  nowhere.End(absl::OkStatus(), 1);
}

TEST_F(AttemptLogTest, ProgressIsToldEveryTenSeconds) {
  AttemptLog log(path_, "attempt 1", &clock_);
  log.Progress(5, 105, 200);
  EXPECT_EQ(Logged(), "");
  clock_.Advance(10'000'000);
  log.Progress(20, 120, 200);
  clock_.Advance(9'000'000);
  log.Progress(22, 122, 200);
  clock_.Advance(1'000'000);
  log.Progress(25, 125, 200);
  EXPECT_EQ(Logged(),
            "2027-01-15T08:00:11.000Z attempt 1\n"
            "2027-01-15T08:00:11.000Z 120 of 200 steps, 2 a second\n"
            "2027-01-15T08:00:21.000Z 125 of 200 steps, 0.5 a second\n");
}

TEST_F(AttemptLogTest, ALaterProcessGoesOnWithTheSameFile) {
  { AttemptLog(path_, "attempt 1", &clock_).Write("first"); }
  AttemptLog log(path_, "attempt 1", &clock_);
  log.Write("second");
  log.End(absl::CancelledError("stopped after step 3"), 100'000);
  EXPECT_EQ(Logged(),
            "2027-01-15T08:00:01.000Z attempt 1\n"
            "2027-01-15T08:00:01.000Z first\n"
            "2027-01-15T08:00:01.000Z attempt 1\n"
            "2027-01-15T08:00:01.000Z second\n"
            "2027-01-15T08:00:01.000Z ended after 0.1 s: stopped after step "
            "3\n");
}

TEST_F(AttemptLogTest, ADiskThatRefusesCostsOnlyTheLog) {
  testing::WriteBytes(dir_.Path("logs"), "a file, not a folder");
  AttemptLog log(path_, "attempt 1", &clock_);
  log.Write("lost");
  log.Write("lost too");
  log.End(absl::OkStatus(), 1);
  EXPECT_EQ(BytesOfFile(dir_.Path("logs")), "a file, not a folder");
}

}  // namespace
}  // namespace iclsweep

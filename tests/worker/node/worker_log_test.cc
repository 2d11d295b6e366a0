#include "worker/node/worker_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WorkerLogTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) {
    std::ofstream(dir_.Path("worker.log"), std::ios::app) << text;
  }
  std::string Directory() { return dir_.Path("."); }

  testing::TempDir dir_;
};

TEST_F(WorkerLogTest, LinesComeOnceAndWhole) {
  WorkerLog log(Directory());
  EXPECT_THAT(log.NewLines(false), IsEmpty());
  Append("one\n\nha");
  EXPECT_THAT(log.NewLines(false), ElementsAre("one", ""));
  EXPECT_THAT(log.NewLines(false), IsEmpty());
  Append("lf\n");
  EXPECT_THAT(log.NewLines(false), ElementsAre("half"));
}

TEST_F(WorkerLogTest, HalfALineOfADeadWorkerIsItsLast) {
  WorkerLog log(Directory());
  Append("killed in the mid");
  EXPECT_THAT(log.NewLines(true), ElementsAre("killed in the mid"));
  EXPECT_THAT(log.NewLines(true), IsEmpty());
  Append("its successor\n");
  EXPECT_THAT(log.NewLines(false), ElementsAre("its successor"));
}

TEST_F(WorkerLogTest, WhatWasThereBeforeIsOnlyInTheTail) {
  Append("last week\n");
  WorkerLog log(Directory());
  Append("today\n");
  EXPECT_THAT(log.NewLines(false), ElementsAre("today"));
  EXPECT_EQ(log.Tail(1000), "last week\ntoday\n");
  EXPECT_EQ(log.Tail(3), "ay\n");
  EXPECT_EQ(WorkerLog(dir_.Path("none")).Tail(10), "");
}

}  // namespace
}  // namespace iclsweep

// The sweeps that come with the project are valid and as large as their
// comments say. Tests run in tests/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "coordinator/spec/plan.h"
#include "coordinator/spec/sweep_spec.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

struct Expected {
  const char* name;
  uint64_t cells;
  uint64_t train;
  uint64_t evaluate;
  uint64_t compare;
  uint64_t theory;
};

class SweepFilesTest : public ::testing::TestWithParam<Expected> {};

TEST_P(SweepFilesTest, HasTheJobsItsCommentsPromise) {
  const std::string path =
      std::string("../deploy/sweeps/") + GetParam().name + ".yaml";
  std::ifstream file(path);
  ASSERT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_OK_AND_ASSIGN(const SweepSpec spec, ParseSweep(text.str(), path));
  EXPECT_EQ(spec.name, GetParam().name);
  EXPECT_THAT(spec.warnings, ::testing::IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto plans, PlanStages(spec));
  std::map<Stage, uint64_t> jobs;
  for (const StagePlan& plan : plans) {
    jobs[plan.stage] = plan.jobs;
    EXPECT_EQ(plan.cells, GetParam().cells);
  }
  EXPECT_EQ(jobs[Stage::kTrain], GetParam().train);
  EXPECT_EQ(jobs[Stage::kEvaluate], GetParam().evaluate);
  EXPECT_EQ(jobs[Stage::kCompare], GetParam().compare);
  EXPECT_EQ(jobs[Stage::kTheory], GetParam().theory);
}

INSTANTIATE_TEST_SUITE_P(
    Deployed, SweepFilesTest,
    ::testing::Values(Expected{"quickstart", 108, 2, 108, 108, 54},
                      Expected{"smoke", 16, 2, 16, 16, 8},
                      Expected{"calibration", 12, 6, 12, 12, 2},
                      Expected{"families", 48, 6, 48, 48, 0},
                      Expected{"paper", 15840, 2, 15840, 15840, 7920}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace iclsweep

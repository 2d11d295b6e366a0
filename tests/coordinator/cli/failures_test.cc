#include "coordinator/cli/failures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cli/captured.h"

namespace iclsweep {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::SweepStatus StatusWith(uint64_t failed, uint64_t upstream_failed,
                           const std::vector<std::string>& first) {
  v1::SweepStatus status;
  status.set_name("s");
  v1::StageProgress* train = status.add_stages();
  train->set_stage("train");
  train->set_total(100);
  train->set_failed(failed);
  v1::StageProgress* evaluate = status.add_stages();
  evaluate->set_stage("evaluate");
  evaluate->set_total(100);
  evaluate->set_upstream_failed(upstream_failed);
  for (const std::string& failure : first) status.add_first_failures(failure);
  return status;
}

std::vector<std::string> Printed(const v1::SweepStatus& status) {
  testing::Captured out;
  PrintFailures(status, "data", out.file());
  return out.Lines();
}

TEST(FailuresTest, SummaryCountsWhatFailedAndWhatWaitedForIt) {
  EXPECT_EQ(FailureSummary(StatusWith(0, 0, {})), "");
  EXPECT_EQ(FailureSummary(StatusWith(1, 0, {})), "1 job failed");
  EXPECT_EQ(FailureSummary(StatusWith(1, 54, {})),
            "1 job failed, 54 could not run because of it");
  EXPECT_EQ(FailureSummary(StatusWith(2, 3, {})),
            "2 jobs failed, 3 could not run because of them");
}

TEST(FailuresTest, NoneIsNothing) {
  EXPECT_THAT(Printed(StatusWith(0, 0, {})), IsEmpty());
}

TEST(FailuresTest, FirstOnesThenHowManyMoreThenWhereToLook) {
  EXPECT_THAT(
      Printed(StatusWith(
          5, 0,
          {"cell 0, train: a", "cell 1, train: b\nc", "cell 2, train: d"})),
      ElementsAre("failed: cell 0, train: a", "failed: cell 1, train: b c",
                  "failed: cell 2, train: d", "and 2 more",
                  AllOf(HasSubstr("iclsweep: 5 jobs failed: iclsweep query"),
                        HasSubstr("FROM failures WHERE sweep = 's'"),
                        HasSubstr("--data data"))));
}

TEST(FailuresTest, JobThatCellsShareIsListedOnce) {
  EXPECT_THAT(
      Printed(StatusWith(
          1, 3, {"cell 0, train: a", "cell 1, train: a", "cell 2, train: a"})),
      ElementsAre("failed: cell 0, train: a",
                  HasSubstr("1 job failed, 3 could not run")));
  EXPECT_THAT(
      Printed(StatusWith(
          2, 0, {"cell 0, train: a", "cell 1, train: a", "cell 2, train: a"})),
      ElementsAre("failed: cell 0, train: a", "and 1 more",
                  HasSubstr("2 jobs failed")));
}

}  // namespace
}  // namespace iclsweep

#include "coordinator/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/cli/captured.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

struct StageCounts {
  const char* stage;
  uint64_t total;
  uint64_t done;
  uint64_t failed = 0;
  uint64_t upstream_failed = 0;
  uint64_t leased = 0;
};

v1::SweepStatus StatusOfStages(const std::vector<StageCounts>& stages,
                               uint64_t steps_done = 0,
                               uint64_t steps_total = 0) {
  v1::SweepStatus status;
  for (const StageCounts& counts : stages) {
    v1::StageProgress* stage = status.add_stages();
    stage->set_stage(counts.stage);
    stage->set_total(counts.total);
    stage->set_done(counts.done);
    stage->set_failed(counts.failed);
    stage->set_upstream_failed(counts.upstream_failed);
    stage->set_leased(counts.leased);
  }
  status.set_running_steps_done(steps_done);
  status.set_running_steps_total(steps_total);
  return status;
}

// ---- EstimateSeconds

TEST(EstimateTest, OpenJobsTakeTheMeanTimeOfTheirStageSharedByTheWorkers) {
  const std::map<std::string, double> durations = {{"train", 10e6},
                                                   {"evaluate", 2e6}};
  const struct {
    const char* name;
    v1::SweepStatus status;
    uint32_t workers;
    double seconds;
  } cases[] = {
      {"nothing", StatusOfStages({}), 1, 0},
      {"all done", StatusOfStages({{"train", 3, 3}}), 1, 0},
      {"one stage", StatusOfStages({{"evaluate", 10, 4}}), 1, 12},
      {"two workers", StatusOfStages({{"evaluate", 10, 4}}), 2, 6},
      {"two stages", StatusOfStages({{"train", 3, 1}, {"evaluate", 10, 5}}), 2,
       15},
      {"no more workers than jobs",
       StatusOfStages({{"train", 2, 1}, {"evaluate", 8, 6}}), 4, 12},
      {"failed ones are over", StatusOfStages({{"evaluate", 10, 4, 2, 3}}), 1,
       2},
      {"no worker counts as one", StatusOfStages({{"evaluate", 2, 1}}), 0, 2},
      {"steps of running jobs",
       StatusOfStages({{"train", 2, 1, 0, 0, 1}}, 30, 100), 1, 7},
      {"steps are of trainings only",
       StatusOfStages({{"train", 2, 2}, {"evaluate", 2, 1, 0, 0, 1}}, 30, 100),
       1, 2},
      {"steps at their end",
       StatusOfStages({{"train", 2, 1, 0, 0, 1}}, 100, 100), 1, 0},
      {"unknown, but nothing open", StatusOfStages({{"compare", 2, 2}}), 1, 0},
      {"unknown stage", StatusOfStages({{"compare", 2, 1}}), 1, -1},
      {"unknown beside known",
       StatusOfStages({{"evaluate", 2, 1}, {"compare", 1, 0}}), 1, -1},
  };
  for (const auto& c : cases) {
    v1::SweepStatus status = c.status;
    for (v1::StageProgress& stage : *status.mutable_stages()) {
      const auto known = durations.find(stage.stage());
      if (known != durations.end()) stage.set_mean_job_us(known->second);
    }
    EXPECT_DOUBLE_EQ(EstimateSeconds(status, c.workers), c.seconds) << c.name;
  }
}

// ---- ProgressLine

TEST(ProgressLineTest, SaysHowFarEveryStageIs) {
  EXPECT_EQ(ProgressLine(StatusOfStages({{"train", 2, 1}, {"evaluate", 8, 2}}),
                         {}, -1),
            "train 1/2  evaluate 2/8 | 30% of jobs");
}

TEST(ProgressLineTest, PartsAppearWhenTheyAreKnown) {
  v1::SweepStatus status = StatusOfStages({{"train", 4, 1, 1, 1, 1}}, 50, 200);
  status.set_expanding(true);
  EXPECT_EQ(ProgressLine(status, {{"train", 3.14159}}, 80),
            "train 1/4 (3.1/s) (expanding) | 2 failed | 75% of jobs | step "
            "50/200 | ETA 1m20s");
  EXPECT_EQ(ProgressLine(StatusOfStages({}), {}, -1), "");
}

TEST(ProgressLineTest, PercentageIsNeverRoundedUpToTheEnd) {
  EXPECT_THAT(ProgressLine(StatusOfStages({{"train", 1000, 999}}), {}, -1),
              HasSubstr("| 99% of jobs"));
}

TEST(ProgressLineTest, TimeLeftIsShort) {
  const struct {
    double seconds;
    const char* text;
  } cases[] = {{0, "0s"},
               {0.2, "1s"},
               {59, "59s"},
               {59.1, "1m00s"},
               {3599, "59m59s"},
               {3600, "1h00m"},
               {3600 * 47.5, "47h30m"},
               {3600 * 48, "2d00h"},
               {86400 * 3.5, "3d12h"}};
  for (const auto& c : cases) {
    EXPECT_THAT(ProgressLine(StatusOfStages({{"train", 2, 1}}), {}, c.seconds),
                EndsWith(std::string("| ETA ") + c.text));
  }
}

TEST(ProgressLineTest, FinishedSweepHasNoTimeLeft) {
  v1::SweepStatus status = StatusOfStages({{"train", 2, 2}});
  status.set_finished(true);
  EXPECT_THAT(ProgressLine(status, {}, 0), Not(HasSubstr("ETA")));
}

TEST(ProgressLineTest, StepsAreShownOnlyWhileSomethingTrains) {
  EXPECT_THAT(
      ProgressLine(StatusOfStages({{"train", 2, 1, 0, 0, 1}}, 50, 200), {}, -1),
      HasSubstr("| step 50/200"));
  // Told last by a training that is over.
  EXPECT_THAT(
      ProgressLine(StatusOfStages(
                       {{"train", 2, 2}, {"evaluate", 8, 1, 0, 0, 1}}, 50, 200),
                   {}, -1),
      Not(HasSubstr("step")));
}

// ---- RecentRate

TEST(RecentRateTest, IsThatOfTheLastHalfMinute) {
  RecentRate rate;
  const auto at = [&](int64_t seconds, uint64_t done) {
    return rate.Add(seconds * 1'000'000, done);
  };
  EXPECT_EQ(at(100, 5), 0);
  EXPECT_EQ(at(101, 9), 0) << "too short to tell";
  EXPECT_DOUBLE_EQ(at(110, 25), 2);
  EXPECT_DOUBLE_EQ(at(120, 45), 2);
  EXPECT_DOUBLE_EQ(at(140, 55), 1) << "since second 110";
  EXPECT_EQ(at(970, 55), 0) << "a long training";
  EXPECT_EQ(at(1000, 55), 0);
  EXPECT_DOUBLE_EQ(at(1010, 155), 2.5) << "since second 970, not 100";
}

TEST(RecentRateTest, LooksFartherBackWhenAskedRarely) {
  RecentRate rate;
  EXPECT_EQ(rate.Add(0, 0), 0);
  EXPECT_DOUBLE_EQ(rate.Add(100'000'000, 50), 0.5);
  EXPECT_DOUBLE_EQ(rate.Add(200'000'000, 150), 1);
}

// ---- ProgressPrinter

TEST(ProgressPrinterTest, PlainLinesComeOnChangeButNotTooOften) {
  testing::Captured out;
  ProgressPrinter printer(out.file(), /*terminal=*/false);
  const auto show = [&](uint64_t done, int64_t seconds, bool finished = false) {
    v1::SweepStatus status = StatusOfStages({{"train", 10, done}});
    status.set_finished(finished);
    // An unknown duration keeps the line free of times.
    printer.Show(status, 1, seconds * 1'000'000);
  };
  show(0, 0);                       // the first
  show(0, 1);                       // the same
  show(1, 2);                       // changed, but too soon
  show(1, 9);                       // still
  show(2, 10);                      // ten seconds after the first
  show(2, 60);                      // only the rate has changed
  show(10, 61, /*finished=*/true);  // the end, whenever it comes
  printer.Finish();
  const std::vector<std::string> lines = out.Lines();
  EXPECT_THAT(lines, ElementsAre("train 0/10 | 0% of jobs",
                                 HasSubstr("train 2/10 (0.2/s) | 20% of jobs"),
                                 HasSubstr("train 2/10"),
                                 HasSubstr("train 10/10 | 100% of jobs")));
}

TEST(ProgressPrinterTest, TerminalLineIsRedrawnInPlace) {
  testing::Captured out;
  ProgressPrinter printer(out.file(), /*terminal=*/true);
  printer.Show(StatusOfStages({{"train", 2, 0}}), 1, 0);
  printer.Show(StatusOfStages({{"train", 2, 1}}), 1, 100'000);
  printer.Finish();
  EXPECT_EQ(out.Text(),
            "\r\033[Ktrain 0/2 | 0% of jobs\r\033[Ktrain 1/2 | 50% of jobs\n");
}

TEST(ProgressPrinterTest, NotesStandAboveTheLineBeingRedrawn) {
  testing::Captured out;
  ProgressPrinter printer(out.file(), /*terminal=*/true);
  printer.Show(StatusOfStages({{"train", 2, 0}}), 1, 0);
  printer.Note("news");
  EXPECT_EQ(out.Text(),
            "\r\033[Ktrain 0/2 | 0% of jobs\r\033[Knews\ntrain 0/2 | 0% of "
            "jobs");
}

TEST(ProgressPrinterTest, EveryStageHasItsOwnRate) {
  testing::Captured out;
  ProgressPrinter printer(out.file(), /*terminal=*/false);
  printer.Show(StatusOfStages({{"train", 9, 0}, {"theory", 900, 0}}), 1, 0);
  printer.Show(StatusOfStages({{"train", 9, 5}, {"theory", 900, 200}}), 1,
               10'000'000);
  EXPECT_EQ(out.Lines()[1],
            "train 5/9 (0.5/s)  theory 200/900 (20/s) | 22% of jobs");
}

}  // namespace
}  // namespace iclsweep

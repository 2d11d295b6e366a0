#include "coordinator/cli/sweep_json.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"

namespace iclsweep {
namespace {

using nlohmann::json;

v1::SweepStatus SomeStatus() {
  v1::SweepStatus status;
  status.set_name("s");
  status.set_cells(1'000'000'000'000);
  status.set_finished(true);
  status.set_submitted_us(1'700'000'000'000'000);
  for (const char* name : {"train", "evaluate"}) {
    v1::StageProgress* stage = status.add_stages();
    stage->set_stage(name);
    stage->set_total(21);
    stage->set_done(1);
    stage->set_failed(2);
    stage->set_leased(3);
    stage->set_ready(4);
    stage->set_blocked(5);
    stage->set_upstream_failed(6);
  }
  status.add_first_failures("cell 0, train: \"\xff\"");
  return status;
}

TEST(SweepJsonTest, CountsAreNumbersWithTheNamesOfTheViews) {
  const json sweep = json::parse(SweepJson(SomeStatus()));
  EXPECT_EQ(sweep["sweep"], "s");
  EXPECT_EQ(sweep["cells"], 1'000'000'000'000);
  EXPECT_EQ(sweep["submitted_us"], 1'700'000'000'000'000);
  EXPECT_EQ(sweep["finished"], true);
  EXPECT_EQ(sweep["expanding"], false);
  const json one = {{"jobs", 21},          {"done", 1},  {"failed", 2},
                    {"leased", 3},         {"ready", 4}, {"blocked", 5},
                    {"upstream_failed", 6}};
  for (const auto& [name, count] : one.items()) {
    EXPECT_EQ(sweep["stages"][0][name], count) << name;
    EXPECT_EQ(sweep[name], 2 * count.get<int>()) << name;
  }
  EXPECT_EQ(sweep["stages"][1]["stage"], "evaluate");
  EXPECT_EQ(sweep["first_failures"].size(), 1U);
}

TEST(SweepJsonTest, SweepWithoutJobsHasEmptyLists) {
  const json sweep = json::parse(SweepJson(v1::SweepStatus()));
  EXPECT_EQ(sweep["stages"], json::array());
  EXPECT_EQ(sweep["first_failures"], json::array());
  EXPECT_EQ(sweep["jobs"], 0);
}

TEST(StatusJsonTest, WorkersAreToldByACoordinatorOnly) {
  v1::StatusResponse response;
  *response.add_sweeps() = SomeStatus();
  response.set_workers(2);
  response.set_epoch(3);
  const json live = json::parse(StatusJson(response, true));
  EXPECT_EQ(live["workers"], 2);
  EXPECT_EQ(live["epoch"], 3);
  EXPECT_EQ(live["sweeps"][0], json::parse(SweepJson(SomeStatus())));
  const json stored = json::parse(StatusJson(response, false));
  EXPECT_FALSE(stored.contains("workers"));
  EXPECT_FALSE(stored.contains("epoch"));
}

TEST(SubmittedJsonTest, SpeaksOfCellsAndJobsAsStatusDoes) {
  v1::SubmitResponse response;
  response.set_name("s");
  response.set_resumed(true);
  response.set_cells(16);
  response.set_jobs(42);
  response.set_jobs_done(8);
  EXPECT_EQ(json::parse(SubmittedJson(response)), json({{"sweep", "s"},
                                                        {"resumed", true},
                                                        {"cells", 16},
                                                        {"jobs", 42},
                                                        {"done", 8}}));
}

TEST(CancelledJsonTest, SaysWhatWasStoppedAndWhatIsLeft) {
  v1::CancelResponse response;
  response.set_jobs_stopped(2);
  response.set_jobs_open(7);
  EXPECT_EQ(json::parse(CancelledJson("s", response)),
            json({{"sweep", "s"},
                  {"already_cancelled", false},
                  {"jobs_stopped", 2},
                  {"jobs_open", 7}}));
}

TEST(RetriedJsonTest, SaysHowManyJobsRunAgain) {
  v1::RetryResponse response;
  response.set_jobs(3);
  EXPECT_EQ(json::parse(RetriedJson("s", response)),
            json({{"sweep", "s"}, {"jobs", 3}, {"cancelled", false}}));
}

}  // namespace
}  // namespace iclsweep

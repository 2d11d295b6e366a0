#include "coordinator/cli/attempt_logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "storage/sqlite/sqlite_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::StatusIs;

class AttemptLogsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(dir_.Path("iclsweep.db")));
    testing::InTransaction(store_.get(), [this] {
      worker_ = testing::AddWorker(store_.get(), "slot");
      job_ = testing::AddJob(store_.get(), testing::JobOf(7, Stage::kTrain));
    });
    ASSERT_OK_AND_ASSIGN(database_, OpenForReading(dir_.Path("iclsweep.db")));
    std::filesystem::create_directories(
        std::filesystem::path(File(1)).parent_path());
  }
  std::string File(uint32_t attempt) const {
    return AttemptLogFile(dir_.Path("logs"), testing::KeyOf(7), attempt);
  }
  void Append(uint32_t attempt, const std::string& bytes) const {
    std::ofstream(File(attempt), std::ios::app | std::ios::binary) << bytes;
  }
  void Start(uint32_t attempt) {
    testing::InTransaction(store_.get(), [&] {
      EXPECT_OK(
          store_->StartAttempt({{job_, attempt}, worker_, testing::kRowTime}));
    });
  }
  void End(uint32_t attempt, AttemptOutcome outcome, JobState then) {
    testing::InTransaction(store_.get(), [&] {
      AttemptEnd end;
      end.lease = {job_, attempt};
      end.outcome = outcome;
      if (outcome == AttemptOutcome::kFailed) {
        end.cause = Cause::kCrashed;
        end.message = "killed by signal 9";
        end.log_tail = "one\ntwo\n";
        end.steps_run = 3;
      }
      EXPECT_OK(store_->EndAttempt(end));
      EXPECT_OK(store_->SetJobState(job_, then));
    });
  }
  AttemptLogs Open(std::optional<uint32_t> only = std::nullopt) {
    absl::StatusOr<AttemptLogs> logs =
        AttemptLogs::Open(dir_.path(), database_.get(), job_, only);
    EXPECT_OK(logs.status());
    return *std::move(logs);
  }
  // What Poll passes on; the last element tells whether it is over.
  static std::vector<std::string> Poll(AttemptLogs* logs) {
    std::vector<std::string> texts;
    const absl::StatusOr<bool> over = logs->Poll(
        [&](const LogNews& news) { texts.push_back(LogNewsText(news)); });
    EXPECT_OK(over.status());
    texts.emplace_back(over.ok() && *over ? "over" : "goes on");
    return texts;
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Database> database_;
  WorkerId worker_;
  JobId job_;
};

TEST_F(AttemptLogsTest, FollowsAJobFromAttemptToAttempt) {
  AttemptLogs logs = Open();
  EXPECT_THAT(Poll(&logs), ElementsAre("goes on"));
  Start(1);
  Append(1, "T heading\nT step 0\nT ste");
  EXPECT_THAT(Poll(&logs), ElementsAre("T heading", "T step 0", "goes on"));
  EXPECT_THAT(Poll(&logs), ElementsAre("goes on"));
  Append(1, "p 1\nT cut o");
  End(1, AttemptOutcome::kFailed, JobState::kReady);
  EXPECT_THAT(Poll(&logs),
              ElementsAre("T step 1", "T cut o",
                          "attempt 1: failed (crashed): killed by signal 9; "
                          "steps run: 3; its worker said last:\n  one\n  two",
                          "goes on"));
  Start(2);
  Append(2, "T again\n");
  EXPECT_THAT(Poll(&logs), ElementsAre("T again", "goes on"));
  End(2, AttemptOutcome::kDone, JobState::kDone);
  EXPECT_THAT(Poll(&logs), ElementsAre("attempt 2: done", "over"));
  EXPECT_EQ(logs.state(), "done");
  EXPECT_THAT(Poll(&logs), ElementsAre("over"));
}

TEST_F(AttemptLogsTest, OneAttemptIsOverWhenItEnds) {
  Start(1);
  End(1, AttemptOutcome::kReleased, JobState::kReady);
  Start(2);
  Append(2, "T second\n");
  AttemptLogs first = Open(1);
  EXPECT_THAT(Poll(&first),
              ElementsAre("attempt 1 on host-a/slot: released; it kept no log",
                          "over"));
  AttemptLogs second = Open(2);
  EXPECT_THAT(Poll(&second), ElementsAre("T second", "goes on"));
}

TEST_F(AttemptLogsTest, WhatIsNotThereIsNamed) {
  EXPECT_THAT(
      AttemptLogs::Open(dir_.path(), database_.get(), JobId{99}, {}).status(),
      StatusIs(absl::StatusCode::kNotFound, "there is no job 99"));
  EXPECT_THAT(
      AttemptLogs::Open(dir_.path(), database_.get(), job_, 3).status(),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no attempt 3")));
}

TEST_F(AttemptLogsTest, JsonHasLinesAndEnds) {
  LogNews line;
  line.attempt = 2;
  line.line = "2026-01-01T00:00:00.000Z step 1: loss 2";
  EXPECT_EQ(LogNewsJson(JobId{7}, line),
            R"({"at":"2026-01-01T00:00:00.000Z","attempt":2,"job_id":7,)"
            R"("kind":"line","text":"step 1: loss 2"})");
  LogNews end;
  end.attempt = 2;
  end.ended = true;
  end.outcome = "done";
  end.worker = "host/cpu-0";
  EXPECT_EQ(LogNewsJson(JobId{7}, end),
            R"({"attempt":2,"cause":"","job_id":7,"kind":"end",)"
            R"("log_tail":"","message":"","outcome":"done","steps_run":0,)"
            R"("worker":"host/cpu-0"})");
}

}  // namespace
}  // namespace iclsweep

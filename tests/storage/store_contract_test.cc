// What every store keeps of its interface's contract (storage/store.h): the
// SQLite store and the one in memory, test by test. What only SQL shows is in
// store_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "storage/memory/memory_store.h"
#include "storage/sqlite/sqlite_store.h"
#include "storage/store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using ::testing::_;
using testing::AddJob;
using testing::AddSweep;
using testing::AddWorker;
using testing::DoneCompletion;
using ::testing::ElementsAre;
using testing::InTransaction;
using ::testing::IsEmpty;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;
using ::testing::SizeIs;
using testing::StatusIs;

struct Kind {
  const char* name;
  absl::StatusOr<std::unique_ptr<Store>> (*open)(const std::string& file);
};

class StoreContractTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, GetParam().open(dir_.Path("iclsweep.db")));
  }
  void Write(const std::function<void()>& write) {
    InTransaction(store_.get(), write);
  }
  // A job with attempt 1 running on some worker.
  LeaseRef LeasedJob(uint8_t n, Stage stage = Stage::kTrain,
                     std::vector<JobId> depends_on = {}) {
    return testing::AddLeasedJob(store_.get(), n, stage, std::move(depends_on));
  }
  void EndAttempt(LeaseRef lease, AttemptOutcome outcome, Cause cause,
                  bool checkpointed = false) {
    AttemptEnd end;
    end.lease = lease;
    end.outcome = outcome;
    end.cause = cause;
    end.checkpointed = checkpointed;
    end.ended_us = kRowTime + 1;
    EXPECT_OK(store_->EndAttempt(end));
  }
  std::vector<JobRow> Jobs() {
    std::vector<JobRow> jobs;
    EXPECT_OK(
        store_->ForEachJob([&](const JobRow& row) { jobs.push_back(row); }));
    return jobs;
  }

  testing::TempDir dir_;
  std::unique_ptr<Store> store_;
};

// ---- transactions

TEST_P(StoreContractTest, RollbackTakesBackEveryKindOfRow) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {}, 3);
    EXPECT_OK(store_->InsertCell(sweep, 1, {"k", 0, "{}", {lease.job}}));
  });
  ASSERT_OK(store_->Begin());
  const SweepId gone = AddSweep(store_.get(), "gone", {{"seed"}});
  EXPECT_OK(store_->SetCancelled(SweepId{1}, kRowTime));
  EXPECT_OK(store_->SetCellsExpanded(SweepId{1}, 3));
  EXPECT_OK(store_->InsertCell(gone, 1, {"k", 0, "{}", {lease.job}}));
  AddJob(store_.get(), JobOf(2, Stage::kTheory));
  EndAttempt(lease, AttemptOutcome::kFailed, Cause::kFailed);
  EXPECT_OK(store_->SetJobState(lease.job, JobState::kReady));
  EXPECT_OK(
      store_->InsertResult(DoneCompletion(lease, KeyOf(1), {}), kRowTime));
  store_->Rollback();
  EXPECT_FALSE(store_->FindSweep("gone")->has_value());
  EXPECT_THAT(*store_->CancelledSweeps(), IsEmpty());
  ASSERT_THAT(*store_->UnexpandedSweeps(), SizeIs(1));
  EXPECT_EQ((*store_->UnexpandedSweeps())[0].cells_expanded, 0U);
  const std::vector<JobRow> jobs = Jobs();
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].state, JobState::kLeased);
  EXPECT_THAT(jobs[0].sweeps, ElementsAre(SweepId{1}));
  EXPECT_THAT(*store_->OpenAttempts(), SizeIs(1));
  EXPECT_THAT(*store_->SpentBudgets(), IsEmpty());
  Write([&] {
    EXPECT_OK(
        store_->InsertResult(DoneCompletion(lease, KeyOf(1), {}), kRowTime));
  });
}

TEST_P(StoreContractTest, RollbackWithoutATransactionDoesNothing) {
  store_->Rollback();
  Write([&] { AddJob(store_.get(), JobOf(1, Stage::kTrain)); });
  store_->Rollback();
  EXPECT_THAT(Jobs(), SizeIs(1));
}

TEST_P(StoreContractTest, ReadsSeeTheOpenTransaction) {
  ASSERT_OK(store_->Begin());
  const JobId job = AddJob(store_.get(), JobOf(1, Stage::kTrain));
  AddSweep(store_.get(), "s", {});
  EXPECT_THAT(Jobs(), SizeIs(1));
  EXPECT_TRUE(store_->FindSweep("s")->has_value());
  EXPECT_TRUE(store_->Payload(job)->has_value());
  ASSERT_OK(store_->Commit());
}

TEST_P(StoreContractTest, TransactionsDoNotNest) {
  ASSERT_OK(store_->Begin());
  EXPECT_FALSE(store_->Begin().ok());
  store_->Rollback();
  EXPECT_FALSE(store_->Commit().ok());
}

TEST_P(StoreContractTest, EpochsCountAndTheIdentityStays) {
  ASSERT_OK_AND_ASSIGN(const std::string uuid, store_->DatabaseUuid());
  EXPECT_THAT(uuid, SizeIs(32));
  for (const uint64_t epoch : {1U, 2U, 3U}) {
    ASSERT_OK(store_->Begin());
    EXPECT_EQ(*store_->NewEpoch("host:1", kRowTime), epoch);
    ASSERT_OK(store_->Commit());
  }
  EXPECT_EQ(*store_->DatabaseUuid(), uuid);
}

// ---- sweeps, cells, jobs

TEST_P(StoreContractTest, SweepReadsBack) {
  SweepRow row;
  row.name = "two words";
  row.spec_yaml = "name: x  # it's \"quoted\"\n";
  row.spec_hash = "abc";
  row.cells_total = 7;
  row.submitted_us = kRowTime;
  Write([&] { EXPECT_OK(store_->InsertSweep(row, {}).status()); });
  ASSERT_OK_AND_ASSIGN(const std::optional<SweepRow> found,
                       store_->FindSweep("two words"));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->id);
  EXPECT_EQ(found->name, row.name);
  EXPECT_EQ(found->revision, 1);
  EXPECT_EQ(found->spec_yaml, row.spec_yaml);
  EXPECT_EQ(found->spec_hash, row.spec_hash);
  EXPECT_EQ(found->cells_total, 7U);
  EXPECT_EQ(found->cells_expanded, 0U);
  EXPECT_EQ(found->submitted_us, kRowTime);
  ASSERT_OK_AND_ASSIGN(const std::optional<SweepRow> missing,
                       store_->FindSweep("two"));
  EXPECT_FALSE(missing.has_value());
}

TEST_P(StoreContractTest, UnexpandedSweepsAreThoseWithCellsLeft) {
  SweepId first;
  SweepId second;
  Write([&] {
    first = AddSweep(store_.get(), "first", {}, 10);
    second = AddSweep(store_.get(), "second", {}, 10);
    EXPECT_OK(store_->SetCellsExpanded(first, 10));
    EXPECT_OK(store_->SetCellsExpanded(second, 9));
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<SweepRow> open,
                       store_->UnexpandedSweeps());
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].id, second);
  EXPECT_EQ(open[0].cells_expanded, 9U);
}

TEST_P(StoreContractTest, CancelledSweepsAreNotExpandedUntilTheyMayRun) {
  SweepId sweep;
  Write([&] {
    AddSweep(store_.get(), "other", {}, 0);
    sweep = AddSweep(store_.get(), "s", {}, 10);
    EXPECT_OK(store_->SetCancelled(sweep, kRowTime + 7));
  });
  EXPECT_THAT(*store_->CancelledSweeps(), ElementsAre(sweep));
  EXPECT_THAT(*store_->UnexpandedSweeps(), IsEmpty());
  EXPECT_EQ((*store_->FindSweep("s"))->cancelled_us, kRowTime + 7);
  Write([&] { EXPECT_OK(store_->SetCancelled(sweep, 0)); });
  EXPECT_THAT(*store_->CancelledSweeps(), IsEmpty());
  EXPECT_THAT(*store_->UnexpandedSweeps(), SizeIs(1));
}

TEST_P(StoreContractTest, NameOfASweepIsTakenOnce) {
  ASSERT_OK(store_->Begin());
  AddSweep(store_.get(), "s", {});
  SweepRow again;
  again.name = "s";
  EXPECT_THAT(store_->InsertSweep(again, {}).status(),
              StatusIs(absl::StatusCode::kInternal, _));
  store_->Rollback();
}

TEST_P(StoreContractTest, JobWithAKnownKeyIsTheSameJobWithTheLargerLimit) {
  Write([&] {
    const JobId first = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    EXPECT_OK(store_->SetJobState(first, JobState::kDone));
    for (const uint32_t limit : {2U, 5U, 4U}) {
      NewJobRow again = JobOf(1, Stage::kTrain);
      again.inputs = "other bytes";
      again.max_attempts = limit;
      bool inserted = true;
      const absl::StatusOr<JobRow> row =
          store_->UpsertJob(again, kRowTime, &inserted);
      ASSERT_OK(row.status());
      EXPECT_FALSE(inserted);
      EXPECT_EQ(row->id, first);
      EXPECT_EQ(row->state, JobState::kDone);
      EXPECT_EQ(row->max_attempts, limit == 2 ? 3U : 5U);
    }
  });
  ASSERT_THAT(Jobs(), SizeIs(1));
  EXPECT_EQ(Jobs()[0].max_attempts, 5U);
  EXPECT_EQ((*store_->Payload(Jobs()[0].id))->inputs, "inputs-1");
}

TEST_P(StoreContractTest, JobIsWantedOnceByEverySweepThatHasACellOfIt) {
  SweepId first;
  SweepId second;
  Write([&] {
    const JobId shared = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    AddJob(store_.get(), JobOf(2, Stage::kTrain));
    second = AddSweep(store_.get(), "a", {});
    first = AddSweep(store_.get(), "b", {});
    for (const char* key : {"k1", "k2", "k2"})
      EXPECT_OK(store_->InsertCell(first, 1, {key, 0, "{}", {shared}}));
    EXPECT_OK(store_->InsertCell(second, 1, {"k1", 0, "{}", {shared}}));
  });
  const std::vector<JobRow> jobs = Jobs();
  ASSERT_THAT(jobs, SizeIs(2));
  EXPECT_THAT(jobs[0].sweeps, ElementsAre(second, first));
  EXPECT_THAT(jobs[1].sweeps, IsEmpty());
}

TEST_P(StoreContractTest, IdentityIsKeyAndStage) {
  JobId job;
  Write([&] { job = AddJob(store_.get(), JobOf(7, Stage::kCompare)); });
  ASSERT_OK_AND_ASSIGN(const std::optional<JobIdentity> identity,
                       store_->Identity(job));
  ASSERT_TRUE(identity.has_value());
  EXPECT_EQ(identity->key, KeyOf(7));
  EXPECT_EQ(identity->stage, Stage::kCompare);
  EXPECT_FALSE(store_->Identity(JobId{99})->has_value());
}

TEST_P(StoreContractTest, JobsComeBackInOrderWithWhatTheyDependOn) {
  JobId train_a;
  JobId train_b;
  JobId both;
  Write([&] {
    train_a = AddJob(store_.get(), JobOf(9, Stage::kTrain));
    train_b = AddJob(store_.get(), JobOf(8, Stage::kTrain));
    both = AddJob(store_.get(), JobOf(1, Stage::kCompare, {train_a, train_b}));
    AddJob(store_.get(), JobOf(2, Stage::kTheory));
    EXPECT_OK(store_->SetJobState(train_b, JobState::kFailed));
  });
  std::vector<JobRow> jobs;
  ASSERT_OK(
      store_->ForEachJob([&](const JobRow& row) { jobs.push_back(row); }));
  ASSERT_THAT(jobs, SizeIs(4));
  EXPECT_EQ(jobs[0].id, train_a);
  EXPECT_EQ(jobs[0].state, JobState::kBlocked);
  EXPECT_EQ(jobs[1].state, JobState::kFailed);
  EXPECT_EQ(jobs[2].id, both);
  EXPECT_EQ(jobs[2].stage, Stage::kCompare);
  EXPECT_EQ(jobs[2].key, KeyOf(1));
  EXPECT_THAT(jobs[2].depends_on, ElementsAre(train_a, train_b));
  EXPECT_THAT(jobs[3].depends_on, IsEmpty());
}

// ---- attempts

TEST_P(StoreContractTest, AttemptRaisesTheJobsLastAttemptAndIsOpenToItsEnd) {
  const LeaseRef first = LeasedJob(1);
  ASSERT_OK_AND_ASSIGN(const std::vector<OpenAttempt> open,
                       store_->OpenAttempts());
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].lease, first);
  EXPECT_EQ(open[0].slot_uuid, "slot1");
  EXPECT_EQ(Jobs()[0].state, JobState::kLeased);
  Write([&] {
    EndAttempt(first, AttemptOutcome::kReleased, Cause::kDrained);
    EXPECT_OK(store_->StartAttempt({{first.job, 2}, open[0].worker, kRowTime}));
  });
  ASSERT_THAT(*store_->OpenAttempts(), SizeIs(1));
  EXPECT_EQ((*store_->OpenAttempts())[0].lease, (LeaseRef{first.job, 2}));
  EXPECT_EQ(Jobs()[0].last_attempt, 2U);
}

TEST_P(StoreContractTest, CheckpointOfAnAttemptIsNotForgottenAtItsEnd) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    EndAttempt(lease, AttemptOutcome::kFailed, Cause::kCrashed);
    EXPECT_OK(store_->StartAttempt({{lease.job, 2}, WorkerId{1}, kRowTime}));
    EndAttempt({lease.job, 2}, AttemptOutcome::kFailed, Cause::kLost, true);
    EndAttempt({lease.job, 2}, AttemptOutcome::kFailed, Cause::kLost, false);
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<SpentBudget> spent,
                       store_->SpentBudgets());
  ASSERT_THAT(spent, SizeIs(1));
  EXPECT_EQ(spent[0].cause, Cause::kLost);
}

TEST_P(StoreContractTest, ForgivenFailuresCountNoMore) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    EndAttempt(lease, AttemptOutcome::kFailed, Cause::kFailed);
    EXPECT_OK(store_->SetJobState(lease.job, JobState::kReady));
    EXPECT_OK(store_->ForgiveFailures(lease.job));
  });
  EXPECT_THAT(*store_->SpentBudgets(), IsEmpty());
  Write([&] {
    EXPECT_OK(store_->StartAttempt({{lease.job, 2}, WorkerId{1}, kRowTime}));
    EndAttempt({lease.job, 2}, AttemptOutcome::kFailed, Cause::kFailed);
  });
  ASSERT_THAT(*store_->SpentBudgets(), SizeIs(1));
  EXPECT_EQ((*store_->SpentBudgets())[0].count, 1U);
}

TEST_P(StoreContractTest, FailedJobsAreThoseOfTheSweepByTheirLastCause) {
  const LeaseRef crashed = LeasedJob(1);
  const LeaseRef invalid = LeasedJob(2);
  const LeaseRef other = LeasedJob(3);
  const LeaseRef running = LeasedJob(4);
  SweepId sweep;
  Write([&] {
    sweep = AddSweep(store_.get(), "s", {});
    EXPECT_OK(store_->InsertCell(
        sweep, 1, {"k", 0, "{}", {crashed.job, invalid.job, running.job}}));
    EndAttempt(crashed, AttemptOutcome::kFailed, Cause::kFailed);
    EXPECT_OK(store_->StartAttempt({{crashed.job, 2}, WorkerId{1}, kRowTime}));
    EndAttempt({crashed.job, 2}, AttemptOutcome::kFailed, Cause::kCrashed);
    EndAttempt(invalid, AttemptOutcome::kFailed, Cause::kInvalid);
    for (const JobId job : {crashed.job, invalid.job, other.job})
      EXPECT_OK(store_->SetJobState(job, JobState::kFailed));
  });
  EXPECT_THAT(*store_->FailedJobs(sweep, Cause::kNone),
              ElementsAre(crashed.job, invalid.job));
  EXPECT_THAT(*store_->FailedJobs(sweep, Cause::kCrashed),
              ElementsAre(crashed.job));
  EXPECT_THAT(*store_->FailedJobs(sweep, Cause::kFailed), IsEmpty());
  EXPECT_THAT(*store_->FailedJobs(SweepId{77}, Cause::kNone), IsEmpty());
}

TEST_P(StoreContractTest, SpentBudgetsCountFailuresByCause) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    const WorkerId worker{1};
    EndAttempt(lease, AttemptOutcome::kFailed, Cause::kCrashed);
    const struct {
      AttemptOutcome outcome;
      Cause cause;
    } later[] = {{AttemptOutcome::kFailed, Cause::kFailed},
                 {AttemptOutcome::kFailed, Cause::kCrashed},
                 {AttemptOutcome::kReleased, Cause::kPreempted},
                 {AttemptOutcome::kReleased, Cause::kUndelivered}};
    uint32_t number = 1;
    for (const auto& end : later) {
      ++number;
      EXPECT_OK(store_->StartAttempt({{lease.job, number}, worker, kRowTime}));
      EndAttempt({lease.job, number}, end.outcome, end.cause);
    }
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<SpentBudget> spent,
                       store_->SpentBudgets());
  ASSERT_THAT(spent, SizeIs(2));
  EXPECT_EQ(spent[0].job, lease.job);
  EXPECT_EQ(spent[0].cause, Cause::kCrashed);
  EXPECT_EQ(spent[0].count, 2U);
  EXPECT_EQ(spent[1].cause, Cause::kFailed);
  EXPECT_EQ(spent[1].count, 1U);
}

TEST_P(StoreContractTest, CheckpointForgivesEarlierCrashesButNotProgramErrors) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    const WorkerId worker{1};
    EndAttempt(lease, AttemptOutcome::kFailed, Cause::kCrashed);
    EXPECT_OK(store_->StartAttempt({{lease.job, 2}, worker, kRowTime}));
    EndAttempt({lease.job, 2}, AttemptOutcome::kFailed, Cause::kFailed);
    // Saved something, then the lease ran out: that one counts.
    EXPECT_OK(store_->StartAttempt({{lease.job, 3}, worker, kRowTime}));
    EndAttempt({lease.job, 3}, AttemptOutcome::kFailed, Cause::kLost,
               /*checkpointed=*/true);
    EXPECT_OK(store_->StartAttempt({{lease.job, 4}, worker, kRowTime}));
    EndAttempt({lease.job, 4}, AttemptOutcome::kFailed, Cause::kCrashed);
  });
  ASSERT_OK_AND_ASSIGN(const std::vector<SpentBudget> spent,
                       store_->SpentBudgets());
  std::vector<std::string> rows;
  rows.reserve(spent.size());
  for (const SpentBudget& budget : spent)
    rows.push_back(absl::StrCat(CauseName(budget.cause), " ", budget.count));
  EXPECT_THAT(rows, ElementsAre("crashed 1", "failed 1", "lost 1"));
}

TEST_P(StoreContractTest, TerminalJobsHaveNoBudgets) {
  for (const JobState state :
       {JobState::kDone, JobState::kFailed, JobState::kUpstreamFailed}) {
    const LeaseRef lease = LeasedJob(static_cast<uint8_t>(state));
    Write([&] {
      EndAttempt(lease, AttemptOutcome::kFailed, Cause::kFailed);
      EXPECT_OK(store_->SetJobState(lease.job, state));
    });
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<SpentBudget> spent,
                       store_->SpentBudgets());
  EXPECT_THAT(spent, IsEmpty());
}

// ---- results

TEST_P(StoreContractTest, PayloadCarriesInputsAndTheArtifactsOfDependencies) {
  const LeaseRef train = LeasedJob(1);
  const LeaseRef evaluate = LeasedJob(2, Stage::kEvaluate, {train.job});
  ASSERT_OK_AND_ASSIGN(std::optional<JobPayload> payload,
                       store_->Payload(evaluate.job));
  ASSERT_TRUE(payload.has_value());
  EXPECT_EQ(payload->stage, Stage::kEvaluate);
  EXPECT_EQ(payload->key, KeyOf(2));
  EXPECT_EQ(payload->inputs, "inputs-2");
  ASSERT_THAT(payload->dependencies, SizeIs(1));
  EXPECT_EQ(payload->dependencies[0].key, KeyOf(1));
  EXPECT_EQ(payload->dependencies[0].stage, Stage::kTrain);
  EXPECT_FALSE(payload->dependencies[0].artifact.has_value());
  Write([&] {
    Completion completion = DoneCompletion(train, KeyOf(1), {});
    completion.result.artifact = Artifact{"path", "sha", 99};
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
  });
  ASSERT_OK_AND_ASSIGN(payload, store_->Payload(evaluate.job));
  ASSERT_TRUE(payload->dependencies[0].artifact.has_value());
  EXPECT_EQ(payload->dependencies[0].artifact->path, "path");
  EXPECT_EQ(payload->dependencies[0].artifact->sha256, "sha");
  EXPECT_EQ(payload->dependencies[0].artifact->bytes, 99);
  ASSERT_OK_AND_ASSIGN(payload, store_->Payload(JobId{999}));
  EXPECT_FALSE(payload.has_value());
}

TEST_P(StoreContractTest, SecondResultOfAJobIsRefusedAndTheFirstStays) {
  const LeaseRef lease = LeasedJob(1);
  const LeaseRef child = LeasedJob(2, Stage::kEvaluate, {lease.job});
  Completion first = DoneCompletion(lease, KeyOf(1), {});
  first.result.artifact = Artifact{"a", "first", 1};
  Completion second = first;
  second.result.artifact = Artifact{"b", "second", 2};
  Write([&] {
    EXPECT_OK(store_->InsertResult(first, kRowTime));
    EXPECT_THAT(store_->InsertResult(second, kRowTime),
                StatusIs(absl::StatusCode::kAlreadyExists, _));
  });
  ASSERT_OK_AND_ASSIGN(const std::optional<JobPayload> payload,
                       store_->Payload(child.job));
  ASSERT_TRUE(payload.has_value());
  ASSERT_THAT(payload->dependencies, SizeIs(1));
  ASSERT_TRUE(payload->dependencies[0].artifact.has_value());
  EXPECT_EQ(payload->dependencies[0].artifact->sha256, "first");
}

TEST_P(StoreContractTest, ForecastOfAStageAndKindOfDeviceIsOne) {
  ASSERT_OK(store_->Begin());
  const SweepId sweep = AddSweep(store_.get(), "s", {});
  const ForecastRow row{Stage::kTrain, "cpu/avx2", 3, 60, 40, 90};
  ForecastRow other = row;
  other.device_kind = "cuda/H200";
  EXPECT_OK(store_->InsertForecast(sweep, {}));
  EXPECT_OK(store_->InsertForecast(sweep, {row, other}));
  EXPECT_THAT(store_->InsertForecast(sweep, {row}),
              StatusIs(absl::StatusCode::kInternal, _));
  store_->Rollback();
}

TEST_P(StoreContractTest, RowsThatReferToNothingAreRefused) {
  ASSERT_OK(store_->Begin());
  const JobId job = AddJob(store_.get(), JobOf(1, Stage::kTrain));
  const WorkerId worker = AddWorker(store_.get(), "slot");
  const absl::Status refused[] = {
      store_->StartAttempt({{JobId{77}, 1}, worker, kRowTime}),
      store_->StartAttempt({{job, 1}, WorkerId{88}, kRowTime}),
      store_->InsertCell(SweepId{99}, 1, {"k", 0, "{}", {job}}),
      store_->InsertResult(DoneCompletion({JobId{77}, 1}, KeyOf(7), {}),
                           kRowTime),
      store_->SetProgress(SweepId{99}, Stage::kTrain, JobState::kReady, 1),
      store_->InsertForecast(SweepId{99},
                             {{Stage::kTrain, "cpu", 1, 1, 1, 1}})};
  for (const absl::Status& status : refused)
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal, _));
  store_->Rollback();
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContractTest,
    ::testing::Values(
        Kind{"sqlite", OpenSqliteStore},
        Kind{"memory",
             [](const std::string&) -> absl::StatusOr<std::unique_ptr<Store>> {
               return std::make_unique<MemoryStore>(std::string(32, 'a'));
             }}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace iclsweep

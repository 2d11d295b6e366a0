#include "storage/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "storage/sqlite/sqlite_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::AddJob;
using testing::AddSweep;
using testing::AddWorker;
using testing::DoneCompletion;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::InTransaction;
using ::testing::IsEmpty;
using testing::JobOf;
using testing::KeyOf;
using testing::kRowTime;
using testing::MeasurementOf;
using ::testing::SizeIs;
using testing::StatusIs;

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(file_));
  }
  std::vector<std::string> Rows(const std::string& sql) {
    return testing::CommittedRows(file_, sql);
  }
  void Write(const std::function<void()>& write) {
    InTransaction(store_.get(), write);
  }
  // A job with attempt 1 running on some worker.
  LeaseRef LeasedJob(uint8_t n, Stage stage = Stage::kTrain,
                     std::vector<JobId> depends_on = {}) {
    return testing::AddLeasedJob(store_.get(), n, stage, std::move(depends_on));
  }

  testing::TempDir dir_;
  const std::string file_ = dir_.Path("iclsweep.db");
  std::unique_ptr<Store> store_;
};

// ---- transactions

TEST_F(StoreTest, CommittedRowsSurviveReopening) {
  Write([&] { AddJob(store_.get(), JobOf(1, Stage::kTrain)); });
  store_.reset();
  ASSERT_OK_AND_ASSIGN(store_, OpenSqliteStore(file_));
  std::vector<JobRow> jobs;
  ASSERT_OK(
      store_->ForEachJob([&](const JobRow& row) { jobs.push_back(row); }));
  ASSERT_THAT(jobs, SizeIs(1));
  EXPECT_EQ(jobs[0].key, KeyOf(1));
}

TEST_F(StoreTest, RollbackLeavesNothing) {
  ASSERT_OK(store_->Begin());
  AddJob(store_.get(), JobOf(1, Stage::kTrain));
  AddSweep(store_.get(), "gone", {{"prompt.angle_degrees"}});
  store_->Rollback();
  EXPECT_THAT(Rows("SELECT 1 FROM job"), IsEmpty());
  EXPECT_THAT(Rows("SELECT 1 FROM sweep"), IsEmpty());
  // The views are those from before, too.
  EXPECT_THAT(Rows("SELECT name FROM pragma_table_info('results') WHERE name = "
                   "'angle_degrees'"),
              IsEmpty());
  // And the next transaction is not disturbed.
  Write([&] { AddJob(store_.get(), JobOf(2, Stage::kTrain)); });
  EXPECT_THAT(Rows("SELECT hex(substr(key, 1, 1)) FROM job"),
              ElementsAre("02"));
}

TEST_F(StoreTest, WriterSeesItsOpenTransactionAndReadersDoNot) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  const std::string count = "SELECT count(*) FROM job";
  ASSERT_OK(store_->Begin());
  AddJob(store_.get(), JobOf(1, Stage::kTrain));
  int seen = 0;
  ASSERT_OK(store_->ForEachJob([&](const JobRow&) { ++seen; }));
  EXPECT_EQ(seen, 1);
  EXPECT_THAT(testing::RowsOf(reader.get(), count), ElementsAre("0"));
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(testing::RowsOf(reader.get(), count), ElementsAre("1"));
}

TEST_F(StoreTest, WriterCommitsWhileAReaderKeepsItsMoment) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  ASSERT_OK(reader->Execute("BEGIN"));
  const std::string count = "SELECT count(*) FROM sweep";
  EXPECT_THAT(testing::RowsOf(reader.get(), count), ElementsAre("0"));
  Write([&] { AddSweep(store_.get(), "s", {{"seed"}}); });
  EXPECT_THAT(testing::RowsOf(reader.get(), count), ElementsAre("0"));
  ASSERT_OK(reader->Execute("COMMIT"));
  EXPECT_THAT(testing::RowsOf(reader.get(), count), ElementsAre("1"));
}

// ---- sweeps, cells, jobs

TEST_F(StoreTest, JobWithAKnownKeyIsTheSameJob) {
  JobId first;
  Write([&] {
    first = AddJob(store_.get(), JobOf(1, Stage::kTrain));
    EXPECT_OK(store_->SetJobState(first, JobState::kDone));
    bool inserted = true;
    NewJobRow again = JobOf(1, Stage::kTrain);
    again.inputs = "other bytes";
    const absl::StatusOr<JobRow> row =
        store_->UpsertJob(again, kRowTime, &inserted);
    ASSERT_OK(row.status());
    EXPECT_FALSE(inserted);
    EXPECT_EQ(row->id, first);
    EXPECT_EQ(row->state, JobState::kDone);
  });
  EXPECT_THAT(Rows("SELECT stage, state, inputs FROM job"),
              ElementsAre("train|done|inputs-1"));
}

TEST_F(StoreTest, CellAndItsJobsAreInsertedOnce) {
  Write([&] {
    const SweepId sweep = AddSweep(store_.get(), "s", {});
    const JobId job = AddJob(store_.get(), JobOf(1, Stage::kTheory));
    const CellRow cell{"cafe", 3, "{}", {job}};
    EXPECT_OK(store_->InsertCell(sweep, 1, cell));
    EXPECT_OK(store_->InsertCell(sweep, 1, cell));
  });
  EXPECT_THAT(Rows("SELECT cell_key, cell_index, revision FROM cell"),
              ElementsAre("cafe|3|1"));
  EXPECT_THAT(Rows("SELECT cell_key, job_id FROM cell_job"),
              ElementsAre("cafe|1"));
}

// ---- attempts

TEST_F(StoreTest, AttemptRaisesTheJobsLastAttemptAndIsOpenUntilItsEnd) {
  const LeaseRef first = LeasedJob(1);
  ASSERT_OK_AND_ASSIGN(std::vector<OpenAttempt> open, store_->OpenAttempts());
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].lease, first);
  EXPECT_EQ(open[0].slot_uuid, "slot1");
  EXPECT_THAT(Rows("SELECT last_attempt FROM job"), ElementsAre("1"));
  Write([&] {
    AttemptEnd end;
    end.lease = first;
    end.outcome = AttemptOutcome::kFailed;
    end.cause = Cause::kCrashed;
    end.message = "killed by signal 9";
    end.log_tail = "last line";
    end.steps_run = 12;
    end.duration_us = 34;
    end.ended_us = kRowTime + 56;
    EXPECT_OK(store_->EndAttempt(end));
    EXPECT_OK(store_->StartAttempt({{first.job, 2}, open[0].worker, kRowTime}));
  });
  EXPECT_THAT(Rows("SELECT number, outcome, cause, message, log_tail, "
                   "steps_run, duration_us, ended_us FROM attempt"),
              ElementsAre(absl::StrCat("1|failed|crashed|killed by signal "
                                       "9|last line|12|34|",
                                       kRowTime + 56),
                          "2|running||||0|0|null"));
  ASSERT_OK_AND_ASSIGN(open, store_->OpenAttempts());
  ASSERT_THAT(open, SizeIs(1));
  EXPECT_EQ(open[0].lease, (LeaseRef{first.job, 2}));
  EXPECT_THAT(Rows("SELECT last_attempt FROM job"), ElementsAre("2"));
}

// ---- results

TEST_F(StoreTest, ResultReadsBackWhole) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    Measurement m = MeasurementOf("model", "G", 0.1);
    m.task = 3;
    m.position = 2;
    m.layer = 1;
    m.head = 7;
    m.standard_error = 0.25;
    m.n = 3200;
    Completion completion = DoneCompletion(lease, KeyOf(1), {m});
    completion.result.curve = {{"loss", 100, 0.5}};
    completion.result.artifact = Artifact{"ab/cd", "f00d", 123};
    completion.result.extrapolated = true;
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
  });
  EXPECT_THAT(Rows("SELECT attempt_number, duration_us, non_finite, "
                   "extrapolated, input_sha256, build, torch_version, "
                   "device_kind, threads, host, committed_us FROM result"),
              ElementsAre(absl::StrCat(
                  "1|1234|0|1||abc123|2.11.0|cpu/avx2|1|host-a|", kRowTime)));
  EXPECT_THAT(Rows("SELECT * FROM measurement"),
              ElementsAre("1|model|G|3|2|1|7|0.1||0.25|3200"));
  EXPECT_THAT(Rows("SELECT * FROM curve"), ElementsAre("1|loss|100|0.5|"));
  EXPECT_THAT(Rows("SELECT * FROM artifact"), ElementsAre("1|ab/cd|f00d|123"));
}

TEST_F(StoreTest, SecondResultOfAJobIsRefusedAndChangesNothing) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    EXPECT_OK(store_->InsertResult(
        DoneCompletion(lease, KeyOf(1), {MeasurementOf("model", "G", 1)}),
        kRowTime));
    EXPECT_THAT(
        store_->InsertResult(DoneCompletion({lease.job, 2}, KeyOf(1),
                                            {MeasurementOf("model", "F", 2)}),
                             kRowTime),
        StatusIs(absl::StatusCode::kAlreadyExists,
                 HasSubstr(absl::StrCat("job ", lease.job.value))));
  });
  EXPECT_THAT(Rows("SELECT name, value FROM measurement"),
              ElementsAre("G|1.0"));
  EXPECT_THAT(Rows("SELECT attempt_number FROM result"), ElementsAre("1"));
}

TEST_F(StoreTest, ResultKeepsTheChecksumOfWhatItWasComputedFrom) {
  const LeaseRef train = LeasedJob(1);
  Write([&] {
    Completion completion = DoneCompletion(train, KeyOf(1), {});
    completion.result.artifact = Artifact{"path", "weights-sha", 1};
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
  });
  const LeaseRef evaluate = LeasedJob(2, Stage::kEvaluate, {train.job});
  Write([&] {
    EXPECT_OK(
        store_->InsertResult(DoneCompletion(evaluate, KeyOf(2), {}), kRowTime));
  });
  EXPECT_THAT(Rows("SELECT input_sha256 FROM result ORDER BY job_id"),
              ElementsAre("", "weights-sha"));
}

TEST_F(StoreTest, NumbersReadBackToTheSameBits) {
  using Limits = std::numeric_limits<double>;
  const double numbers[] = {0.0,
                            0.1,
                            -1.0 / 3,
                            1e16 + 2,
                            Limits::max(),
                            Limits::lowest(),
                            Limits::min(),
                            Limits::denorm_min(),
                            -Limits::denorm_min(),
                            Limits::epsilon(),
                            std::nextafter(1.0, 2.0),
                            9007199254740993.0,
                            4611686018427387904.0};
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    Completion completion = DoneCompletion(lease, KeyOf(1), {});
    int task = 0;
    for (const double value : numbers) {
      Measurement m = MeasurementOf("p", "n", value);
      m.task = task++;
      m.standard_error = value;
      completion.result.measurements.push_back(m);
      completion.result.curve.push_back({"c", m.task, value});
    }
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
  });
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  Statement query = reader->Prepare(
      "SELECT m.value, m.standard_error, c.value, m.kind || c.kind FROM "
      "measurement AS m JOIN curve AS c ON c.step = m.task ORDER BY m.task");
  for (const double value : numbers) {
    ASSERT_OK_AND_ASSIGN(const bool row, query.Step());
    ASSERT_TRUE(row);
    for (const int column : {0, 1, 2}) {
      EXPECT_EQ(absl::StrFormat("%a", query.Real(column)),
                absl::StrFormat("%a", value));
    }
    EXPECT_EQ(query.Text(3), "");
  }
}

TEST_F(StoreTest, NegativeZeroIsStoredAsZero) {
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    EXPECT_OK(store_->InsertResult(
        DoneCompletion(lease, KeyOf(1), {MeasurementOf("p", "n", -0.0)}),
        kRowTime));
  });
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  Statement query = reader->Prepare("SELECT value, kind FROM measurement");
  ASSERT_OK_AND_ASSIGN(const bool row, query.Step());
  ASSERT_TRUE(row);
  EXPECT_EQ(absl::StrFormat("%a", query.Real(0)), "0x0p+0");
  EXPECT_EQ(query.Text(1), "");
}

TEST_F(StoreTest, NonFiniteNumbersAreNullWithTheirKind) {
  using Limits = std::numeric_limits<double>;
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    Completion completion =
        DoneCompletion(lease, KeyOf(1),
                       {MeasurementOf("p", "a", Limits::quiet_NaN()),
                        MeasurementOf("p", "b", -Limits::quiet_NaN()),
                        MeasurementOf("p", "c", Limits::infinity()),
                        MeasurementOf("p", "d", -Limits::infinity())});
    completion.result.curve = {{"x", 1, -Limits::infinity()}};
    completion.result.non_finite = true;
    EXPECT_OK(store_->InsertResult(completion, kRowTime));
  });
  EXPECT_THAT(Rows("SELECT name, value, kind, standard_error FROM measurement"),
              ElementsAre("a|null|nan|null", "b|null|nan|null",
                          "c|null|inf|null", "d|null|-inf|null"));
  EXPECT_THAT(Rows("SELECT value, kind FROM curve"), ElementsAre("null|-inf"));
  EXPECT_THAT(Rows("SELECT non_finite FROM result"), ElementsAre("1"));
  EXPECT_TRUE(std::isnan(FromKind("nan")));
  EXPECT_EQ(FromKind("inf"), Limits::infinity());
  EXPECT_EQ(FromKind("-inf"), -Limits::infinity());
  EXPECT_EQ(KindOf(0.0), "");
}

TEST_F(StoreTest, TextIsKeptByteForByte) {
  const std::string hostile =
      std::string("it's \"x\"; DROP TABLE job; -- \xff\xfe \xc3\x28 ") +
      std::string(1, '\0') + "tail\n";
  const LeaseRef lease = LeasedJob(1);
  Write([&] {
    AttemptEnd end;
    end.lease = lease;
    end.outcome = AttemptOutcome::kFailed;
    end.cause = Cause::kFailed;
    end.message = hostile;
    end.log_tail = hostile;
    EXPECT_OK(store_->EndAttempt(end));
    EXPECT_OK(store_->InsertEvent({"kind", {}, lease, {}, hostile}, 5));
  });
  EXPECT_THAT(Rows("SELECT message FROM attempt"), ElementsAre(hostile));
  EXPECT_THAT(Rows("SELECT log_tail FROM attempt"), ElementsAre(hostile));
  EXPECT_THAT(Rows("SELECT text FROM event"), ElementsAre(hostile));
  EXPECT_THAT(Rows("SELECT sequence, at_us, kind, job_id, attempt_number, "
                   "worker_id FROM event"),
              ElementsAre("1|5|kind|1|1|0"));
}

TEST_F(StoreTest, RowsThatReferToNothingAreRefused) {
  ASSERT_OK(store_->Begin());
  const absl::Status orphan =
      store_->StartAttempt({{JobId{77}, 1}, WorkerId{88}, kRowTime});
  EXPECT_THAT(orphan,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("FOREIGN KEY")));
  store_->Rollback();
}

}  // namespace
}  // namespace iclsweep

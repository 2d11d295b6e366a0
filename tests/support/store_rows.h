// Rows for tests of everything that stands on the store: made short, and read
// back as text.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/sqlite_store.h"
#include "storage/store.h"
#include "tests/support/status_matchers.h"

namespace iclsweep::testing {

inline constexpr int64_t kRowTime = 1'700'000'000'000'000;

// A key that differs for every n, the first byte in front.
inline JobKey KeyOf(uint8_t n) {
  JobKey key;
  key.bytes.fill(n);
  return key;
}

inline NewJobRow JobOf(uint8_t n, Stage stage,
                       std::vector<JobId> depends_on = {}) {
  NewJobRow job;
  job.key = KeyOf(n);
  job.stage = stage;
  job.inputs = absl::StrCat("inputs-", n);
  job.depends_on = std::move(depends_on);
  return job;
}

inline Measurement MeasurementOf(const std::string& predictor,
                                 const std::string& name, double value) {
  Measurement m;
  m.predictor = predictor;
  m.name = name;
  m.value = value;
  return m;
}

inline Provenance SomeProvenance() {
  return {"abc123", "2.11.0", "cpu/avx2", 1, "host-a"};
}

inline Completion DoneCompletion(const LeaseRef& lease, const JobKey& key,
                                 std::vector<Measurement> measurements) {
  Completion completion;
  completion.lease = lease;
  completion.key = key;
  completion.duration_us = 1234;
  completion.result.measurements = std::move(measurements);
  completion.provenance = SomeProvenance();
  return completion;
}

// Counts every sweep's jobs, as the loop keeps them.
inline void WriteProgress(Store* store) {
  std::map<std::tuple<SweepId, Stage, JobState>, uint64_t> counts;
  EXPECT_OK(store->ForEachJob([&](const JobRow& job) {
    for (const SweepId sweep : job.sweeps)
      ++counts[{sweep, job.stage, job.state}];
  }));
  EXPECT_OK(store->ClearProgress());
  for (const auto& [of, jobs] : counts) {
    const auto& [sweep, stage, state] = of;
    EXPECT_OK(store->SetProgress(sweep, stage, state, jobs));
  }
}

// Runs `write` in a transaction of its own.
inline void InTransaction(Store* store, const std::function<void()>& write) {
  ASSERT_OK(store->Begin());
  write();
  WriteProgress(store);
  ASSERT_OK(store->Commit());
}

inline JobId AddJob(Store* store, const NewJobRow& job) {
  bool inserted = false;
  const absl::StatusOr<JobRow> row = store->UpsertJob(job, kRowTime, &inserted);
  EXPECT_TRUE(row.ok()) << row.status();
  EXPECT_TRUE(inserted);
  return row.ok() ? row->id : JobId{};
}

inline WorkerId AddWorker(Store* store, const std::string& slot_uuid) {
  WorkerRow worker;
  worker.slot_uuid = slot_uuid;
  worker.slot_name = absl::StrCat("host-a/", slot_uuid);
  worker.pid = 42;
  worker.epoch = 1;
  worker.provenance = SomeProvenance();
  const absl::StatusOr<WorkerId> id = store->InsertWorker(worker, kRowTime);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(WorkerId{});
}

// A job with attempt 1 running on a worker of its own, slot<n>.
inline LeaseRef AddLeasedJob(Store* store, uint8_t n,
                             Stage stage = Stage::kTrain,
                             std::vector<JobId> depends_on = {}) {
  LeaseRef lease;
  InTransaction(store, [&] {
    const WorkerId worker = AddWorker(store, absl::StrCat("slot", n));
    lease = {AddJob(store, JobOf(n, stage, std::move(depends_on))), 1};
    EXPECT_OK(store->StartAttempt({lease, worker, kRowTime}));
  });
  return lease;
}

inline SweepId AddSweep(Store* store, const std::string& name,
                        const std::vector<AxisRow>& axes,
                        uint64_t cells_total = 1) {
  SweepRow row;
  row.name = name;
  row.spec_yaml = absl::StrCat("name: ", name, "\n");
  row.spec_hash = "hash";
  row.cells_total = cells_total;
  row.submitted_us = kRowTime;
  const absl::StatusOr<SweepId> id = store->InsertSweep(row, axes);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(SweepId{});
}

// The rows of a query: columns joined by '|', NULL as "null".
inline std::vector<std::string> RowsOf(Database* database,
                                       const std::string& sql) {
  std::vector<std::string> rows;
  absl::StatusOr<Statement> query = database->PrepareQuery(sql);
  EXPECT_TRUE(query.ok()) << query.status() << " in " << sql;
  if (!query.ok()) return rows;
  while (true) {
    const absl::StatusOr<bool> more = query->Step();
    EXPECT_TRUE(more.ok()) << more.status() << " in " << sql;
    if (!more.value_or(false)) return rows;
    std::string row;
    for (int column = 0; column < query->columns(); ++column) {
      absl::StrAppend(&row, column == 0 ? "" : "|",
                      query->IsNull(column) ? "null" : query->Text(column));
    }
    rows.push_back(std::move(row));
  }
}

// The same on a connection of its own: only what is committed.
inline std::vector<std::string> CommittedRows(const std::string& file,
                                              const std::string& sql) {
  const absl::StatusOr<std::unique_ptr<Database>> database =
      OpenForReading(file);
  EXPECT_TRUE(database.ok()) << database.status();
  if (!database.ok()) return {};
  return RowsOf(database->get(), sql);
}

}  // namespace iclsweep::testing

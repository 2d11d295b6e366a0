// Results: measurements, curves, artifacts.
#include "proto/base/status_macros.h"
#include "storage/errors.h"
#include "storage/sqlite/store_impl.h"

namespace iclsweep {

absl::Status SqliteStore::InsertResult(const Completion& completion,
                                       int64_t now_us) {
  const int64_t job = completion.lease.job.value;
  ASSIGN_OR_RETURN(const bool exists, HasResult(job));
  if (exists) return ResultExists(job);
  const Provenance& origin = completion.provenance;
  RETURN_IF_ERROR(
      db_->Prepare("INSERT INTO result VALUES (?, ?, ?, ?, ?, "
                   "coalesce((SELECT group_concat(sha256, ' ') FROM "
                   "job_dependency AS d JOIN artifact AS a ON a.job_id = "
                   "d.depends_on_job_id WHERE d.job_id = ?), ''), "
                   "?, ?, ?, ?, ?, ?)")
          .Bind(job)
          .Bind(int64_t{completion.lease.attempt})
          .Bind(completion.duration_us)
          .Bind(int64_t{completion.result.non_finite})
          .Bind(int64_t{completion.result.extrapolated})
          .Bind(job)
          .Bind(origin.build)
          .Bind(origin.torch_version)
          .Bind(origin.device_kind)
          .Bind(int64_t{origin.threads})
          .Bind(origin.host)
          .Bind(now_us)
          .Run());
  for (const Measurement& m : completion.result.measurements)
    RETURN_IF_ERROR(InsertMeasurement(job, m));
  for (const CurvePoint& point : completion.result.curve) {
    RETURN_IF_ERROR(db_->Prepare("INSERT INTO curve VALUES (?, ?, ?, ?, ?)")
                        .Bind(job)
                        .Bind(point.name)
                        .Bind(point.step)
                        .BindReal(point.value)
                        .Bind(KindOf(point.value))
                        .Run());
  }
  if (!completion.result.artifact.has_value()) return absl::OkStatus();
  const Artifact& artifact = *completion.result.artifact;
  return db_->Prepare("INSERT INTO artifact VALUES (?, ?, ?, ?)")
      .Bind(job)
      .Bind(artifact.path)
      .Bind(artifact.sha256)
      .Bind(artifact.bytes)
      .Run();
}

absl::StatusOr<bool> SqliteStore::HasResult(int64_t job) {
  Statement query = db_->Prepare("SELECT 1 FROM result WHERE job_id = ?");
  query.Bind(job);
  return query.Step();
}

absl::Status SqliteStore::InsertMeasurement(int64_t job, const Measurement& m) {
  return db_
      ->Prepare(
          "INSERT INTO measurement VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(job)
      .Bind(m.predictor)
      .Bind(m.name)
      .Bind(m.task)
      .Bind(m.position)
      .Bind(m.layer)
      .Bind(m.head)
      .BindReal(m.value)
      .Bind(KindOf(m.value))
      .BindReal(m.standard_error)
      .Bind(m.n)
      .Run();
}

}  // namespace iclsweep

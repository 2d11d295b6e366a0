#include "coordinator/cli/canonical_export.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/output.h"
#include "coordinator/cli/table.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

// A number, or the name of a non-finite one.
std::string Value(const Statement& query, int value, int kind) {
  return query.IsNull(value) ? JsonString(query.Text(kind))
                             : ExactDouble(query.Real(value));
}

absl::Status WriteCells(Database* database, const std::string& sweep,
                        std::FILE* out) {
  Statement query = database->Prepare(
      "SELECT cell_index, cell_key, cell.axes, (SELECT group_concat(stage || "
      "':' || hex, ' ') FROM (SELECT job.stage, "
      "lower(hex(job.key)) AS hex FROM cell_job JOIN job USING (job_id) WHERE "
      "cell_job.sweep_id = cell.sweep_id AND "
      "cell_job.cell_key = cell.cell_key ORDER BY job.stage)) FROM cell JOIN "
      "sweep USING (sweep_id) WHERE sweep.name = ? "
      "ORDER BY cell_index");
  query.Bind(sweep);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    absl::FPrintF(out,
                  "{\"type\":\"cell\",\"sweep\":%s,\"cell\":%d,\"key\":%s,"
                  "\"axes\":%s,\"jobs\":%s}\n",
                  JsonString(sweep), query.Integer(0),
                  JsonString(query.Text(1)), query.Text(2),
                  JsonString(query.Text(3)));
  }
}

absl::Status WriteMeasurements(Database* database, int64_t job,
                               const std::string& key, std::FILE* out) {
  Statement query = database->Prepare(
      "SELECT predictor, name, task, position, layer, head, value, kind, "
      "standard_error, n FROM measurement WHERE job_id = ? "
      "ORDER BY predictor, name, task, position, layer, head");
  query.Bind(job);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    absl::FPrintF(out,
                  "{\"type\":\"measurement\",\"job\":\"%s\",\"predictor\":%s,"
                  "\"name\":%s,\"task\":%d,\"position\":%d,\"layer\":%d,"
                  "\"head\":%d,\"value\":%s,\"standard_error\":%s,\"n\":%d}\n",
                  key, JsonString(query.Text(0)), JsonString(query.Text(1)),
                  query.Integer(2), query.Integer(3), query.Integer(4),
                  query.Integer(5), Value(query, 6, 7),
                  query.IsNull(8) ? "null" : ExactDouble(query.Real(8)),
                  query.Integer(9));
  }
}

absl::Status WriteCurve(Database* database, int64_t job, const std::string& key,
                        std::FILE* out) {
  Statement query = database->Prepare(
      "SELECT name, step, value, kind FROM curve WHERE job_id = ? ORDER BY "
      "name, step");
  query.Bind(job);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) return absl::OkStatus();
    absl::FPrintF(out,
                  "{\"type\":\"curve\",\"job\":\"%s\",\"name\":%s,\"step\":%d,"
                  "\"value\":%s}\n",
                  key, JsonString(query.Text(0)), query.Integer(1),
                  Value(query, 2, 3));
  }
}

}  // namespace

absl::Status WriteCanonical(Database* database, const std::string& sweep,
                            std::FILE* out) {
  RETURN_IF_ERROR(WriteCells(database, sweep, out));
  Statement query = database->Prepare(
      "SELECT job.job_id, lower(hex(job.key)), job.stage, result.non_finite, "
      "result.extrapolated, artifact.sha256 FROM "
      "(SELECT DISTINCT job_id FROM cell_job JOIN sweep USING (sweep_id) WHERE "
      "sweep.name = ?) JOIN job USING (job_id) "
      "JOIN result USING (job_id) LEFT JOIN artifact USING (job_id) ORDER BY "
      "job.key");
  query.Bind(sweep);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, query.Step());
    if (!row) break;
    const std::string key = query.Text(1);
    absl::FPrintF(out,
                  "{\"type\":\"job\",\"job\":\"%s\",\"stage\":%s,\"non_"
                  "finite\":%d,\"extrapolated\":%d,\"weights_sha256\":%s}\n",
                  key, JsonString(query.Text(2)), query.Integer(3),
                  query.Integer(4), JsonString(query.Text(5)));
    RETURN_IF_ERROR(WriteCurve(database, query.Integer(0), key, out));
    RETURN_IF_ERROR(WriteMeasurements(database, query.Integer(0), key, out));
    if (std::ferror(out) != 0) break;  // nobody gets the rest
  }
  return FlushOutput(out);
}

}  // namespace iclsweep

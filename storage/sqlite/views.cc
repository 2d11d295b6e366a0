#include "storage/sqlite/views.h"

#include <sqlite3.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace iclsweep {
namespace {

// Columns of the views.
constexpr absl::string_view kColumns[] = {
    "sweep",       "cell",           "stage",        "predictor",
    "name",        "task",           "position",     "layer",
    "head",        "value",          "kind",         "n",
    "key",         "state",          "failed",       "done",
    "jobs",        "standard_error", "theory_value", "non_finite",
    "extrapolated"};

bool IsTaken(const std::string& column) {
  return std::find(std::begin(kColumns), std::end(kColumns), column) !=
             std::end(kColumns) ||
         sqlite3_keyword_check(column.c_str(),
                               static_cast<int>(column.size())) != 0;
}

std::string LastElement(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return std::string(dot == absl::string_view::npos ? path
                                                    : path.substr(dot + 1));
}

constexpr absl::string_view kFixedViews = R"sql(
CREATE VIEW progress AS
SELECT sweep.name AS sweep, p.stage AS stage, sum(p.jobs) AS jobs,
  sum(p.jobs * (p.state = 'done')) AS done, sum(p.jobs * (p.state = 'failed')) AS failed,
  sum(p.jobs * (p.state = 'leased')) AS leased, sum(p.jobs * (p.state = 'ready')) AS ready,
  sum(p.jobs * (p.state = 'blocked')) AS blocked, sum(p.jobs * (p.state = 'upstream_failed')) AS upstream_failed
FROM sweep_progress AS p JOIN sweep USING (sweep_id)
GROUP BY sweep.sweep_id, p.stage HAVING sum(p.jobs) > 0;

CREATE VIEW attempts AS
SELECT attempt.job_id, lower(hex(job.key)) AS key, job.stage, attempt.number AS attempt, attempt.outcome, attempt.cause,
  attempt.message, attempt.steps_run, attempt.duration_us, attempt.started_us, attempt.ended_us,
  worker.worker_id, worker.slot_name AS slot, worker.host, worker.device_kind, worker.build
FROM attempt JOIN job USING (job_id) JOIN worker USING (worker_id);

CREATE VIEW failures AS
SELECT sweep.name AS sweep, cell.cell_index AS cell, job.stage, job.state, attempt.number AS attempt, attempt.cause,
  attempt.message, attempt.log_tail, attempt.ended_us
FROM job CROSS JOIN cell_job USING (job_id) JOIN cell USING (sweep_id, cell_key) JOIN sweep USING (sweep_id)
LEFT JOIN attempt ON attempt.job_id = job.job_id AND attempt.number = job.last_attempt
WHERE job.state IN ('failed', 'upstream_failed');

CREATE VIEW best AS
SELECT sweep.name AS sweep, job.stage, measurement.predictor, measurement.name, min(measurement.value) AS value,
  cell.cell_index AS cell, cell.axes, count(*) - count(measurement.value) AS non_finite
FROM measurement JOIN job USING (job_id) JOIN cell_job USING (job_id) JOIN cell USING (sweep_id, cell_key)
JOIN sweep USING (sweep_id)
WHERE measurement.task = -1 AND measurement.position = -1 AND measurement.layer = -1 AND measurement.head = -1
GROUP BY sweep.sweep_id, job.stage, measurement.predictor, measurement.name;

CREATE VIEW forecasts AS
WITH measured AS (
  SELECT c.sweep_id, job.stage, result.device_kind, count(*) AS jobs_done,
    sum((SELECT sum(a.duration_us) FROM attempt AS a WHERE a.job_id = job.job_id)) / 1e6 AS seconds
  FROM (SELECT DISTINCT sweep_id, job_id FROM cell_job WHERE sweep_id IN (SELECT sweep_id FROM forecast)) AS c
  JOIN sweep USING (sweep_id) JOIN job USING (job_id) JOIN result USING (job_id)
  WHERE result.committed_us >= sweep.submitted_us
  GROUP BY c.sweep_id, job.stage, result.device_kind)
SELECT sweep.name AS sweep, f.stage, f.device_kind, f.jobs, f.seconds AS expected_s, f.low_seconds AS low_s,
  f.high_seconds AS high_s, coalesce(measured.jobs_done, 0) AS jobs_done, coalesce(measured.seconds, 0) AS measured_s
FROM forecast AS f JOIN sweep USING (sweep_id)
LEFT JOIN measured ON measured.sweep_id = f.sweep_id AND measured.stage = f.stage AND measured.device_kind = f.device_kind;
)sql";

}  // namespace

std::vector<AxisColumn> AxisColumns(absl::Span<const std::string> paths) {
  const std::set<std::string> unique(paths.begin(), paths.end());
  std::map<std::string, int> uses;
  for (const std::string& path : unique) ++uses[LastElement(path)];
  std::vector<AxisColumn> columns;
  for (const std::string& path : unique) {
    std::string column = LastElement(path);
    const bool top_level = column == path;
    if (!top_level && (uses[column] > 1 || IsTaken(column)))
      column = absl::StrReplaceAll(path, {{".", "_"}});
    if (top_level && IsTaken(column)) column = absl::StrCat("sweep_", column);
    columns.push_back({path, std::move(column)});
  }
  return columns;
}

std::string ViewsSql(absl::Span<const std::string> axis_paths) {
  std::string axes;
  for (const AxisColumn& axis : AxisColumns(axis_paths)) {
    absl::StrAppend(&axes, "  json_extract(cell.axes, '$.\"", axis.path,
                    "\"') AS \"", axis.column, "\",\n");
  }
  std::string sql;
  for (const absl::string_view view :
       {"results", "cells", "progress", "attempts", "failures", "best",
        "forecasts"}) {
    absl::StrAppend(&sql, "DROP VIEW IF EXISTS ", view, ";\n");
  }
  absl::StrAppend(&sql, R"sql(
CREATE VIEW results AS
SELECT sweep.name AS sweep, cell.cell_index AS cell, job.stage AS stage,
)sql",
                  axes, R"sql(
  m.predictor, m.name, m.task, m.position, m.layer, m.head, m.value, m.kind, m.standard_error, m.n,
  CASE WHEN job.stage = 'evaluate' AND m.predictor IN ('model', 'msa', 'lsa') THEN
    (SELECT t.value FROM cell_job AS tcj JOIN job AS tj ON tj.job_id = tcj.job_id AND tj.stage = 'theory'
     JOIN measurement AS t ON t.job_id = tj.job_id AND t.predictor = iif(m.predictor = 'lsa', 'lsa', 'msa')
       AND t.name = m.name AND t.task = m.task AND t.position = m.position AND t.layer = -1 AND t.head = -1
     WHERE tcj.sweep_id = cell.sweep_id AND tcj.cell_key = cell.cell_key) END AS theory_value,
  result.extrapolated
FROM sweep CROSS JOIN cell ON cell.sweep_id = sweep.sweep_id
CROSS JOIN cell_job ON cell_job.sweep_id = cell.sweep_id AND cell_job.cell_key = cell.cell_key
JOIN job ON job.job_id = cell_job.job_id
JOIN result ON result.job_id = job.job_id
JOIN measurement AS m ON m.job_id = job.job_id;

CREATE VIEW cells AS
SELECT sweep.name AS sweep, cell.cell_index AS cell, cell.cell_key AS key,
)sql",
                  axes, R"sql(
  (SELECT count(*) FROM cell_job AS c WHERE c.sweep_id = cell.sweep_id AND c.cell_key = cell.cell_key) AS jobs,
  (SELECT count(*) FROM cell_job AS c JOIN job USING (job_id)
   WHERE c.sweep_id = cell.sweep_id AND c.cell_key = cell.cell_key AND job.state = 'done') AS done,
  (SELECT count(*) FROM cell_job AS c JOIN job USING (job_id) WHERE c.sweep_id = cell.sweep_id
   AND c.cell_key = cell.cell_key AND job.state IN ('failed', 'upstream_failed')) AS failed
FROM sweep JOIN cell ON cell.sweep_id = sweep.sweep_id;
)sql",
                  kFixedViews);
  return sql;
}

}  // namespace iclsweep

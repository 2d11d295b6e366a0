#include "coordinator/cli/failures.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace iclsweep {
namespace {

struct Failed {
  uint64_t jobs = 0;
  uint64_t upstream = 0;
};

Failed CountFailed(const v1::SweepStatus& status) {
  Failed failed;
  for (const v1::StageProgress& stage : status.stages()) {
    failed.jobs += stage.failed();
    failed.upstream += stage.upstream_failed();
  }
  return failed;
}

// Without "cell 3, ": a job that several cells share is listed for each.
absl::string_view WithoutCell(absl::string_view failure) {
  const size_t comma = failure.find(", ");
  return comma == absl::string_view::npos ? failure : failure.substr(comma + 2);
}

}  // namespace

std::string FailureSummary(const v1::SweepStatus& status) {
  const Failed failed = CountFailed(status);
  if (failed.jobs + failed.upstream == 0) return "";
  std::string summary =
      absl::StrCat(failed.jobs, failed.jobs == 1 ? " job" : " jobs", " failed");
  if (failed.upstream > 0) {
    absl::StrAppend(&summary, ", ", failed.upstream,
                    " could not run because of ",
                    failed.jobs == 1 ? "it" : "them");
  }
  return summary;
}

void PrintFailures(const v1::SweepStatus& status, const std::string& data,
                   std::FILE* out) {
  const std::string summary = FailureSummary(status);
  if (summary.empty()) return;
  std::set<absl::string_view> shown;
  for (const std::string& failure : status.first_failures()) {
    if (!shown.insert(WithoutCell(failure)).second) continue;
    absl::FPrintF(out, "failed: %s\n",
                  absl::StrReplaceAll(failure, {{"\n", " "}}));
  }
  const uint64_t jobs = CountFailed(status).jobs;
  if (jobs > shown.size())
    absl::FPrintF(out, "and %d more\n", jobs - shown.size());
  absl::FPrintF(out,
                "iclsweep: %s: iclsweep query \"SELECT cell, stage, cause, "
                "message FROM failures WHERE sweep = '%s'\" --data %s\n",
                summary, status.name(), data);
}

}  // namespace iclsweep

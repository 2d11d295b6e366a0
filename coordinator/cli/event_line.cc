#include "coordinator/cli/event_line.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace iclsweep {

std::string EventLine(const v1::Event& event) {
  std::vector<std::string> parts;
  if (!event.sweep().empty())
    parts.push_back(absl::StrCat("sweep ", event.sweep()));
  if (event.job_id() != 0) {
    std::string job = absl::StrCat(event.stage(), " job ", event.job_id());
    if (event.attempt() != 0)
      absl::StrAppend(&job, ", attempt ", event.attempt());
    parts.push_back(std::move(job));
  }
  if (event.worker_id() != 0)
    parts.push_back(absl::StrCat("worker ", event.worker_id()));
  if (!event.text().empty())
    parts.push_back(absl::StrReplaceAll(event.text(), {{"\n", " "}}));
  return absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                                       absl::FromUnixMicros(event.at_us()),
                                       absl::UTCTimeZone()),
                      " ", event.kind(), parts.empty() ? "" : ": ",
                      absl::StrJoin(parts, ": "));
}

}  // namespace iclsweep

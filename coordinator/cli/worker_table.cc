#include "coordinator/cli/worker_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace iclsweep {

std::string WhatItDoes(const v1::WorkerState& worker) {
  if (worker.job_id() == 0 && worker.waiting() == 0) return worker.reason();
  std::string text;
  if (worker.job_id() != 0)
    absl::StrAppend(&text, worker.stage(), " job ", worker.job_id());
  if (worker.steps_total() > 1)
    absl::StrAppend(&text, ", step ", worker.steps_done(), "/",
                    worker.steps_total());
  if (worker.waiting() > 0)
    absl::StrAppend(&text, text.empty() ? "" : ", ", worker.waiting(),
                    text.empty() ? " leased just now" : " more in its bundle");
  if (worker.state() == "silent")
    absl::StrAppend(&text, "; not heard of for ", worker.silent_ms() / 1000,
                    " s");
  return text;
}

void PrintWorkers(
    const google::protobuf::RepeatedPtrField<v1::WorkerState>& workers,
    std::FILE* out) {
  size_t name = 4;
  size_t device = 6;
  for (const v1::WorkerState& worker : workers) {
    name = std::max(name, worker.name().size());
    device = std::max(device, worker.device_kind().size());
  }
  absl::FPrintF(out, "%6s  %-*s  %-*s  %-8s  %9s  %s\n", "worker",
                static_cast<int>(name), "name", static_cast<int>(device),
                "device", "state", "jobs done", "runs");
  for (const v1::WorkerState& worker : workers) {
    absl::FPrintF(out, "%6d  %-*s  %-*s  %-8s  %9d  %s\n", worker.worker_id(),
                  static_cast<int>(name), worker.name(),
                  static_cast<int>(device), worker.device_kind(),
                  worker.state(), worker.jobs_done(), WhatItDoes(worker));
  }
}

}  // namespace iclsweep

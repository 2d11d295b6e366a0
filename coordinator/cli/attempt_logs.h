// The logs of a job's attempts: the files that workers write (worker/agent's
// AttemptLog), and what the database knows of each attempt's end.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/domain.h"
#include "storage/sqlite/database.h"

namespace iclsweep {

// One line of an attempt's log, or how the attempt ended.
struct LogNews {
  uint32_t attempt = 0;
  std::string line;  // with its time; of an end: empty
  bool ended = false;
  // Of an end.
  std::string outcome;
  std::string cause;
  std::string message;
  std::string log_tail;  // last lines of its worker's own log; of a crash
  uint64_t steps_run = 0;
  std::string worker;   // slot name
  bool no_log = false;  // it has written none
};

// How people read it.
std::string LogNewsText(const LogNews& news);
std::string LogNewsJson(JobId job, const LogNews& news);

class AttemptLogs {
 public:
  // `only`: one attempt; NotFound when the job has none of that number.
  static absl::StatusOr<AttemptLogs> Open(const std::string& data_dir,
                                          Database* database, JobId job,
                                          std::optional<uint32_t> only);

  // Passes on what is new since the last time: whole lines, attempt after
  // attempt. True when nothing more can come.
  absl::StatusOr<bool> Poll(const std::function<void(const LogNews&)>& show);

  // Of the job, when Poll last looked.
  const std::string& state() const { return state_; }

 private:
  struct Attempt {
    LogNews end;
    bool running = false;
  };
  struct Shown {
    uint64_t bytes = 0;
    bool ended = false;
  };

  AttemptLogs(std::string log_dir, Database* database, JobId job, JobKey key,
              std::optional<uint32_t> only)
      : log_dir_(std::move(log_dir)),
        database_(database),
        job_(job),
        key_(key),
        only_(only) {}

  absl::StatusOr<std::vector<Attempt>> Attempts();
  void ShowLines(uint32_t attempt, bool last, Shown* shown,
                 const std::function<void(const LogNews&)>& show) const;

  std::string log_dir_;
  Database* database_;
  JobId job_;
  JobKey key_;
  std::optional<uint32_t> only_;
  std::string state_;
  std::map<uint32_t, Shown> shown_;
};

}  // namespace iclsweep

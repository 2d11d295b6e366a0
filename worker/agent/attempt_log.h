// What an attempt tells people while it runs: lines with their time in a file
// of its own, seen as they are written and left by a crash. It is made with the
// first line: the many small jobs that say nothing leave none. A disk that
// refuses costs the log, not the job.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/clock.h"

namespace iclsweep {

// Not thread-safe: the stage's thread owns it.
class AttemptLog {
 public:
  // `path` "": nothing is kept. `heading` is the first line. `clock` must
  // outlive the log.
  AttemptLog(std::string path, std::string heading, Clock* clock);
  ~AttemptLog();
  AttemptLog(const AttemptLog&) = delete;
  AttemptLog& operator=(const AttemptLog&) = delete;

  void Write(absl::string_view line);
  // After a unit of work: units run by this attempt, position and total of the
  // job. A line with the rate every ten seconds.
  void Progress(int64_t steps_run, int64_t done, int64_t total);
  // How it ended; nothing where nothing was said before.
  void End(const absl::Status& status, int64_t duration_us);

 private:
  bool Open();
  void Append(absl::string_view line);

  const std::string path_;
  const std::string heading_;
  Clock* const clock_;
  int fd_ = -1;
  bool broken_ = false;
  int64_t told_us_;  // of the last line of progress
  int64_t told_steps_ = 0;
};

}  // namespace iclsweep

#include "worker/agent/attempt_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

constexpr int64_t kProgressEveryUs = 10'000'000;
constexpr double kSecond = 1e6;

}  // namespace

AttemptLog::AttemptLog(std::string path, std::string heading, Clock* clock)
    : path_(std::move(path)),
      heading_(std::move(heading)),
      clock_(clock),
      told_us_(clock->MonotonicMicros()) {}

AttemptLog::~AttemptLog() {
  if (fd_ >= 0) ::close(fd_);
}

bool AttemptLog::Open() {
  if (fd_ >= 0) return true;
  if (broken_ || path_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(
      std::filesystem::path(path_).parent_path(), ignored);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ >= 0) {
    Append(heading_);
    return true;
  }
  broken_ = true;
  spdlog::warn("no log is kept of this attempt: cannot open {}: {}", path_,
               std::strerror(errno));
  return false;
}

void AttemptLog::Append(absl::string_view line) {
  const std::string text =
      absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                                    absl::FromUnixMicros(clock_->WallMicros()),
                                    absl::UTCTimeZone()),
                   " ", absl::StrReplaceAll(line, {{"\n", " "}}), "\n");
  if (broken_ || ::write(fd_, text.data(), text.size()) ==
                     static_cast<ssize_t>(text.size()))
    return;
  broken_ = true;
  spdlog::warn("the log of this attempt is cut short: cannot write {}: {}",
               path_, std::strerror(errno));
}

void AttemptLog::Write(absl::string_view line) {
  if (Open()) Append(line);
}

void AttemptLog::Progress(int64_t steps_run, int64_t done, int64_t total) {
  const int64_t now = clock_->MonotonicMicros();
  if (now - told_us_ < kProgressEveryUs) return;
  const double rate = static_cast<double>(steps_run - told_steps_) * kSecond /
                      static_cast<double>(now - told_us_);
  Write(absl::StrFormat("%d of %d steps, %.4g a second", done, total, rate));
  told_us_ = now;
  told_steps_ = steps_run;
}

void AttemptLog::End(const absl::Status& status, int64_t duration_us) {
  if (fd_ < 0) return;
  const double seconds = static_cast<double>(duration_us) / kSecond;
  if (status.ok()) {
    Append(absl::StrFormat("done after %.1f s", seconds));
  } else {
    Append(absl::StrFormat("ended after %.1f s: %s", seconds,
                           std::string(status.message())));
  }
}

}  // namespace iclsweep

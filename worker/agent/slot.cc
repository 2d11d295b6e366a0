#include "worker/agent/slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& file) {
  return absl::UnavailableError(
      absl::StrCat("cannot write ", file, ": ", std::strerror(errno)));
}

std::optional<std::string> ReadFile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Writes under a temporary name, syncs, renames, syncs the directory.
absl::Status WriteDurably(const std::string& file, const std::string& bytes) {
  const std::string temporary = absl::StrCat(file, ".new");
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return CannotWrite(temporary);
  bool ok = true;
  for (size_t done = 0; done < bytes.size() && ok;) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    ok = n > 0;
    if (ok) done += static_cast<size_t>(n);
  }
  ok = ok && ::fsync(fd) == 0;
  absl::Status failure = ok ? absl::OkStatus() : CannotWrite(temporary);
  ::close(fd);
  if (!ok) return failure;
  if (::rename(temporary.c_str(), file.c_str()) != 0) return CannotWrite(file);
  const int directory = ::open(fs::path(file).parent_path().c_str(),
                               O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
  return absl::OkStatus();
}

std::string NewUuid() {
  std::random_device source;
  std::string bytes(16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(source());
  return absl::BytesToHexString(bytes);
}

constexpr size_t kDigest =
    64;  // hexadecimal SHA-256 in front of a spooled result

}  // namespace

absl::StatusOr<std::unique_ptr<Slot>> Slot::Open(const std::string& directory) {
  std::error_code error;
  fs::create_directories(fs::path(directory) / "spool", error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot make ", directory, ": ", error.message()));
  std::unique_ptr<Slot> slot(new Slot());
  slot->directory_ = directory;
  const std::string lock = absl::StrCat(directory, "/lock");
  slot->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (slot->lock_fd_ < 0) return CannotWrite(lock);
  if (::flock(slot->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "slot ", directory, " is in use by another worker process"));
  }
  const std::string uuid_file = absl::StrCat(directory, "/slot.uuid");
  slot->uuid_ =
      std::string(absl::StripSuffix(ReadFile(uuid_file).value_or(""), "\n"));
  if (slot->uuid_.size() != 32) {
    slot->uuid_ = NewUuid();
    RETURN_IF_ERROR(WriteDurably(uuid_file, absl::StrCat(slot->uuid_, "\n")));
  }
  const std::string running = absl::StrCat(directory, "/running");
  slot->running_fd_ =
      ::open(running.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (slot->running_fd_ < 0) return CannotWrite(running);
  return slot;
}

Slot::~Slot() {
  if (running_fd_ >= 0) ::close(running_fd_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Predecessor Slot::ReadPredecessor() const {
  Predecessor predecessor;
  const std::string running =
      ReadFile(absl::StrCat(directory_, "/running")).value_or("");
  long long job = 0;
  unsigned attempt = 0;
  unsigned long long run = 0;
  unsigned long long done = 0;
  unsigned long long total = 0;
  int checkpointed = 0;
  if (std::sscanf(running.c_str(), "%lld %u %llu %llu %llu %d", &job, &attempt,
                  &run, &done, &total, &checkpointed) == 6) {
    predecessor.progress = {
        {JobId{job}, attempt}, run, done, total, checkpointed != 0};
  }
  // Without the node agent's note the whole node went away: nothing says it was
  // the job's doing.
  predecessor.description = "the node went away";
  const auto exit = ReadFile(absl::StrCat(directory_, "/exit"));
  if (!exit.has_value()) return predecessor;
  std::istringstream lines(*exit);
  std::string cause;
  std::getline(lines, cause);
  std::getline(lines, predecessor.description);
  std::stringstream rest;
  rest << lines.rdbuf();
  predecessor.log_tail = rest.str();
  predecessor.cause = CauseFromName(cause).value_or(Cause::kCrashed);
  return predecessor;
}

void Slot::ForgetPredecessor() {
  std::error_code error;
  fs::remove(fs::path(directory_) / "exit", error);
  ClearRunning();
}

void Slot::MarkRunning(const LeaseProgress& progress) {
  // Fixed width, so that one pwrite replaces the whole mark.
  const std::string mark = absl::StrFormat(
      "%20d %10d %20d %20d %20d %d\n", progress.lease.job.value,
      progress.lease.attempt, progress.steps_run, progress.steps_done,
      progress.steps_total, progress.checkpointed ? 1 : 0);
  [[maybe_unused]] const ssize_t written =
      ::pwrite(running_fd_, mark.data(), mark.size(), 0);
}

void Slot::ClearRunning() { MarkRunning(LeaseProgress{}); }

absl::Status Slot::Spool(const LeaseRef& lease, const std::string& encoded) {
  const std::string file = absl::StrCat(directory_, "/spool/", lease.job.value,
                                        "-", lease.attempt, ".result");
  return WriteDurably(file, absl::StrCat(Sha256Hex(encoded), encoded));
}

absl::StatusOr<std::vector<Slot::Spooled>> Slot::ReadSpool() {
  std::vector<fs::directory_entry> files;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fs::path(directory_) / "spool", error)) {
    if (entry.path().extension() == ".result") files.push_back(entry);
  }
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot read ", directory_, "/spool: ", error.message()));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) {
    std::error_code ignored;
    const auto time_a = a.last_write_time(ignored);
    const auto time_b = b.last_write_time(ignored);
    return std::tie(time_a, a.path()) < std::tie(time_b, b.path());
  });
  std::vector<Spooled> entries;
  for (const auto& entry : files) {
    const std::string file = entry.path().string();
    std::string bytes = ReadFile(file).value_or("");
    const bool whole = bytes.size() > kDigest &&
                       Sha256Hex(absl::string_view(bytes).substr(kDigest)) ==
                           bytes.substr(0, kDigest);
    if (!whole) {
      spdlog::error("{} is damaged: set aside, its job runs again", file);
      fs::rename(entry.path(), absl::StrCat(file, ".damaged"), error);
      continue;
    }
    entries.push_back({file, bytes.substr(kDigest)});
  }
  return entries;
}

absl::Status Slot::Forget(const std::string& file) {
  if (::unlink(file.c_str()) != 0 && errno != ENOENT) return CannotWrite(file);
  return absl::OkStatus();
}

std::vector<LeaseRef> Slot::SpooledLeases() const {
  std::vector<LeaseRef> leases;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator(fs::path(directory_) / "spool", error)) {
    long long job = 0;
    unsigned attempt = 0;
    const bool named = std::sscanf(entry.path().filename().c_str(),
                                   "%lld-%u.result", &job, &attempt) == 2;
    if (named && entry.path().extension() == ".result")
      leases.push_back({JobId{job}, attempt});
  }
  std::sort(leases.begin(), leases.end());
  return leases;
}

void WriteExit(const std::string& slot_directory, const std::string& cause,
               const std::string& description, const std::string& log_tail) {
  WriteDurably(absl::StrCat(slot_directory, "/exit"),
               absl::StrCat(cause, "\n", description, "\n", log_tail))
      .IgnoreError();
}

}  // namespace iclsweep

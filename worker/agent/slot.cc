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

bool WriteAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void SyncDirectory(const fs::path& path) {
  const int directory =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return;
  ::fsync(directory);
  ::close(directory);
}

// Writes under a temporary name, syncs, renames, syncs the directory.
absl::Status WriteDurably(const std::string& file, const std::string& bytes) {
  const std::string temporary = absl::StrCat(file, ".new");
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return CannotWrite(temporary);
  const bool ok = WriteAll(fd, bytes) && ::fsync(fd) == 0;
  absl::Status failure = ok ? absl::OkStatus() : CannotWrite(temporary);
  ::close(fd);
  if (!ok) return failure;
  if (::rename(temporary.c_str(), file.c_str()) != 0) return CannotWrite(file);
  SyncDirectory(fs::path(file).parent_path());
  return absl::OkStatus();
}

std::string NewUuid() {
  std::random_device source;
  std::string bytes(16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(source());
  return absl::BytesToHexString(bytes);
}

// An entry of the spool: a line "<job> <attempt> <bytes> <SHA-256 of them>",
// the bytes, and a line feed.
std::string SpoolEntry(const LeaseRef& lease, const std::string& encoded) {
  return absl::StrCat(lease.job.value, " ", lease.attempt, " ", encoded.size(),
                      " ", Sha256Hex(encoded), "\n", encoded, "\n");
}

// Takes the first whole entry off the bytes, and whatever is damaged before it;
// nullopt when there is none left. `*damaged` tells of the latter.
std::optional<Slot::Spooled> NextEntry(absl::string_view* bytes,
                                       bool* damaged) {
  while (!bytes->empty()) {
    const size_t line = bytes->find('\n');
    if (line == absl::string_view::npos) break;
    long long job = 0;
    unsigned attempt = 0;
    unsigned long long size = 0;
    char digest[65] = {};
    const std::string header(bytes->substr(0, line));
    const bool read = std::sscanf(header.c_str(), "%lld %u %llu %64s", &job,
                                  &attempt, &size, digest) == 4;
    bytes->remove_prefix(line + 1);
    // After a damaged header the next line may be a whole one.
    if (!read || size >= bytes->size() || (*bytes)[size] != '\n') {
      *damaged = true;
      continue;
    }
    const absl::string_view encoded = bytes->substr(0, size);
    if (Sha256Hex(encoded) != digest) {
      *damaged = true;
      continue;
    }
    bytes->remove_prefix(size + 1);
    return Slot::Spooled{{JobId{job}, attempt}, std::string(encoded)};
  }
  *damaged |= !bytes->empty();
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Slot>> Slot::Open(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
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
  RETURN_IF_ERROR(slot->OpenSpool());
  return slot;
}

Slot::~Slot() {
  if (spool_fd_ >= 0) ::close(spool_fd_);
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

absl::Status Slot::OpenSpool() {
  const std::string file = absl::StrCat(directory_, "/spool");
  const std::string stored = ReadFile(file).value_or("");
  absl::string_view rest = stored;
  bool damaged = false;
  while (std::optional<Spooled> entry = NextEntry(&rest, &damaged))
    spooled_.push_back(*std::move(entry));
  if (damaged) {
    spdlog::error(
        "{} is damaged: kept as {}.damaged, the jobs of its torn "
        "results run again",
        file, file);
    RETURN_IF_ERROR(WriteDurably(absl::StrCat(file, ".damaged"), stored));
    std::string whole;
    for (const Spooled& entry : spooled_)
      absl::StrAppend(&whole, SpoolEntry(entry.lease, entry.encoded));
    RETURN_IF_ERROR(WriteDurably(file, whole));
    spool_bytes_ = static_cast<int64_t>(whole.size());
  } else {
    spool_bytes_ = static_cast<int64_t>(stored.size());
  }
  spool_fd_ =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (spool_fd_ < 0) return CannotWrite(file);
  SyncDirectory(directory_);
  NoteSpooledLeases();
  return absl::OkStatus();
}

void Slot::NoteSpooledLeases() {
  std::vector<LeaseRef> leases;
  leases.reserve(spooled_.size());
  for (const Spooled& entry : spooled_) leases.push_back(entry.lease);
  MutexLock lock(&mu_);
  spooled_leases_ = std::move(leases);
}

absl::Status Slot::Spool(const LeaseRef& lease, const std::string& encoded) {
  const std::string entry = SpoolEntry(lease, encoded);
  if (!WriteAll(spool_fd_, entry)) {
    absl::Status status = CannotWrite(absl::StrCat(directory_, "/spool"));
    [[maybe_unused]] const int cut = ::ftruncate(spool_fd_, spool_bytes_);
    return status;
  }
  spool_bytes_ += static_cast<int64_t>(entry.size());
  spooled_.push_back({lease, encoded});
  MutexLock lock(&mu_);
  spooled_leases_.push_back(lease);
  return absl::OkStatus();
}

absl::Status Slot::SyncSpool() {
  if (::fdatasync(spool_fd_) == 0) return absl::OkStatus();
  return CannotWrite(absl::StrCat(directory_, "/spool"));
}

absl::Status Slot::ForgetSpooled(size_t count) {
  spooled_.erase(spooled_.begin(),
                 spooled_.begin() + static_cast<std::ptrdiff_t>(count));
  NoteSpooledLeases();
  // What stays in the file until all of it was acknowledged is at worst
  // delivered twice.
  if (!spooled_.empty()) return absl::OkStatus();
  spool_bytes_ = 0;
  if (::ftruncate(spool_fd_, 0) == 0) return absl::OkStatus();
  return CannotWrite(absl::StrCat(directory_, "/spool"));
}

std::vector<LeaseRef> Slot::SpooledLeases() const {
  MutexLock lock(&mu_);
  return spooled_leases_;
}

void WriteExit(const std::string& slot_directory, const std::string& cause,
               const std::string& description, const std::string& log_tail) {
  WriteDurably(absl::StrCat(slot_directory, "/exit"),
               absl::StrCat(cause, "\n", description, "\n", log_tail))
      .IgnoreError();
}

}  // namespace iclsweep

#include "coordinator/service/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/clock.h"

namespace iclsweep {
namespace {

// The lock's lines: its owner, and where that listens.
std::vector<std::string> ReadLock(int fd) {
  std::array<char, 1024> buffer{};
  const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
  const absl::string_view text(buffer.data(),
                               size > 0 ? static_cast<size_t>(size) : 0);
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

std::string ReadOwner(int fd) {
  const std::vector<std::string> lines = ReadLock(fd);
  return lines.empty() ? "another process" : lines.front();
}

std::string LockFile(const std::string& data_dir) {
  return absl::StrCat(data_dir, "/coordinator.lock");
}

// 0, or errno. AddressOfOwner of another process holds the lock for a moment.
int TakeLock(int fd) {
  constexpr int tries = 5;
  for (int i = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK || i == tries) return errno;
    RealClock()->SleepMicros(5'000);
  }
  return 0;
}

}  // namespace

std::string ThisProcess() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return absl::StrCat("host ", host.data(), ", pid ", ::getpid());
}

absl::StatusOr<int> LockDataDir(const std::string& data_dir) {
  for (const char* folder : {"", "artifacts", "partial", "logs", "slots"}) {
    std::error_code error;
    std::filesystem::create_directories(
        std::filesystem::path(data_dir) / folder, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot make the data directory ", data_dir, "/", folder,
                       ": ", error.message()));
    }
  }
  const std::string file = LockFile(data_dir);
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return absl::UnavailableError(
        absl::StrCat("cannot open ", file, ": ", std::strerror(errno)));
  if (const int reason = TakeLock(fd); reason != 0) {
    const std::string owner = ReadOwner(fd);
    ::close(fd);
    if (reason != EWOULDBLOCK)
      return absl::UnavailableError(
          absl::StrCat("cannot lock ", file, ": ", std::strerror(reason)));
    return absl::FailedPreconditionError(
        absl::StrCat("the data directory ", data_dir,
                     " is in use by a coordinator: ", owner));
  }
  const std::string owner = absl::StrCat(
      ThisProcess(), ", since ",
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()),
      "\n");
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, owner.data(), owner.size(), 0) !=
                                     static_cast<ssize_t>(owner.size())) {
    const int reason = errno;
    ::close(fd);
    return absl::UnavailableError(
        absl::StrCat("cannot write ", file, ": ", std::strerror(reason)));
  }
  return fd;
}

absl::Status TellAddress(int lock_fd, const std::string& address) {
  const off_t end = ::lseek(lock_fd, 0, SEEK_END);
  const std::string line = absl::StrCat(address, "\n");
  if (end >= 0 && ::pwrite(lock_fd, line.data(), line.size(), end) ==
                      static_cast<ssize_t>(line.size()))
    return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write coordinator.lock: ", std::strerror(errno)));
}

absl::StatusOr<std::string> AddressOfOwner(const std::string& data_dir) {
  const absl::Status none = absl::NotFoundError(
      absl::StrCat("no coordinator runs on the data directory ", data_dir));
  const int fd = ::open(LockFile(data_dir).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return none;
  const auto close = absl::MakeCleanup([fd] { ::close(fd); });
  if (::flock(fd, LOCK_SH | LOCK_NB) == 0) return none;
  const std::vector<std::string> lines = ReadLock(fd);
  return lines.size() < 2 ? none : absl::StatusOr<std::string>(lines[1]);
}

}  // namespace iclsweep

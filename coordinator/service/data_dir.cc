#include "coordinator/service/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace iclsweep {
namespace {

std::string ReadOwner(int fd) {
  std::array<char, 512> buffer{};
  const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), 0);
  const absl::string_view text(buffer.data(),
                               size > 0 ? static_cast<size_t>(size) : 0);
  return text.empty() ? "another process"
                      : std::string(absl::StripSuffix(text, "\n"));
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
  const std::string file = absl::StrCat(data_dir, "/coordinator.lock");
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return absl::UnavailableError(
        absl::StrCat("cannot open ", file, ": ", std::strerror(errno)));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
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

}  // namespace iclsweep

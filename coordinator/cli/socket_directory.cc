#include "coordinator/cli/socket_directory.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace iclsweep {
namespace {

constexpr char kPrefix[] = "iclsweep-";
constexpr char kUnique[] = "XXXXXX";
constexpr char kSocket[] = "coordinator";
constexpr time_t kWithoutSocketS = 60;
// Between a socket's bind and its listen nobody listens either.
constexpr time_t kYoungSocketS = 1;

time_t AgeS(const struct stat& info) { return ::time(nullptr) - info.st_mtime; }

// Whether a connection is refused; any other answer, and none, is no.
bool NobodyListens(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, socket_path.c_str(), socket_path.size() + 1);
  const int fd =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool refused =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address),
                sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  ::close(fd);
  return refused;
}

bool IsStale(const std::string& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) ||
      info.st_uid != ::geteuid())
    return false;
  const std::string socket_path = absl::StrCat(directory, "/", kSocket);
  struct stat socket_info {};
  if (::lstat(socket_path.c_str(), &socket_info) != 0)
    return errno == ENOENT && AgeS(info) > kWithoutSocketS;
  return S_ISSOCK(socket_info.st_mode) && AgeS(socket_info) > kYoungSocketS &&
         NobodyListens(socket_path);
}

}  // namespace

SocketDirectory::SocketDirectory(const std::string& base) {
  std::string pattern = absl::StrCat(base, "/", kPrefix, kUnique);
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

SocketDirectory::~SocketDirectory() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

std::string SocketDirectory::Base() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && std::string(runtime).size() < 60 &&
                 ::access(runtime, W_OK) == 0
             ? runtime
             : "/tmp";
}

void SocketDirectory::RemoveStale(const std::string& base) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(base, error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!absl::StartsWith(name, kPrefix) ||
        name.size() != std::strlen(kPrefix) + std::strlen(kUnique) ||
        !IsStale(it->path().string()))
      continue;
    ::unlink((it->path() / kSocket).c_str());
    ::rmdir(it->path().c_str());
  }
}

}  // namespace iclsweep

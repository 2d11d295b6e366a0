#include "coordinator/service/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/address.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

absl::Status Cannot(const std::string& listen, absl::string_view reason) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", listen, ": ", reason));
}

// Connects to the socket file: 0, or the reason why not.
int TryConnect(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  const absl::Cleanup close = [fd] { ::close(fd); };
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int result =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  return result == 0 ? 0 : errno;
}

absl::Status CheckUnix(const std::string& listen, const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      return Cannot(listen, "a file that is no socket has that name");
    const int reason = TryConnect(path);
    if (reason == ECONNREFUSED) return absl::OkStatus();  // left behind
    return Cannot(listen, reason == 0 ? "another program listens there"
                                      : std::strerror(reason));
  }
  if (errno != ENOENT) return Cannot(listen, std::strerror(errno));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return Cannot(listen, absl::StrCat(folder, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status CheckTcp(const std::string& listen, const Address& address) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(
      address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0) return Cannot(listen, ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(
      found, &::freeaddrinfo);
  int reason = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      reason = errno;
      continue;  // a family that this machine does not have
    }
    const absl::Cleanup close = [fd] { ::close(fd); };
    const int on = 1;  // as the server: connections just closed are no obstacle
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (::bind(fd, one->ai_addr, one->ai_addrlen) == 0) return absl::OkStatus();
    reason = errno;
  }
  return Cannot(listen, std::strerror(reason));
}

}  // namespace

absl::Status CheckListenAddress(const std::string& listen, bool insecure) {
  ASSIGN_OR_RETURN(const Address address, ParseAddress("--listen", listen));
  if (!address.is_local() && !insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen,
                     " is reachable from other machines without encryption; "
                     "add --insecure to accept that"));
  }
  return address.is_unix() ? CheckUnix(listen, address.unix_path)
                           : CheckTcp(listen, address);
}

}  // namespace iclsweep

#include "proto/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace iclsweep {
namespace {

// With its closing zero.
constexpr size_t kLongestUnixPath = sizeof(sockaddr_un::sun_path);
constexpr int kLargestPort = 65535;

bool IsHost(absl::string_view text) {
  return !text.empty() &&
         std::none_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isspace(c) || c == '/' || c == '[' || c == ']';
         });
}

// Addresses only: the name 127.example.org may be of any machine.
bool IsLoopback(const std::string& host) {
  in_addr v4 = {};
  in6_addr v6 = {};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return ntohl(v4.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

absl::StatusOr<uint16_t> ParsePort(absl::string_view prefix,
                                   absl::string_view text) {
  int port = 0;
  const bool digits =
      !text.empty() && text.size() < 6 &&
      std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (digits && absl::SimpleAtoi(text, &port) && port <= kLargestPort)
    return static_cast<uint16_t>(port);
  return absl::InvalidArgumentError(absl::StrCat(
      prefix, "the port must be a number from 0 to ", kLargestPort));
}

}  // namespace

bool Address::is_local() const {
  return is_unix() || host == "localhost" || IsLoopback(host);
}

absl::StatusOr<Address> ParseAddress(absl::string_view flag,
                                     absl::string_view text) {
  const std::string prefix = absl::StrCat(flag, " '", text, "': ");
  Address address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (!absl::StartsWith(rest, "/"))
      return absl::InvalidArgumentError(absl::StrCat(
          prefix, "a socket's path must be absolute (unix:/path)"));
    if (rest.size() >= kLongestUnixPath)
      return absl::InvalidArgumentError(
          absl::StrCat(prefix, "a socket's path has at most ",
                       kLongestUnixPath - 1, " characters"));
    address.unix_path = std::string(rest);
    return address;
  }
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon);
  const bool bracketed =
      absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  if (colon == absl::string_view::npos || !IsHost(host) ||
      bracketed != absl::StrContains(host, ':')) {
    return absl::InvalidArgumentError(
        absl::StrCat(prefix, "must be host:port, [IPv6]:port or unix:/path"));
  }
  address.host = std::string(host);
  auto port = ParsePort(prefix, text.substr(colon + 1));
  if (!port.ok()) return port.status();
  address.port = *port;
  return address;
}

}  // namespace iclsweep

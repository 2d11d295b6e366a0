// Where a coordinator is: host:port, [IPv6]:port or unix:/path.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

struct Address {
  std::string host;  // without brackets; empty for a unix socket
  uint16_t port = 0;
  std::string unix_path;

  bool is_unix() const { return !unix_path.empty(); }
  // Only processes of this machine reach it.
  bool is_local() const;
};

// InvalidArgument that begins with `flag` and the text. Port 0 (any free one)
// is allowed: only who listens may use it.
absl::StatusOr<Address> ParseAddress(absl::string_view flag,
                                     absl::string_view text);

}  // namespace iclsweep

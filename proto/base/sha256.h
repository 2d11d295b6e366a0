// SHA-256 (OpenSSL) over bytes and files.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& Update(absl::string_view bytes);
  std::array<uint8_t, 32> Finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Sha256Hex(absl::string_view bytes);
// NotFound or Unavailable naming the file.
absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path);

}  // namespace iclsweep

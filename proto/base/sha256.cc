#include "proto/base/sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace iclsweep {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (state_->context == nullptr ||
      EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
    std::abort();
}
Sha256::~Sha256() = default;

Sha256& Sha256::Update(absl::string_view bytes) {
  if (EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1)
    std::abort();
  return *this;
}

std::array<uint8_t, 32> Sha256::Finish() {
  std::array<uint8_t, 32> digest{};
  if (EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) != 1)
    std::abort();
  return digest;
}

namespace {
std::string Hex(const std::array<uint8_t, 32>& digest) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), digest.size()));
}
}  // namespace

std::string Sha256Hex(absl::string_view bytes) {
  return Hex(Sha256().Update(bytes).Finish());
}

absl::StatusOr<std::string> Sha256HexOfFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    const std::string message =
        absl::StrCat("cannot read ", path, ": ", std::strerror(errno));
    if (errno == ENOENT) return absl::NotFoundError(message);
    return absl::UnavailableError(message);
  }
  const absl::Cleanup close = [file] { std::fclose(file); };
  Sha256 hash;
  std::vector<char> buffer(1 << 16);
  for (size_t n = 0;
       (n = std::fread(buffer.data(), 1, buffer.size(), file)) > 0;) {
    hash.Update(absl::string_view(buffer.data(), n));
  }
  if (std::ferror(file) != 0)
    return absl::UnavailableError(absl::StrCat("cannot read ", path));
  return Hex(hash.Finish());
}

}  // namespace iclsweep

#include "worker/model/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/sha256.h"
#include "proto/base/status_macros.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;

absl::Status DiskError(absl::string_view what, const std::string& path,
                       int error) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", path, ": ", std::strerror(error)));
}

absl::Status DiskError(absl::string_view what, const std::string& path,
                       const std::error_code& error) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", path, ": ", error.message()));
}

absl::Status WriteAndSync(const std::string& path, absl::string_view bytes) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return DiskError("cannot create", path, errno);
  absl::Cleanup close_file = [fd] { close(fd); };
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return DiskError("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(fd) != 0) return DiskError("cannot sync", path, errno);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return DiskError("cannot open", path, errno);
  absl::Cleanup close_directory = [fd] { close(fd); };
  if (fsync(fd) != 0) return DiskError("cannot sync", path, errno);
  return absl::OkStatus();
}

std::string ParentOf(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// A new empty folder beside `path`, on the same file system; its name starts
// with a dot.
absl::StatusOr<std::string> TemporaryBeside(const std::string& path) {
  std::string name =
      (fs::path(ParentOf(path)) /
       absl::StrCat(".", fs::path(path).filename().string(), ".XXXXXX"))
          .string();
  if (mkdtemp(name.data()) == nullptr)
    return DiskError("cannot create a folder", name, errno);
  if (chmod(name.c_str(), 0755) != 0)
    return DiskError("cannot change the mode of", name, errno);
  return name;
}

absl::StatusOr<nlohmann::json> DescribeFile(const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return DiskError("cannot read the size of", path, error);
  ASSIGN_OR_RETURN(std::string sha256, Sha256HexOfFile(path));
  return nlohmann::json{{"sha256", std::move(sha256)}, {"bytes", bytes}};
}

// Renames whatever lies at `path` out of the way and removes it.
absl::Status RemoveBroken(const std::string& path) {
  if (!fs::exists(fs::symlink_status(path))) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string aside, TemporaryBeside(path));
  std::error_code error;
  fs::rename(path, fs::path(aside) / "broken", error);
  if (error && error != std::errc::no_such_file_or_directory)
    return DiskError("cannot move away", path, error);
  return RemoveTree(aside);
}

// Renames a finished folder to its place. A rename replaces only an empty
// folder, so a valid one that appears in between is never lost.
absl::Status RenameInto(const std::string& temporary,
                        const std::string& directory) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (rename(temporary.c_str(), directory.c_str()) == 0) {
      return absl::OkStatus();
    }
    const int error = errno;
    if (error != ENOTEMPTY && error != EEXIST && error != ENOTDIR) {
      return DiskError("cannot rename to", directory, error);
    }
    if (CheckManifest(directory).ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat("already published: ", directory));
    }
    RETURN_IF_ERROR(RemoveBroken(directory));
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot publish ", directory, ": another writer keeps replacing it"));
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    if (errno == ENOENT)
      return absl::NotFoundError(absl::StrCat("no file ", path));
    return DiskError("cannot open", path, errno);
  }
  std::string bytes{std::istreambuf_iterator<char>(in),
                    std::istreambuf_iterator<char>()};
  if (in.bad()) return DiskError("cannot read", path, errno);
  return bytes;
}

absl::Status WriteFileDurably(const std::string& path,
                              absl::string_view bytes) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  absl::Cleanup remove = [&temporary] { unlink(temporary.c_str()); };
  RETURN_IF_ERROR(WriteAndSync(temporary, bytes));
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return DiskError("cannot rename to", path, errno);
  std::move(remove).Cancel();
  return SyncDirectory(ParentOf(path));
}

absl::Status CreateDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return DiskError("cannot create the folder", path, error);
  return absl::OkStatus();
}

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return DiskError("cannot remove", path, error);
  return absl::OkStatus();
}

absl::Status WriteManifest(const std::string& directory) {
  nlohmann::json manifest = nlohmann::json::object();
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == kManifestName) continue;
    ASSIGN_OR_RETURN(manifest[name], DescribeFile(it->path().string()));
  }
  if (error) return DiskError("cannot list", directory, error);
  return WriteFileDurably(
      (fs::path(directory) / std::string(kManifestName)).string(),
      manifest.dump(1) + "\n");
}

absl::Status CheckManifest(const std::string& directory) {
  const std::string path =
      (fs::path(directory) / std::string(kManifestName)).string();
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok())
    return absl::DataLossError(
        absl::StrCat("incomplete: ", text.status().message()));
  const nlohmann::json manifest =
      nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object() || manifest.empty())
    return absl::DataLossError(absl::StrCat("not a manifest: ", path));
  for (const auto& [name, expected] : manifest.items()) {
    const std::string file = (fs::path(directory) / name).string();
    const absl::StatusOr<nlohmann::json> found = DescribeFile(file);
    if (!found.ok())
      return absl::DataLossError(
          absl::StrCat("incomplete: ", found.status().message()));
    if (*found != expected)
      return absl::DataLossError(
          absl::StrCat("damaged (differs from its manifest): ", file));
  }
  return absl::OkStatus();
}

absl::Status PublishDirectory(
    const std::string& directory,
    const std::function<absl::Status(const std::string& temporary)>& fill) {
  RETURN_IF_ERROR(CreateDirectories(ParentOf(directory)));
  ASSIGN_OR_RETURN(const std::string temporary, TemporaryBeside(directory));
  absl::Cleanup remove = [&temporary] { RemoveTree(temporary).IgnoreError(); };
  RETURN_IF_ERROR(fill(temporary));
  RETURN_IF_ERROR(WriteManifest(temporary));
  RETURN_IF_ERROR(SyncDirectory(temporary));
  RETURN_IF_ERROR(RenameInto(temporary, directory));
  std::move(remove).Cancel();
  return SyncDirectory(ParentOf(directory));
}

}  // namespace iclsweep

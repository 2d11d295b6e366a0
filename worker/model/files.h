// Files that survive a crash: whole-file writes and whole-directory publication
// by temporary name, fsync and rename, and the checksum manifest that says a
// directory is complete. Not a general file library.
//
// A directory with a manifest (manifest.json: file name -> {"sha256", "bytes"},
// written last) is valid when every file it names has the recorded size and
// checksum. Thread-safe as long as no two threads write the same path.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

inline constexpr absl::string_view kManifestName = "manifest.json";

// NotFound (no such file) or Unavailable, naming the file.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path` whole: temporary name beside it, fsync, rename, fsync of the
// folder. Unavailable, naming the file.
absl::Status WriteFileDurably(const std::string& path, absl::string_view bytes);

// Creates `path` and its parents. Unavailable.
absl::Status CreateDirectories(const std::string& path);

// Removes `path` and everything below it; fine when there is nothing.
// Unavailable.
absl::Status RemoveTree(const std::string& path);

// Writes manifest.json over every regular file directly in `directory`.
// Unavailable.
absl::Status WriteManifest(const std::string& directory);

// DataLoss naming the first file that differs from manifest.json, is missing,
// or when there is no readable manifest.
absl::Status CheckManifest(const std::string& directory);

// Makes `directory` appear whole: `fill` writes into a temporary folder beside
// it, the manifest follows, then one rename. REQUIRES: nothing valid exists at
// `directory`; something broken there is moved away and removed. Errors:
// fill's, AlreadyExists when another writer published a valid directory first,
// Unavailable.
absl::Status PublishDirectory(
    const std::string& directory,
    const std::function<absl::Status(const std::string& temporary)>& fill);

}  // namespace iclsweep

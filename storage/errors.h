// Every error the storage folder returns, by name.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

inline absl::Status DatabaseUnavailable(absl::string_view file,
                                        absl::string_view doing,
                                        absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat(file, ": ", doing, ": ", reason));
}

inline absl::Status DiskFull(absl::string_view file, absl::string_view doing,
                             absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat(
      file, ": ", doing, ": ", reason,
      "; free some space, then the same command goes on where it was"));
}

inline absl::Status DatabaseCorrupt(absl::string_view file,
                                    absl::string_view reason) {
  return absl::DataLossError(
      absl::StrCat(file, ": not a readable iclsweep database (", reason,
                   "); restore a backup or choose another --data"));
}

inline absl::Status NotOurDatabase(absl::string_view file) {
  return absl::DataLossError(
      absl::StrCat(file,
                   ": an SQLite database, but not one of iclsweep's; choose "
                   "another --data"));
}

inline absl::Status NewerSchema(absl::string_view file, int found, int known) {
  return absl::FailedPreconditionError(absl::StrCat(
      file, ": has schema version ", found, ", this program knows up to ",
      known, "; use a newer iclsweep"));
}

inline absl::Status DatabaseMissing(absl::string_view file) {
  return absl::NotFoundError(
      absl::StrCat(file,
                   ": no such database; run a sweep first, or name the data "
                   "directory with --data"));
}

inline absl::Status ResultExists(int64_t job) {
  return absl::AlreadyExistsError(
      absl::StrCat("job ", job, " has a result already"));
}

}  // namespace iclsweep

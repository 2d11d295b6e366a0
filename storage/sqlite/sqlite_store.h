// The real store: one SQLite file in WAL mode with synchronous=FULL, so what
// Commit acknowledged survives a power cut.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/sqlite/database.h"
#include "storage/store.h"

namespace iclsweep {

inline constexpr int kSchemaVersion = 6;

// Opens the file for writing, creating or migrating it (after a backup beside
// it). FailedPrecondition: newer schema. DataLoss: corrupt, or somebody else's
// database. Unavailable: cannot open or write.
absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& file);

// Opens the file for reading only, checked alike. NotFound when it does not
// exist.
absl::StatusOr<std::unique_ptr<Database>> OpenForReading(
    const std::string& file);

}  // namespace iclsweep

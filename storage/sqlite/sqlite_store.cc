#include "storage/sqlite/sqlite_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "storage/errors.h"
#include "storage/sqlite/store_impl.h"
#include "storage/sqlite/views.h"
#include "storage_schema.h"

namespace iclsweep {
namespace {

// "icls": marks the file as ours (PRAGMA application_id).
constexpr int64_t kApplicationId = 0x69636c73;

std::string NewUuid() {
  std::random_device source;
  std::string bytes(16, '\0');
  for (char& byte : bytes) byte = static_cast<char>(source());
  return absl::BytesToHexString(bytes);
}

// 0 = an empty (new) database.
absl::StatusOr<int64_t> CheckedSchemaVersion(Database* database) {
  ASSIGN_OR_RETURN(
      const int64_t tables,
      database->QueryInteger("SELECT count(*) FROM sqlite_schema"));
  ASSIGN_OR_RETURN(const int64_t version,
                   database->QueryInteger("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const int64_t application,
                   database->QueryInteger("PRAGMA application_id"));
  if (tables == 0 && version == 0 && application == 0) return 0;
  if (application != kApplicationId) return NotOurDatabase(database->file());
  if (version > kSchemaVersion)
    return NewerSchema(database->file(), static_cast<int>(version),
                       kSchemaVersion);
  return version;
}

absl::Status FillNewDatabase(Database* database) {
  RETURN_IF_ERROR(
      database->Prepare("INSERT INTO meta VALUES ('database_uuid', ?)")
          .Bind(absl::string_view(NewUuid()))
          .Run());
  return database->Execute(ViewsSql({}));
}

absl::Status Migrate(Database* database, int64_t version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  if (version > 0)
    RETURN_IF_ERROR(database->BackupTo(
        absl::StrCat(database->file(), ".before-schema-", kSchemaVersion)));
  RETURN_IF_ERROR(database->Execute("BEGIN IMMEDIATE"));
  for (int64_t next = version + 1; next <= kSchemaVersion; ++next) {
    RETURN_IF_ERROR(database->Execute(kMigrations[next - 1]));
  }
  if (version == 0) RETURN_IF_ERROR(FillNewDatabase(database));
  RETURN_IF_ERROR(database->Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId,
                   "; PRAGMA user_version = ", kSchemaVersion)));
  return database->Execute("COMMIT");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(
    const std::string& file) {
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(file, Database::Mode::kReadWrite));
  ASSIGN_OR_RETURN(const int64_t version, CheckedSchemaVersion(database.get()));
  RETURN_IF_ERROR(
      database->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                        "PRAGMA foreign_keys = ON"));
  RETURN_IF_ERROR(Migrate(database.get(), version));
  auto store = std::make_unique<SqliteStore>(std::move(database));
  RETURN_IF_ERROR(store->Begin());
  RETURN_IF_ERROR(store->RemakeViews());  // another build may have made them
  RETURN_IF_ERROR(store->Commit());
  return store;
}

absl::StatusOr<std::unique_ptr<Database>> OpenForReading(
    const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) {
    if (errno == ENOENT) return DatabaseMissing(file);
    return DatabaseUnavailable(file, "opening", std::strerror(errno));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                   Database::Open(file, Database::Mode::kReadOnly));
  ASSIGN_OR_RETURN(const int64_t version, CheckedSchemaVersion(database.get()));
  if (version == 0) return NotOurDatabase(file);
  return database;
}

}  // namespace iclsweep

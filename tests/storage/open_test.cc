#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "storage/sqlite/sqlite_store.h"
#include "tests/support/status_matchers.h"
#include "tests/support/store_rows.h"
#include "tests/support/temp_dir.h"

// Calls of the C library's functions that SQLite makes to force its log onto
// the disk, counted.
std::atomic<int> syncs = 0;
extern "C" int fsync(int fd) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace iclsweep {
namespace {

using ::testing::AllOf;
using testing::BytesOfFile;
using testing::CommittedRows;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using testing::StatusIs;

class OpenTest : public ::testing::Test {
 protected:
  // A database made by somebody else, with a rollback journal.
  void MakeForeign(const std::string& sql) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                         Database::Open(file_, Database::Mode::kReadWrite));
    ASSERT_OK(database->Execute(sql));
  }
  // Runs SQL on our database behind the store's back.
  void Alter(const std::string& sql) { MakeForeign(sql); }

  testing::TempDir dir_;
  const std::string file_ = dir_.Path("iclsweep.db");
};

TEST_F(OpenTest, NewFileGetsTheSchemaItsVersionAndOurMark) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                       OpenSqliteStore(file_));
  EXPECT_THAT(CommittedRows(file_, "PRAGMA user_version"),
              ElementsAre(absl::StrCat(kSchemaVersion)));
  // "icls" in ASCII.
  EXPECT_THAT(
      CommittedRows(file_, "PRAGMA application_id"),
      ElementsAre(absl::StrCat('i' << 24 | 'c' << 16 | 'l' << 8 | 's')));
  EXPECT_THAT(
      CommittedRows(file_,
                    "SELECT name FROM sqlite_schema WHERE type IN "
                    "('table', 'view')"),
      IsSupersetOf({"sweep", "sweep_revision", "cell", "cell_job", "job",
                    "job_dependency", "attempt", "result", "measurement",
                    "curve", "artifact", "worker", "event", "results", "cells",
                    "progress", "attempts", "failures", "best"}));
}

TEST_F(OpenTest, EveryTableIsStrict) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                       OpenSqliteStore(file_));
  EXPECT_THAT(CommittedRows(file_,
                            "SELECT name FROM pragma_table_list WHERE type = "
                            "'table' AND NOT strict AND name NOT LIKE "
                            "'sqlite_%'"),
              IsEmpty());
}

TEST_F(OpenTest, WritesAheadAndSyncsFully) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                       OpenSqliteStore(file_));
  // The file's header says which format writes and reads it: 2 is WAL.
  const std::string header = BytesOfFile(file_);
  ASSERT_GE(header.size(), 100U);
  EXPECT_EQ(header[18], 2);
  EXPECT_EQ(header[19], 2);
  // synchronous belongs to the connection, which only the store can ask; but in
  // this mode a commit reaches the disk with FULL and not with less.
  ASSERT_OK(store->Begin());
  ASSERT_OK(store->NewEpoch("me", 1).status());
  const int before = syncs;
  ASSERT_OK(store->Commit());
  EXPECT_GT(syncs.load(), before);
}

TEST_F(OpenTest, IdentityIsMadeOnceAndKept) {
  std::string first;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                         OpenSqliteStore(file_));
    ASSERT_OK_AND_ASSIGN(first, store->DatabaseUuid());
  }
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> again,
                       OpenSqliteStore(file_));
  ASSERT_OK_AND_ASSIGN(const std::string second, again->DatabaseUuid());
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), 32U);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> other,
                       OpenSqliteStore(dir_.Path("other.db")));
  ASSERT_OK_AND_ASSIGN(const std::string different, other->DatabaseUuid());
  EXPECT_NE(first, different);
}

TEST_F(OpenTest, EveryStartOpensTheNextEpoch) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                       OpenSqliteStore(file_));
  ASSERT_OK(store->Begin());
  ASSERT_OK_AND_ASSIGN(const uint64_t first, store->NewEpoch("host, pid 1", 5));
  ASSERT_OK_AND_ASSIGN(const uint64_t second,
                       store->NewEpoch("host, pid 2", 6));
  ASSERT_OK(store->Commit());
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 2U);
  EXPECT_THAT(CommittedRows(file_, "SELECT * FROM coordinator"),
              ElementsAre("1|host, pid 1|5", "2|host, pid 2|6"));
}

TEST_F(OpenTest, EmptyFileBecomesADatabase) {
  testing::WriteBytes(file_, "");
  EXPECT_OK(OpenSqliteStore(file_).status());
  EXPECT_OK(OpenForReading(file_).status());
}

TEST_F(OpenTest, OlderSchemaIsBroughtUpToDateAfterABackup) {
  const std::string first = BytesOfFile("../storage/schema/001_initial.sql");
  ASSERT_FALSE(first.empty());
  MakeForeign(absl::StrCat(
      first,
      "INSERT INTO meta VALUES ('database_uuid', 'old-one');"
      "INSERT INTO job (key, stage, state, numerics_version, inputs, "
      "created_us) VALUES (zeroblob(32), 'train', 'ready', 1, x'', 7);"
      "INSERT INTO sweep VALUES (1, 'old', 1, 7);"
      "INSERT INTO cell VALUES (1, 'a', 0, 1, '{}'), (1, 'b', 1, 1, '{}');"
      "INSERT INTO cell_job VALUES (1, 'a', 1), (1, 'b', 1);"
      "PRAGMA application_id = ",
      'i' << 24 | 'c' << 16 | 'l' << 8 | 's', "; PRAGMA user_version = 1"));
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                         OpenSqliteStore(file_));
    ASSERT_OK_AND_ASSIGN(const std::string uuid, store->DatabaseUuid());
    EXPECT_EQ(uuid, "old-one");
  }
  EXPECT_THAT(CommittedRows(file_, "PRAGMA user_version"),
              ElementsAre(absl::StrCat(kSchemaVersion)));
  EXPECT_THAT(CommittedRows(file_,
                            "SELECT state, created_us, max_attempts "
                            "FROM job"),
              ElementsAre("ready|7|3"));
  EXPECT_THAT(CommittedRows(file_,
                            "SELECT sweep, stage, jobs, ready FROM "
                            "progress"),
              ElementsAre("old|train|1|1"));
  const std::string backup =
      absl::StrCat(file_, ".before-schema-", kSchemaVersion);
  EXPECT_THAT(CommittedRows(backup, "PRAGMA user_version"), ElementsAre("1"));
  EXPECT_THAT(CommittedRows(backup, "SELECT created_us FROM job"),
              ElementsAre("7"));
}

TEST_F(OpenTest, NewerSchemaIsRefusedByBothVersions) {
  EXPECT_OK(OpenSqliteStore(file_).status());
  Alter("PRAGMA user_version = 99");
  const auto names_both =
      AllOf(HasSubstr(file_), HasSubstr("schema version 99"),
            HasSubstr(absl::StrCat("up to ", kSchemaVersion)));
  EXPECT_THAT(OpenSqliteStore(file_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, names_both));
  EXPECT_THAT(OpenForReading(file_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, names_both));
}

TEST_F(OpenTest, SomebodyElsesDatabaseIsRefusedAndLeftAlone) {
  MakeForeign(
      "CREATE TABLE photos (name TEXT); INSERT INTO photos VALUES ('cat'); "
      "PRAGMA user_version = 1");
  const std::string before = BytesOfFile(file_);
  ASSERT_FALSE(before.empty());
  EXPECT_THAT(OpenSqliteStore(file_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_THAT(OpenForReading(file_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_TRUE(BytesOfFile(file_) == before) << "the file was changed";
}

TEST_F(OpenTest, SomebodyElsesDatabaseWithoutTablesIsRefusedToo) {
  MakeForeign("PRAGMA application_id = 1234");
  const std::string before = BytesOfFile(file_);
  ASSERT_FALSE(before.empty());
  EXPECT_THAT(OpenSqliteStore(file_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_TRUE(BytesOfFile(file_) == before) << "the file was changed";
}

TEST_F(OpenTest, JunkIsRefusedAndLeftAlone) {
  std::string junk;
  for (int i = 0; i < 8192; ++i) junk.push_back(static_cast<char>(i * 7 + 3));
  testing::WriteBytes(file_, junk);
  EXPECT_THAT(OpenSqliteStore(file_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_THAT(OpenForReading(file_).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_TRUE(BytesOfFile(file_) == junk) << "the file was changed";
}

TEST_F(OpenTest, ReadingAMissingFileDoesNotMakeIt) {
  EXPECT_THAT(OpenForReading(file_).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(file_), HasSubstr("--data"))));
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(OpenTest, DirectoryInsteadOfAFileIsUnavailable) {
  std::filesystem::create_directory(file_);
  EXPECT_THAT(OpenSqliteStore(file_).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(file_)));
  EXPECT_THAT(OpenForReading(file_).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(file_)));
}

TEST_F(OpenTest, ReadersCannotWrite) {
  EXPECT_OK(OpenSqliteStore(file_).status());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  EXPECT_THAT(reader->Execute("DELETE FROM meta"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("readonly")));
}

TEST_F(OpenTest, QueriesFromOutsideMayOnlyRead) {
  EXPECT_OK(OpenSqliteStore(file_).status());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       Database::Open(file_, Database::Mode::kReadWrite));
  const struct {
    const char* sql;
    const char* message;
  } cases[] = {
      {"DELETE FROM meta", "only statements that read"},
      {"DELETE FROM meta RETURNING name", "only statements that read"},
      {"INSERT INTO meta VALUES ('a', 'b')", "only statements that read"},
      {"ATTACH 'x' AS y", "only statements that read"},
      {"BEGIN", "only statements that read"},
      {"VACUUM INTO 'x'", "only statements that read"},
      {"PRAGMA user_version = 9", "only statements that read"},
      {"PRAGMA writable_schema = 1", "only statements that read"},
      {"SELECT 1; SELECT 2", "one statement"},
      {"SELECT 1; -- and\n SELECT 2", "one statement"},
      {"SELECT 1; what", "one statement"},
      {"SELEKT 1", "syntax error"},
      {"SELECT * FROM nowhere", "no such table"},
      {"", "no SQL statement"},
      {"-- nothing", "no SQL statement"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        database->PrepareQuery(c.sql).status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.sql;
  }
  EXPECT_OK(database->PrepareQuery("SELECT 1 ; \n ").status());
  EXPECT_OK(database->PrepareQuery("SELECT 1; -- one\n; /* x */").status());
}

TEST_F(OpenTest, QueryThatFailsWhileItStepsIsToBlame) {
  ASSERT_OK(OpenSqliteStore(file_).status());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       OpenForReading(file_));
  for (const char* sql : {"SELECT json('{')", "SELECT load_extension('x')",
                          "SELECT abs(-9223372036854775808)"}) {
    ASSERT_OK_AND_ASSIGN(Statement query, database->PrepareQuery(sql));
    EXPECT_THAT(
        query.Step().status(),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("query: ")))
        << sql;
  }
}

TEST_F(OpenTest, DamagedFileIsNotTheFaultOfTheQuery) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       Database::Open(file_, Database::Mode::kReadWrite));
  ASSERT_OK(database->Execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)"));
  std::string bytes = testing::BytesOfFile(file_);
  ASSERT_GT(bytes.size(), 4096U);
  std::fill(bytes.begin() + 4096, bytes.end(), '\x7f');  // the table's page
  testing::WriteBytes(file_, bytes);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       Database::Open(file_, Database::Mode::kReadOnly));
  ASSERT_OK_AND_ASSIGN(Statement query,
                       reader->PrepareQuery("SELECT * FROM t"));
  EXPECT_THAT(query.Step().status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(file_)));
}

TEST_F(OpenTest, QueriesAreOpenSideBySide) {
  ASSERT_OK(OpenSqliteStore(file_).status());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> database,
                       Database::Open(file_, Database::Mode::kReadOnly));
  const std::string two_rows = "SELECT 1 UNION ALL SELECT 2";
  ASSERT_OK_AND_ASSIGN(Statement one, database->PrepareQuery(two_rows));
  ASSERT_OK_AND_ASSIGN(Statement other, database->PrepareQuery(two_rows));
  for (int64_t row = 1; row <= 2; ++row) {
    for (Statement* query : {&one, &other}) {
      ASSERT_OK_AND_ASSIGN(const bool found, query->Step());
      ASSERT_TRUE(found);
      EXPECT_EQ(query->Integer(0), row);
    }
  }
}

TEST_F(OpenTest, BackupIsAWholeDatabase) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Store> store,
                       OpenSqliteStore(file_));
  ASSERT_OK_AND_ASSIGN(const std::string uuid, store->DatabaseUuid());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Database> reader,
                       OpenForReading(file_));
  ASSERT_OK(reader->BackupTo(dir_.Path("copy.db")));
  EXPECT_THAT(CommittedRows(dir_.Path("copy.db"),
                            "SELECT value FROM meta WHERE name = "
                            "'database_uuid'"),
              ElementsAre(uuid));
}

}  // namespace
}  // namespace iclsweep

#include "storage/sqlite/database.h"

#include <sqlite3.h>

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "storage/errors.h"

namespace iclsweep {
namespace {

// Codes by which SQLite refuses a statement for what it says.
bool IsFaultOfTheQuery(int code) {
  switch (code & 0xff) {
    case SQLITE_ERROR:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
      return true;
    default:
      return false;
  }
}

absl::Status BadQuery(absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("query: ", reason));
}

}  // namespace

absl::string_view KindOf(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return "";
}

double FromKind(absl::string_view kind) {
  if (kind == "inf") return std::numeric_limits<double>::infinity();
  if (kind == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Statement::Statement(Database* database, sqlite3_stmt* statement, Keep keep,
                     absl::Status status)
    : database_(database),
      statement_(statement),
      keep_(keep),
      status_(std::move(status)) {}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      keep_(other.keep_),
      status_(std::move(other.status_)),
      next_(other.next_) {}

Statement::~Statement() {
  if (statement_ == nullptr) return;
  if (keep_ == Keep::kOwned) {
    sqlite3_finalize(statement_);
    return;
  }
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::Bind(int64_t value) {
  if (status_.ok()) sqlite3_bind_int64(statement_, next_++, value);
  return *this;
}

Statement& Statement::Bind(absl::string_view text) {
  if (status_.ok()) {
    sqlite3_bind_text64(statement_, next_++,
                        text.data() == nullptr ? "" : text.data(), text.size(),
                        SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  return *this;
}

Statement& Statement::BindBlob(absl::string_view bytes) {
  if (status_.ok()) {
    sqlite3_bind_blob64(statement_, next_++,
                        bytes.data() == nullptr ? "" : bytes.data(),
                        bytes.size(), SQLITE_TRANSIENT);
  }
  return *this;
}

Statement& Statement::BindReal(double value) {
  if (!status_.ok()) return *this;
  if (std::isfinite(value)) {
    sqlite3_bind_double(statement_, next_++, value);
  } else {
    sqlite3_bind_null(statement_, next_++);
  }
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  RETURN_IF_ERROR(status_);
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  if (keep_ == Keep::kOwned && IsFaultOfTheQuery(code))
    return BadQuery(sqlite3_errmsg(sqlite3_db_handle(statement_)));
  return database_->Error(
      absl::StrCat("running ",
                   absl::string_view(sqlite3_sql(statement_)).substr(0, 60)),
      code);
}

absl::Status Statement::Run() { return Step().status(); }

int Statement::columns() const {
  return statement_ == nullptr ? 0 : sqlite3_column_count(statement_);
}
std::string Statement::ColumnName(int column) const {
  return sqlite3_column_name(statement_, column);
}
bool Statement::IsNull(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
int64_t Statement::Integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Statement::Real(int column) const {
  return sqlite3_column_double(statement_, column);
}

std::string Statement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes == nullptr ? std::string()
                          : std::string(static_cast<const char*>(bytes),
                                        static_cast<size_t>(size));
}

char Statement::Type(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return 'i';
    case SQLITE_FLOAT:
      return 'r';
    case SQLITE_TEXT:
      return 't';
    case SQLITE_BLOB:
      return 'b';
    default:
      return 'n';
  }
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const std::string& file, Mode mode) {
  std::unique_ptr<Database> database(new Database(file));
  const int flags = mode == Mode::kReadOnly
                        ? SQLITE_OPEN_READONLY
                        : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(file.c_str(), &database->connection_,
                                   flags | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return database->Error("opening", code);
  sqlite3_extended_result_codes(database->connection_, 1);
  sqlite3_busy_timeout(database->connection_, 10'000);
  return database;
}

Database::~Database() {
  for (const auto& entry : prepared_) sqlite3_finalize(entry.second);
  sqlite3_close_v2(connection_);
}

absl::Status Database::Error(absl::string_view doing, int code) const {
  const char* reason = connection_ != nullptr ? sqlite3_errmsg(connection_)
                                              : sqlite3_errstr(code);
  const int primary = code & 0xff;
  if (primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB)
    return DatabaseCorrupt(file_, reason);
  if (primary == SQLITE_FULL) return DiskFull(file_, doing, reason);
  if (primary == SQLITE_CONSTRAINT)
    return absl::InternalError(absl::StrCat(file_, ": ", doing, ": ", reason));
  return DatabaseUnavailable(file_, doing, reason);
}

absl::Status Database::Execute(absl::string_view sql) {
  const int code = sqlite3_exec(connection_, std::string(sql).c_str(), nullptr,
                                nullptr, nullptr);
  if (code != SQLITE_OK)
    return Error(absl::StrCat("running ", sql.substr(0, 60)), code);
  return absl::OkStatus();
}

Statement Database::Prepare(absl::string_view sql) {
  sqlite3_stmt*& statement = prepared_[std::string(sql)];
  if (statement == nullptr) {
    const int code = sqlite3_prepare_v3(
        connection_, sql.data(), static_cast<int>(sql.size()),
        SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK)
      return Statement(
          this, nullptr, Statement::Keep::kPrepared,
          Error(absl::StrCat("preparing ", sql.substr(0, 60)), code));
  }
  return Statement(this, statement, Statement::Keep::kPrepared,
                   absl::OkStatus());
}

absl::StatusOr<Statement> Database::PrepareQuery(absl::string_view sql) {
  sqlite3_stmt* prepared = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v2(
      connection_, sql.data(), static_cast<int>(sql.size()), &prepared, &rest);
  if (code != SQLITE_OK) {
    return IsFaultOfTheQuery(code) ? BadQuery(sqlite3_errmsg(connection_))
                                   : Error("preparing the query", code);
  }
  Statement query(this, prepared, Statement::Keep::kOwned, absl::OkStatus());
  if (prepared == nullptr) return BadQuery("no SQL statement given");
  for (const char* end = sql.data() + sql.size(); rest < end;) {
    // Comments and empty statements are fine; what cannot be prepared is not.
    sqlite3_stmt* second = nullptr;
    const char* from = rest;
    const int tail = sqlite3_prepare_v2(
        connection_, from, static_cast<int>(end - from), &second, &rest);
    sqlite3_finalize(second);
    if (tail != SQLITE_OK || second != nullptr)
      return BadQuery("give one statement");
    if (rest == from) break;
  }
  // ATTACH, BEGIN and many a PRAGMA count as reading, but have no rows to show.
  if (sqlite3_stmt_readonly(prepared) == 0 ||
      sqlite3_column_count(prepared) == 0)
    return BadQuery("only statements that read are allowed");
  return query;
}

absl::StatusOr<int64_t> Database::QueryInteger(absl::string_view sql) {
  Statement statement = Prepare(sql);
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row)
    return absl::InternalError(absl::StrCat(file_, ": no row from ", sql));
  return statement.Integer(0);
}

int64_t Database::LastInsertId() const {
  return sqlite3_last_insert_rowid(connection_);
}

absl::Status Database::BackupTo(const std::string& target) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> copy,
                   Open(target, Mode::kReadWrite));
  sqlite3_backup* backup =
      sqlite3_backup_init(copy->connection_, "main", connection_, "main");
  if (backup == nullptr) return copy->Error("backing up", SQLITE_ERROR);
  const int step = sqlite3_backup_step(backup, -1);
  const int finish = sqlite3_backup_finish(backup);
  if (step != SQLITE_DONE || finish != SQLITE_OK)
    return copy->Error("backing up", finish);
  return absl::OkStatus();
}

}  // namespace iclsweep

// A thin RAII wrapper around one SQLite connection: prepared statements made
// once, binding that reads like a call. sqlite3.h stays in the .cc files. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace iclsweep {

class Database;

// One use of a prepared statement: bind in order, then Step; reset when it goes
// out of scope, or finalized when it is its own.
class Statement {
 public:
  enum class Keep { kPrepared, kOwned };
  Statement(Database* database, sqlite3_stmt* statement, Keep keep,
            absl::Status status);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& Bind(int64_t value);
  Statement& Bind(absl::string_view text);
  Statement& BindBlob(absl::string_view bytes);
  // NULL when the value is not finite; write its kind beside it.
  Statement& BindReal(double value);

  // True while there is a row.
  absl::StatusOr<bool> Step();
  // For statements without rows.
  absl::Status Run();

  int columns() const;
  std::string ColumnName(int column) const;
  bool IsNull(int column) const;
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;  // also blobs, byte for byte
  // 'i', 'r', 't', 'b' or 'n' for integer, real, text, blob, null.
  char Type(int column) const;

 private:
  Database* database_;
  sqlite3_stmt* statement_;
  Keep keep_;
  absl::Status status_;
  int next_ = 1;
};

class Database {
 public:
  enum class Mode { kReadOnly, kReadWrite };
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& file,
                                                        Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Several statements separated by semicolons, without parameters.
  absl::Status Execute(absl::string_view sql);
  // A statement that is kept prepared: for the fixed SQL of this program.
  Statement Prepare(absl::string_view sql);
  // A statement from outside, refused unless it reads and has rows. Any number
  // of them may be open. What is wrong with the statement itself is
  // InvalidArgument, also while it steps.
  absl::StatusOr<Statement> PrepareQuery(absl::string_view sql);
  absl::StatusOr<int64_t> QueryInteger(absl::string_view sql);

  int64_t LastInsertId() const;
  const std::string& file() const { return file_; }
  absl::Status Error(absl::string_view doing, int code) const;
  // Copies the whole database to `target` (SQLite's backup API).
  absl::Status BackupTo(const std::string& target);

 private:
  explicit Database(std::string file) : file_(std::move(file)) {}

  std::string file_;
  sqlite3* connection_ = nullptr;
  absl::flat_hash_map<std::string, sqlite3_stmt*> prepared_;
};

// '' for a finite value, else nan, inf or -inf.
absl::string_view KindOf(double value);
// The value a NULL with this kind stands for.
double FromKind(absl::string_view kind);

}  // namespace iclsweep

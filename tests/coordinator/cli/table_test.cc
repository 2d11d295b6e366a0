#include "coordinator/cli/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/captured.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

using testing::Captured;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

class TableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        database_, Database::Open(dir_.Path("db"), Database::Mode::kReadWrite));
  }
  std::string Print(const std::string& sql, const PrintOptions& options) {
    Captured out;
    absl::StatusOr<Statement> query = database_->PrepareQuery(sql);
    EXPECT_TRUE(query.ok()) << query.status();
    if (!query.ok()) return "";
    const absl::StatusOr<size_t> rows = PrintRows(&*query, options, out.file());
    EXPECT_TRUE(rows.ok()) << rows.status();
    rows_ = rows.value_or(0);
    return out.Text();
  }
  std::string Print(const std::string& sql, RowFormat format) {
    PrintOptions options;
    options.format = format;
    return Print(sql, options);
  }

  testing::TempDir dir_;
  std::unique_ptr<Database> database_;
  size_t rows_ = 0;
};

// ---- numbers and strings

TEST(ExactDoubleTest, ReadsBackToTheSameBits) {
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, 0.1, 1.0 / 3, 1e23, 123456789.0, 5e-324, Limits::min(),
        Limits::max(), Limits::lowest(), Limits::epsilon(),
        std::nextafter(1.0, 2.0), 9007199254740993.0}) {
    const std::string text = ExactDouble(value);
    EXPECT_EQ(absl::StrFormat("%a", std::strtod(text.c_str(), nullptr)),
              absl::StrFormat("%a", value))
        << text;
  }
}

TEST(ExactDoubleTest, IsShortAndNamesWhatIsNotFinite) {
  using Limits = std::numeric_limits<double>;
  EXPECT_EQ(ExactDouble(0.1), "0.1");
  EXPECT_EQ(ExactDouble(1), "1");
  EXPECT_EQ(ExactDouble(-2.5), "-2.5");
  EXPECT_EQ(ExactDouble(Limits::quiet_NaN()), "nan");
  EXPECT_EQ(ExactDouble(Limits::infinity()), "inf");
  EXPECT_EQ(ExactDouble(-Limits::infinity()), "-inf");
}

TEST(JsonStringTest, EscapesWhatJsonNeeds) {
  EXPECT_EQ(JsonString("plain ü"), "\"plain ü\"");
  EXPECT_EQ(JsonString("\"\\\n\t\x01/"), R"("\"\\\n\t\u0001/")");
  // Bytes that are no text are replaced, so that the line stays JSON.
  EXPECT_EQ(JsonString("a\xff"), "\"a\xEF\xBF\xBD\"");
}

// ---- formats

constexpr char kEveryType[] =
    "SELECT 7 AS i, 0.1 AS r, 'text' AS t, x'00ff' AS b, NULL AS n";

TEST_F(TableTest, EveryTypeInEveryFormat) {
  EXPECT_EQ(Print(kEveryType, RowFormat::kTabs),
            "i\tr\tt\tb\tn\n7\t0.1\ttext\t00ff\t\n");
  EXPECT_EQ(Print(kEveryType, RowFormat::kCsv),
            "i,r,t,b,n\n7,0.1,text,00ff,\n");
  EXPECT_EQ(Print(kEveryType, RowFormat::kJsonLines),
            "{\"i\":7,\"r\":0.1,\"t\":\"text\",\"b\":\"00ff\",\"n\":null}\n");
  EXPECT_EQ(Print(kEveryType, RowFormat::kAligned),
            "i    r  t     b     n\n7  0.1  text  00ff\n");
  EXPECT_EQ(rows_, 1U);
}

TEST_F(TableTest, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(Print("SELECT 'a,b' AS x, 'say \"hi\"' AS y, 'two' || char(10) || "
                  "'lines' AS z, char(13) AS c, ' plain ' AS p",
                  RowFormat::kCsv),
            "x,y,z,c,p\n"
            "\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",\"\r\", plain \n");
}

TEST_F(TableTest, CsvQuotesColumnNamesToo) {
  EXPECT_EQ(
      Print("SELECT 1 AS \"a,b\", 2 AS \"say \"\"hi\"\"\"", RowFormat::kCsv),
      "\"a,b\",\"say \"\"hi\"\"\"\n1,2\n");
}

TEST_F(TableTest, TabsAndNewlinesInsideACellBecomeSpaces) {
  EXPECT_EQ(Print("SELECT 'a' || char(9) || 'b' || char(10) || 'c' || char(13) "
                  "AS x, 2 AS y",
                  RowFormat::kTabs),
            "x\ty\na b c \t2\n");
  // Without AS, the expression itself is the name.
  EXPECT_EQ(Print("SELECT max(\n1), 2", RowFormat::kTabs),
            "max( 1)\t2\n1\t2\n");
}

TEST_F(TableTest, JsonIsJsonWhateverTheData) {
  const std::string line = Print(
      "SELECT 9e999 AS big, -9e999 AS small, 1.5 AS x, 'q\"\\' AS "
      "\"na\"\"me\", "
      "CAST(x'c328' AS TEXT) AS bad",
      RowFormat::kJsonLines);
  const nlohmann::json row = nlohmann::json::parse(line);
  EXPECT_EQ(row["big"], "inf");
  EXPECT_EQ(row["small"], "-inf");
  EXPECT_EQ(row["x"], 1.5);
  EXPECT_EQ(row["na\"me"], "q\"\\");
}

TEST_F(TableTest, MachineFormatsKeepEveryBit) {
  for (const RowFormat format :
       {RowFormat::kTabs, RowFormat::kCsv, RowFormat::kJsonLines}) {
    EXPECT_THAT(Print("SELECT 0.1 + 0.2 AS x", format),
                HasSubstr("0.30000000000000004"));
  }
}

TEST_F(TableTest, AlignedTableIsForEyes) {
  const std::string rows =
      "SELECT 'short' AS name, 12345.678 AS value UNION ALL SELECT 'much "
      "longer', 1";
  EXPECT_EQ(Print(rows, RowFormat::kAligned),
            "name             value\n"
            "short        1.235e+04\n"
            "much longer          1\n");
  PrintOptions options;
  options.format = RowFormat::kAligned;
  options.exact = true;
  EXPECT_THAT(Print(rows, options), HasSubstr("12345.678"));
}

TEST_F(TableTest, AlignedTableCountsWhatItLeavesOut) {
  PrintOptions options;
  options.format = RowFormat::kAligned;
  options.limit = 2;
  const std::string numbers =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i "
      "< 5) SELECT i FROM n";
  EXPECT_EQ(Print(numbers, options), "i\n1\n2\n... and 3 more rows\n");
  EXPECT_EQ(rows_, 5U);
  options.limit = 5;
  EXPECT_EQ(Print(numbers, options), "i\n1\n2\n3\n4\n5\n");
}

TEST_F(TableTest, NoRowsIsAHeader) {
  const std::string none = "SELECT 1 AS x, 2 AS y WHERE 0";
  EXPECT_EQ(Print(none, RowFormat::kTabs), "x\ty\n");
  EXPECT_EQ(Print(none, RowFormat::kCsv), "x,y\n");
  EXPECT_EQ(Print(none, RowFormat::kJsonLines), "");
  EXPECT_EQ(Print(none, RowFormat::kAligned), "x  y\n");
  EXPECT_EQ(rows_, 0U);
}

TEST_F(TableTest, FullDiskIsTold) {
  for (const RowFormat format : {RowFormat::kTabs, RowFormat::kAligned}) {
    std::FILE* full = std::fopen("/dev/full", "w");
    ASSERT_NE(full, nullptr);
    ASSERT_OK_AND_ASSIGN(Statement query,
                         database_->PrepareQuery("SELECT 1 AS x"));
    PrintOptions options;
    options.format = format;
    EXPECT_THAT(
        PrintRows(&query, options, full).status(),
        StatusIs(absl::StatusCode::kUnavailable, HasSubstr("No space left")));
    std::fclose(full);
  }
}

TEST_F(TableTest, QueryThatFailsOnTheWayIsAnError) {
  ASSERT_OK_AND_ASSIGN(
      Statement query,
      database_->PrepareQuery("SELECT json('{}') UNION ALL SELECT json('{')"));
  Captured out;
  EXPECT_FALSE(PrintRows(&query, PrintOptions(), out.file()).ok());
}

TEST_F(TableTest, JsonNeedsNamesThatDiffer) {
  ASSERT_OK_AND_ASSIGN(Statement query,
                       database_->PrepareQuery("SELECT 1 AS a, 2 AS a"));
  Captured out;
  PrintOptions options;
  options.format = RowFormat::kJsonLines;
  EXPECT_THAT(PrintRows(&query, options, out.file()).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("two columns are named 'a'")));
  EXPECT_EQ(out.Text(), "");
  EXPECT_EQ(Print("SELECT 1 AS a, 2 AS a", RowFormat::kCsv), "a,a\n1,2\n");
}

TEST(FormatForTest, JsonIsWhatItIsAskedFor) {
  EXPECT_EQ(FormatFor(true), RowFormat::kJsonLines);
}

}  // namespace
}  // namespace iclsweep

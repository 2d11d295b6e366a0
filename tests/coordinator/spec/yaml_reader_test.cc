#include "coordinator/spec/yaml_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "iclsweep/v1/params.pb.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::iclsweep::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<v1::SweepFile> Read(const std::string& text) {
  v1::SweepFile file;
  const auto places = ReadYaml(text, "s.yaml", &file);
  if (!places.ok()) return places.status();
  return file;
}

TEST(YamlReaderTest, ValuesFollowTheTypeOfTheField) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepFile file, Read(R"(
name: "quoted name"
model: {size: tiny, init_std: 2e-2}
data:
  noise_std: 1
  eigenvalues: [1, 0.5, 2e0]
train: {learning_rate: 1e-3, schedule: cosine, curriculum: {dims_start: 5}}
prompt: {task_order: 2-0-1, geometry: angle, allow_extrapolation: true}
seed: 9223372036854775807
theory:
)"));
  EXPECT_EQ(file.name(), "quoted name");
  EXPECT_EQ(file.model().size(), v1::MODEL_SIZE_TINY);
  EXPECT_EQ(file.model().init_std(), 0.02);
  EXPECT_EQ(file.data().noise_std(), 1.0);
  EXPECT_THAT(file.data().eigenvalues(), ::testing::ElementsAre(1, 0.5, 2));
  EXPECT_EQ(file.train().learning_rate(), 0.001);
  EXPECT_EQ(file.train().schedule(), v1::SCHEDULE_COSINE);
  EXPECT_EQ(file.train().curriculum().dims_start(), 5);
  EXPECT_THAT(file.prompt().task_order(), ::testing::ElementsAre(2, 0, 1));
  EXPECT_EQ(file.prompt().geometry(), v1::GEOMETRY_ANGLE);
  EXPECT_TRUE(file.prompt().allow_extrapolation());
  EXPECT_EQ(file.seed(), INT64_MAX);
}

TEST(YamlReaderTest, OnlyWhatIsWrittenIsSet) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepFile file, Read("train: {steps: 10}"));
  EXPECT_TRUE(file.train().has_steps());
  EXPECT_FALSE(file.train().has_points());
  EXPECT_FALSE(file.has_model());
}

TEST(YamlReaderTest, PlacesAreThoseOfTheKeys) {
  v1::SweepFile file;
  ASSERT_OK_AND_ASSIGN(
      const Places places,
      ReadYaml("train:\n  steps: 3\ntheory:\nseed: 1\n", "s", &file));
  EXPECT_EQ(places.Find("train.steps"), (Place{2, 3}));
  EXPECT_EQ(places.Find("train.batch"),
            (Place{1, 1}));                         // the section around it
  EXPECT_EQ(places.Find("theory"), (Place{3, 1}));  // a key without a value
  EXPECT_EQ(places.Find("model.size"), Place());
}

TEST(YamlReaderTest, AliasesStandForWhatTheyName) {
  ASSERT_OK_AND_ASSIGN(const v1::SweepFile file,
                       Read("data: &d {dims: 3}\nprompt: {data: *d}\n"));
  EXPECT_EQ(file.prompt().data().dims(), 3);
}

struct BadCase {
  const char* name;
  std::string text;
  const char* message;
};

class YamlReaderErrorTest : public ::testing::TestWithParam<BadCase> {};

TEST_P(YamlReaderErrorTest, IsOneCleanLine) {
  const auto result = Read(GetParam().text);
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr(GetParam().message)));
  const std::string message(result.status().message());
  EXPECT_TRUE(absl::StartsWith(message, "s.yaml:")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 400u) << message;
}

std::string Repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// Nine lists of nine aliases each: 9^9 values when expanded.
std::string AliasBomb() {
  std::string text = "name: &a0 x\n";
  for (int i = 1; i <= 9; ++i) {
    absl::StrAppend(&text, "k", i, ": &a", i, " [",
                    Repeat(absl::StrCat("*a", i - 1, ", "), 8), "*a", i - 1,
                    "]\n");
  }
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Files, YamlReaderErrorTest,
    ::testing::Values(
        BadCase{
            "UnknownKey", "train: {stepz: 3}",
            "s.yaml:1:9: unknown key 'stepz' in train; did you mean 'steps'?"},
        BadCase{"UnknownSection", "trian: {}",
                "s.yaml:1:1: unknown key 'trian'; did you mean 'train'?"},
        BadCase{"KeyOfAnotherSection", "train:\n  dims: 3",
                "s.yaml:2:3: unknown key 'dims' in train; did you mean "
                "'data.dims'?"},
        BadCase{"FarFromEverything", "zzzzzzzz: 1",
                "s.yaml:1:1: unknown key 'zzzzzzzz'"},
        BadCase{"EmptyKey", "'': 1", "unknown key ''"},
        BadCase{"FractionForInteger", "train: {steps: 1.5}",
                "s.yaml:1:16: train.steps takes a whole number, not '1.5'"},
        BadCase{"ExponentForInteger", "train: {steps: 1e3}",
                "train.steps takes a whole number, not '1e3'"},
        BadCase{"LeadingZero", "seed: 007", "without leading zeros"},
        BadCase{"Hexadecimal", "seed: 0x10", "takes a whole number"},
        BadCase{"WordForNumber", "train: {learning_rate: fast}",
                "train.learning_rate takes a number, not 'fast'"},
        BadCase{"QuotedNumber", "train: {steps: \"10\"}",
                "takes a whole number, not the text '10'"},
        BadCase{"YesForBool", "prompt: {allow_extrapolation: yes}",
                "takes true or false, not 'yes'"},
        BadCase{"NoValue", "train:\n  steps:\n  batch: 2",
                "s.yaml:2:3: train.steps takes a whole number, not nothing"},
        BadCase{"ListForValue", "train: {steps: [1, 2]}",
                "several values belong under grid, as train.steps: [...]"},
        BadCase{"MappingForValue", "train: {steps: {a: 1}}",
                "train.steps takes one value, not a mapping"},
        BadCase{"ValueForSection", "train: 5",
                "s.yaml:1:8: train takes a mapping (key: value), not '5'"},
        BadCase{"ListForSection", "train: [1]",
                "train takes a mapping (key: value), not a list"},
        BadCase{"ValueForList", "data: {eigenvalues: 3}",
                "data.eigenvalues takes a list, not '3'"},
        BadCase{"OrdersInASection", "prompt: {task_order: {permutations: all}}",
                "several orders belong under grid"},
        BadCase{"BadOrder", "prompt: {task_order: 0-x-1}",
                "takes an order such as [0, 2, 1] or 0-2-1"},
        BadCase{"NestedOrder", "prompt: {task_order: [[0, 1]]}",
                "takes an order"},
        BadCase{"BelowMinimum", "train: {steps: 0}",
                "train.steps must be at least 1 and at most 1000000000, not 0"},
        BadCase{
            "AboveMaximum", "prompt: {angle_degrees: 90.5}",
            "prompt.angle_degrees must be at least 0 and at most 90, not 90.5"},
        BadCase{"ExclusiveMinimum", "train: {learning_rate: 0}",
                "must be greater than 0 and at most 10, not 0"},
        BadCase{"ElementOutOfRange", "data: {eigenvalues: [1, -1]}",
                "s.yaml:1:25: data.eigenvalues must be greater than 0"},
        BadCase{"NegativeSeed", "seed: -1", "seed must be at least 0, not -1"},
        BadCase{"SeedTooLarge", "seed: 9223372036854775808",
                "seed takes a whole number up to 9223372036854775807"},
        BadCase{"Int32TooLarge", "data: {dims: 3000000000}",
                "data.dims takes a whole number up to 2147483647"},
        BadCase{"NaN", "data: {noise_std: nan}",
                "data.noise_std must not be NaN"},
        BadCase{"YamlNaN", "data: {noise_std: .NaN}",
                "data.noise_std must not be NaN"},
        BadCase{"Infinity", "data: {noise_std: inf}",
                "must be a finite number"},
        BadCase{"Overflow", "data: {noise_std: 1e999}",
                "must be a finite number"},
        BadCase{"EnumWithPrefix", "prompt: {geometry: GEOMETRY_ANGLE}",
                "takes one of independent, angle, clustered"},
        BadCase{"EnumMisspelt", "prompt: {geometry: angel}",
                "not 'angel'; did you mean 'angle'?"},
        BadCase{"DuplicateKey", "seed: 1\ntrain: {}\nseed: 2",
                "s.yaml:3:1: 'seed' is set twice; first at line 1"},
        BadCase{"DuplicateInSection", "train: {steps: 1, steps: 1}",
                "'steps' is set twice"},
        BadCase{"ListKey", "[a, b]: 1", "a key must be a word"},
        BadCase{"NullKey", "~: 1", "a key must be a word"},
        BadCase{"MergeKey", "data: &d {dims: 3}\nprompt: {<<: *d}",
                "unknown key '<<' in prompt"},
        BadCase{"Tag", "seed: !!int 3", "tags (!!type) cannot be used"},
        BadCase{"Tab", "train:\n\tsteps: 3\n",
                "; line 2 is indented by a tab, YAML takes spaces"},
        BadCase{"Unclosed", "train: {steps: 3\n", "not valid YAML"},
        BadCase{"BadIndent", "train:\n    steps: 3\n  batch: 2\n",
                "not valid YAML"},
        BadCase{"UnknownAlias", "train: *nothing", "not valid YAML"},
        BadCase{"Empty", "", "s.yaml: the sweep file is empty"},
        BadCase{"OnlyComments", "# nothing\n\n",
                "s.yaml: the sweep file is empty"},
        BadCase{"TwoDocuments", "seed: 1\n---\nseed: 2\n",
                "s.yaml:2:1: a second YAML document begins"},
        BadCase{"StrayBracket", "seed: 1\n]\n", "s.yaml:2:1: not valid YAML"},
        BadCase{"StrayBrace", "train: {steps: 3}}\n",
                "s.yaml:1:18: not valid YAML"},
        BadCase{
            "StrayComma", "{seed: 1},\n",
            "s.yaml:1:10: not valid YAML: the document has ended before this"},
        BadCase{"OnlyABracket", "]", "s.yaml:1:1: not valid YAML"},
        BadCase{"OnlyAComma", ",", "s.yaml:1:1"},
        BadCase{"NotAMapping", "- 1\n- 2\n",
                "a sweep file takes a mapping (key: value), not a list"},
        BadCase{"JustText", "hello", "a sweep file takes a mapping"},
        BadCase{"NulByte", std::string("seed: 1\nname: a\0b", 17),
                "s.yaml:2:8: not valid YAML: control character 0x00"},
        BadCase{"NotUtf8", "name: \xff\xfe",
                "s.yaml:1:7: not valid YAML: not UTF-8 text"},
        BadCase{"CutUtf8", "name: \xe2\x82", "not UTF-8 text"},
        BadCase{"Binary",
                std::string("\x7f"
                            "ELF\x02\x01\x01\0\0",
                            9),
                "control character 0x7f"},
        BadCase{"TooDeep", "name: " + Repeat("[", 100) + Repeat("]", 100),
                "more than 64 levels of nesting"},
        BadCase{"MuchTooDeep", "name: " + Repeat("[", 5000),
                "more than 64 levels of nesting"},
        BadCase{"AliasBomb", AliasBomb(),
                "more than 1000000 values once aliases are expanded"},
        BadCase{"AliasOfItself", "name: &a [*a]",
                "more than 64 levels of nesting"},
        BadCase{"TooLarge", "name: " + std::string(1 << 20, 'x'),
                "larger than 1 MiB"},
        BadCase{"LongKey", std::string(900, 'k') + ": 1", "unknown key 'kkk"},
        BadCase{"LineBreakInKey", "\"a\\nb\": 1", "unknown key 'a\\nb'"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace iclsweep

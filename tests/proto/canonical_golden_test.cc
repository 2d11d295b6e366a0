// Keys against golden/keys, whose generator shares no code with
// proto/canonical.cc.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/text_format.h"
#include "iclsweep/v1/params.pb.h"
#include "proto/canonical.h"
#include "tests/support/status_matchers.h"

namespace iclsweep {
namespace {

using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;

std::unique_ptr<Message> NewInputs(Stage stage) {
  switch (stage) {
    case Stage::kTrain:
      return std::make_unique<v1::TrainInputs>();
    case Stage::kEvaluate:
      return std::make_unique<v1::EvaluateInputs>();
    case Stage::kCompare:
      return std::make_unique<v1::CompareInputs>();
    case Stage::kTheory:
      return std::make_unique<v1::TheoryInputs>();
    case Stage::kNoop:
      break;
  }
  return std::make_unique<v1::NoopInputs>();
}

// Golden data lies in the folder ICLSWEEP_GOLDEN, `golden` unless set (tests
// run in tests/).
TEST(CanonicalGoldenTest, FormsAndKeysEqualTheIndependentGenerators) {
  const char* folder = std::getenv("ICLSWEEP_GOLDEN");
  const std::string path =
      absl::StrCat(folder == nullptr ? "golden" : folder, "/keys/keys.json");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "golden data set keys is absent: " << path;
  std::ifstream file(path);
  const nlohmann::json sets = nlohmann::json::parse(file);
  ASSERT_FALSE(sets.empty());
  for (const auto& set : sets) {
    SCOPED_TRACE(set["name"].get<std::string>());
    const auto stage = StageFromName(set["stage"].get<std::string>());
    ASSERT_TRUE(stage.has_value());
    const auto inputs = NewInputs(*stage);
    ASSERT_TRUE(TextFormat::ParseFromString(
        absl::StrJoin(set["inputs"].get<std::vector<std::string>>(), "\n"),
        inputs.get()));
    std::vector<JobKey> dependencies;
    for (const auto& hex : set["dependencies"])
      dependencies.push_back(*JobKeyFromHex(hex.get<std::string>()));
    ASSERT_OK_AND_ASSIGN(const std::string form, CanonicalForm(*inputs));
    EXPECT_EQ(absl::BytesToHexString(form), set["form"].get<std::string>());
    ASSERT_OK_AND_ASSIGN(
        const JobKey key,
        ComputeJobKey(*stage, *inputs, dependencies, set["fast"].get<bool>()));
    EXPECT_EQ(ToHex(key), set["key"].get<std::string>())
        << "a stored key would change: see golden/keys/README.md before "
           "generating again";
  }
}

}  // namespace
}  // namespace iclsweep

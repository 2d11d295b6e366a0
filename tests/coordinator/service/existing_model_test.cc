#include "coordinator/service/existing_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/sha256.h"
#include "tests/coordinator/service/service_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace iclsweep {
namespace {

namespace fs = std::filesystem;
using ::iclsweep::testing::StatusIs;
using ::iclsweep::testing::TempDir;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

json Matrix(int rows, int columns) {
  return {
      {"dtype", "F32"}, {"shape", {rows, columns}}, {"data_offsets", {0, 0}}};
}

// A header, and no data: the coordinator looks at no more.
std::string Safetensors(const json& header) {
  const std::string text = header.dump();
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    bytes[i] = static_cast<char>(text.size() >> (8 * i));
  return bytes + text;
}

// A folder that says it holds a model.
struct ModelFolder {
  json config = {{"n_layer", 2},
                 {"n_head", 2},
                 {"n_embd", 8},
                 {"n_positions", 14},
                 {"layer_norm_epsilon", 1e-5},
                 {"activation_function", "gelu_new"},
                 {"n_inner", nullptr}};
  json header = {{"_read_in.weight", Matrix(8, 3)},
                 {"_backbone.wpe.weight", Matrix(14, 8)}};

  void WriteTo(const std::string& folder) const {
    fs::create_directories(folder);
    Write(folder + "/config.json", config.dump());
    Write(folder + "/model.safetensors", Safetensors(header));
  }
};

class ExistingModelTest : public ::testing::Test {
 protected:
  ExistingModelTest() { WriteModel(dir_.Path("model")); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteModel(const std::string& folder) const { model_.WriteTo(folder); }

  TempDir dir_;
  ModelFolder model_;
  json& config_ = model_.config;
  json& header_ = model_.header;
};

TEST_F(ExistingModelTest, SizesComeFromConfigAndWeights) {
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts,
                       ReadModelFolder(dir_.Path("model")));
  EXPECT_EQ(facts.sha256,
            Sha256Hex(Read(dir_.Path("model/model.safetensors"))));
  EXPECT_EQ(facts.layers, 2);
  EXPECT_EQ(facts.heads, 2);
  EXPECT_EQ(facts.width, 8);
  EXPECT_EQ(facts.positions, 7);
  EXPECT_EQ(facts.dims, 3);
  EXPECT_EQ(facts.trained_points, 0);
}

TEST_F(ExistingModelTest, TrainedPointsAreReadWhereTheyAreSaid) {
  config_["trained_points"] = 6;
  WriteModel(dir_.Path("other"));
  EXPECT_EQ(ReadModelFolder(dir_.Path("other"))->trained_points, 6);
  config_["iclsweep"] = {{"trained_points", 5}};
  WriteModel(dir_.Path("own"));
  EXPECT_EQ(ReadModelFolder(dir_.Path("own"))->trained_points, 5);
}

TEST_F(ExistingModelTest, NamesWithoutBackboneAreHuggingFaces) {
  header_ = {{"read_in.weight", Matrix(8, 3)},
             {"transformer.wpe.weight", Matrix(14, 8)}};
  WriteModel(dir_.Path("hf"));
  EXPECT_EQ(ReadModelFolder(dir_.Path("hf"))->dims, 3);
}

TEST_F(ExistingModelTest, OtherVariantsAreRefusedByName) {
  const struct {
    const char* key;
    json value;
    const char* message;
  } cases[] = {
      {"activation_function", "relu", "only gelu_new is computed"},
      {"layer_norm_epsilon", 1e-6, "only 1e-5 is computed"},
      {"n_inner", 16, "only 4 * n_embd is computed"},
      {"scale_attn_weights", false, "only true is computed"},
      {"scale_attn_by_inverse_layer_idx", true, "only false is computed"},
      {"n_positions", 13, "it counts tokens, 2 per point"},
      {"n_positions", 20, "wpe.weight has 14 rows, but n_positions"},
      {"n_embd", 16, "_read_in.weight has 8 rows, but n_embd"},
      {"n_head", "two", "has no integer n_head"},
      {"n_layer", 0, "n_layer is 0"},
  };
  const json good = config_;
  for (const auto& bad : cases) {
    config_ = good;
    config_[bad.key] = bad.value;
    WriteModel(dir_.Path("bad"));
    EXPECT_THAT(
        ReadModelFolder(dir_.Path("bad")),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(bad.message)));
  }
}

TEST_F(ExistingModelTest, FilesThatAreNoModelAreNamed) {
  const std::string folder = dir_.Path("bad");
  const std::string weights = folder + "/model.safetensors";
  const auto why = [&] {
    return std::string(ReadModelFolder(folder).status().message());
  };
  EXPECT_THAT(why(), HasSubstr("bad/config.json: cannot read it"));
  WriteModel(folder);
  fs::remove(weights);
  EXPECT_THAT(why(), HasSubstr("model.safetensors: cannot read it"));
  for (const std::string& bytes : {std::string("PK"), std::string(8, '\xFF'),
                                   std::string("\x09\0\0\0\0\0\0\0{", 9),
                                   std::string("\x01\0\0\0\0\0\0\0[", 9)}) {
    Write(weights, bytes);
    EXPECT_THAT(why(), HasSubstr("is not a safetensors file"));
  }
  Write(weights, Safetensors(json::object()));
  EXPECT_THAT(why(), HasSubstr("has no _read_in.weight"));
  Write(weights, Safetensors({{"_read_in.weight", {{"shape", {1, 2, 3}}}}}));
  EXPECT_THAT(why(), HasSubstr("_read_in.weight is not a matrix"));
  Write(folder + "/config.json", "[]");
  EXPECT_THAT(why(), HasSubstr("is not a JSON object"));
}

TEST_F(ExistingModelTest, CopyStaysWhateverBecomesOfTheFolder) {
  const std::string artifacts = dir_.Path("artifacts");
  ModelReader reader(dir_.Path(""), artifacts);
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, reader.Read("model"));
  EXPECT_FALSE(fs::exists(artifacts));  // reading makes nothing
  ASSERT_OK(reader.CopyAll());
  fs::remove_all(dir_.Path("model"));
  ModelReader later(dir_.Path(""), artifacts);
  ASSERT_OK_AND_ASSIGN(const ModelFacts known,
                       later.Read("sha256:" + facts.sha256));
  EXPECT_EQ(known.sha256, facts.sha256);
  EXPECT_EQ(known.dims, 3);
  EXPECT_THAT(later.Read("model"), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("there is no folder")));
  EXPECT_THAT(later.Read("sha256:" + std::string(64, '0')),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("name the folder it lies in")));
}

TEST_F(ExistingModelTest, DamagedCopyIsMadeAnewAndAGoodOneStays) {
  const std::string artifacts = dir_.Path("artifacts");
  ModelReader reader(dir_.Path(""), artifacts);
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, reader.Read("model"));
  ASSERT_OK(reader.CopyAll());
  const std::string copy =
      absl::StrCat(artifacts, "/imported/", facts.sha256, "/model.safetensors");
  const std::string good = Read(copy);
  Write(copy, "damaged");
  ASSERT_OK(reader.CopyAll());
  EXPECT_EQ(Read(copy), good);
  fs::remove_all(dir_.Path("model"));  // not looked at again
  EXPECT_OK(reader.CopyAll());
}

TEST_F(ExistingModelTest, FolderThatChangedMeanwhileIsNotTakenIn) {
  const std::string artifacts = dir_.Path("artifacts");
  ModelReader reader(dir_.Path(""), artifacts);
  ASSERT_OK(reader.Read("model").status());
  header_["more"] = Matrix(1, 1);
  WriteModel(dir_.Path("model"));
  EXPECT_THAT(reader.CopyAll(),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("was changed")));
  EXPECT_TRUE(fs::is_empty(artifacts + "/imported"));
}

class SubmittedModelTest : public testing::ServiceFixture {};

TEST_F(SubmittedModelTest, StoredSweepNeedsTheFolderNoMore) {
  const std::string folder = dir_.Path("model");
  ModelFolder().WriteTo(folder);
  Start(Options());
  v1::SubmitResponse response;
  ASSERT_OK(Submit(
      absl::StrCat("name: s\ntrain: {checkpoint: '", folder, "', points: 6}"),
      &response));
  ASSERT_OK_AND_ASSIGN(const ModelFacts facts, ReadModelFolder(folder));
  EXPECT_THAT(Rows("SELECT spec_yaml FROM sweep_revision"),
              ElementsAre(AllOf(HasSubstr("sha256:" + facts.sha256),
                                Not(HasSubstr(folder)))));
  EXPECT_TRUE(fs::exists(dir_.Path("data/artifacts/imported/" + facts.sha256 +
                                   "/model.safetensors")));
  // The same weights from elsewhere are the same sweep.
  fs::rename(folder, dir_.Path("moved"));
  EXPECT_THAT(Submit(absl::StrCat("name: s\ntrain: {checkpoint: '", folder,
                                  "', points: 6}"),
                     &response),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("there is no folder")));
  ASSERT_OK(Submit(absl::StrCat("name: s\ntrain: {points: 6, checkpoint: "
                                "sha256:",
                                facts.sha256, "}"),
                   &response));
  EXPECT_TRUE(response.resumed());
}

}  // namespace
}  // namespace iclsweep

#include "worker/model/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "proto/base/status_macros.h"
#include "worker/model/files.h"
#include "worker/model/torch_status.h"

namespace iclsweep {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are copied as they are");

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kPrefix = 8;

struct StoredType {
  const char* name;
  at::ScalarType scalar;
  uint64_t bytes;
};

// In the order of the format's own list: the writer puts later ones first.
constexpr StoredType kTypes[] = {
    {"BOOL", at::kBool, 1}, {"U8", at::kByte, 1},   {"I8", at::kChar, 1},
    {"I16", at::kShort, 2}, {"F16", at::kHalf, 2},  {"BF16", at::kBFloat16, 2},
    {"I32", at::kInt, 4},   {"F32", at::kFloat, 4}, {"F64", at::kDouble, 8},
    {"I64", at::kLong, 8}};

const StoredType* FindType(absl::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const StoredType& t) { return name == t.name; });
  return found == std::end(kTypes) ? nullptr : found;
}

const StoredType* FindType(at::ScalarType scalar) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const StoredType& t) { return t.scalar == scalar; });
  return found == std::end(kTypes) ? nullptr : found;
}

struct Entry {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status Malformed(absl::string_view source, absl::string_view problem) {
  return absl::DataLossError(absl::StrCat(source, ": ", problem));
}

absl::Status Malformed(absl::string_view source, absl::string_view tensor,
                       absl::string_view problem) {
  return absl::DataLossError(
      absl::StrCat(source, ": tensor ", tensor, ": ", problem));
}

// Parses the header; nlohmann keeps the last of two equal keys, so keys are
// watched while parsing.
absl::StatusOr<nlohmann::json> ParseHeader(absl::string_view text,
                                           absl::string_view source) {
  std::vector<std::set<std::string>> open_objects;
  std::optional<std::string> duplicate;
  const auto watch = [&](int, nlohmann::json::parse_event_t event,
                         nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key &&
        !open_objects.back().insert(value.get<std::string>()).second &&
        !duplicate) {
      duplicate = value.get<std::string>();
    }
    return true;
  };
  if (text.empty() || text.front() != '{')
    return Malformed(source, "the header is not a JSON object");
  nlohmann::json header = nlohmann::json::parse(text.begin(), text.end(), watch,
                                                /*allow_exceptions=*/false);
  if (!header.is_object())
    return Malformed(source, "the header is not a JSON object");
  if (duplicate)
    return Malformed(source, absl::StrCat("duplicate name ", *duplicate));
  return header;
}

absl::StatusOr<std::map<std::string, std::string>> ParseMetadata(
    const nlohmann::json& value, absl::string_view source) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object())
    return Malformed(source, "__metadata__ is not a map of strings");
  for (const auto& [name, text] : value.items()) {
    if (!text.is_string())
      return Malformed(source,
                       absl::StrCat("__metadata__ ", name, " is not a string"));
    metadata[name] = text.get<std::string>();
  }
  return metadata;
}

// Size of `shape` in bytes, or nothing when it overflows.
std::optional<uint64_t> BytesOf(const std::vector<int64_t>& shape,
                                uint64_t element) {
  uint64_t bytes = element;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
      return std::nullopt;
  }
  return bytes;
}

absl::StatusOr<Entry> ParseEntry(const std::string& name,
                                 const nlohmann::json& value,
                                 absl::string_view source) {
  Entry entry;
  entry.name = name;
  if (!value.is_object()) return Malformed(source, name, "is not an object");
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string())
    return Malformed(source, name, "has no dtype");
  if (shape == value.end() || !shape->is_array())
    return Malformed(source, name, "has no shape");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return Malformed(source, name, "has no data_offsets [begin, end]");
  }
  entry.type = FindType(dtype->get<std::string>());
  if (entry.type == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": tensor ", name, ": type ",
                     dtype->get<std::string>(), " is not supported"));
  }
  for (const nlohmann::json& size : *shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return Malformed(source, name, "has a size that is not a natural number");
    }
    entry.shape.push_back(size.get<int64_t>());
  }
  entry.begin = (*offsets)[0].get<uint64_t>();
  entry.end = (*offsets)[1].get<uint64_t>();
  const std::optional<uint64_t> bytes = BytesOf(entry.shape, entry.type->bytes);
  if (!bytes) return Malformed(source, name, "its shape overflows");
  if (entry.end < entry.begin || entry.end - entry.begin != *bytes) {
    return Malformed(source, name,
                     absl::StrCat("its shape needs ", *bytes,
                                  " bytes, its data_offsets are [", entry.begin,
                                  ", ", entry.end, ")"));
  }
  return entry;
}

// The entries must cover the data buffer exactly, in some order.
absl::Status CheckCoverage(std::vector<Entry>* entries, uint64_t data_bytes,
                           absl::string_view source) {
  std::sort(entries->begin(), entries->end(),
            [](const Entry& a, const Entry& b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  uint64_t covered = 0;
  for (const Entry& entry : *entries) {
    if (entry.begin > covered)
      return Malformed(source, entry.name,
                       absl::StrCat("a hole precedes it, from byte ", covered));
    if (entry.begin < covered)
      return Malformed(source, entry.name, "overlaps the tensor before it");
    if (entry.end > data_bytes)
      return Malformed(source, entry.name,
                       "reaches beyond the end of the file");
    covered = entry.end;
  }
  if (covered != data_bytes)
    return Malformed(source,
                     absl::StrCat(data_bytes - covered,
                                  " trailing bytes belong to no tensor"));
  return absl::OkStatus();
}

absl::StatusOr<at::Tensor> MakeTensor(const Entry& entry,
                                      absl::string_view data,
                                      absl::string_view source) {
  const absl::string_view bytes =
      data.substr(entry.begin, entry.end - entry.begin);
  if (entry.type->scalar == at::kBool &&
      std::any_of(bytes.begin(), bytes.end(),
                  [](char c) { return c != 0 && c != 1; })) {
    return Malformed(source, entry.name,
                     "holds a BOOL that is neither 0 nor 1");
  }
  return CatchTorch(
      absl::StrCat(source, ": tensor ", entry.name),
      [&]() -> absl::StatusOr<at::Tensor> {
        at::Tensor tensor = at::empty(
            entry.shape, at::TensorOptions().dtype(entry.type->scalar));
        if (!bytes.empty())
          std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
        return tensor;
      });
}

}  // namespace

absl::StatusOr<TensorFile> ParseSafetensors(absl::string_view bytes,
                                            absl::string_view source) {
  if (bytes.size() < kPrefix)
    return Malformed(source, "shorter than the 8 bytes of the header's length");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kPrefix);
  if (header_bytes > kMaxHeader)
    return Malformed(source, absl::StrCat("a header of ", header_bytes,
                                          " bytes is too large"));
  if (header_bytes > bytes.size() - kPrefix)
    return Malformed(source, "the header reaches beyond the end of the file");
  ASSIGN_OR_RETURN(const nlohmann::json header,
                   ParseHeader(bytes.substr(kPrefix, header_bytes), source));
  const absl::string_view data = bytes.substr(kPrefix + header_bytes);

  TensorFile content;
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      ASSIGN_OR_RETURN(content.metadata, ParseMetadata(value, source));
      continue;
    }
    ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, value, source));
    entries.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(CheckCoverage(&entries, data.size(), source));
  for (const Entry& entry : entries) {
    ASSIGN_OR_RETURN(content.tensors[entry.name],
                     MakeTensor(entry, data, source));
  }
  return content;
}

absl::StatusOr<TensorFile> ReadSafetensors(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return ParseSafetensors(bytes, path);
}

absl::StatusOr<std::string> SerializeSafetensors(const TensorFile& content) {
  std::vector<std::pair<const StoredType*, std::string>> order;
  for (const auto& [name, tensor] : content.tensors) {
    const StoredType* type = FindType(tensor.scalar_type());
    if (type == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", name, ": its type cannot be stored"));
    order.emplace_back(type, name);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first
               ? a.first > b.first
               : a.second < b.second;  // kTypes is one array: pointers order it
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::string data;
  for (const auto& [type, name] : order) {
    ASSIGN_OR_RETURN(
        const at::Tensor tensor,
        CatchTorch(
            absl::StrCat("tensor ", name),
            [&, &name = name]() -> absl::StatusOr<at::Tensor> {
              return content.tensors.at(name).detach().cpu().contiguous();
            }));
    const size_t begin = data.size();
    data.append(static_cast<const char*>(tensor.const_data_ptr()),
                static_cast<size_t>(tensor.nbytes()));
    header[name] = {{"dtype", type->name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((kPrefix - text.size() % kPrefix) % kPrefix, ' ');
  const uint64_t length = text.size();
  std::string bytes(reinterpret_cast<const char*>(&length), kPrefix);
  bytes.append(text).append(data);
  return bytes;
}

absl::Status WriteSafetensors(const std::string& path,
                              const TensorFile& content) {
  ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(content));
  return WriteFileDurably(path, bytes);
}

}  // namespace iclsweep

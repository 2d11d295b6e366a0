// Tensors on disk in the safetensors format
// (github.com/huggingface/safetensors, format description in its README): an
// 8-byte little-endian header length, a JSON header (name -> dtype, shape,
// data_offsets), one data buffer.
//
// The reader is strict: it refuses headers over 100,000,000 bytes or beyond the
// file, duplicate names, shapes that overflow or do not match their span, and
// data that is not covered exactly (holes, overlap, trailing bytes). Types:
// BOOL U8 I8 I16 I32 I64 F16 BF16 F32 F64, on the CPU, row-major. Not a lazy or
// sharded reader.
//
// Errors: NotFound, Unavailable (disk), DataLoss (malformed), InvalidArgument
// (a type that is not supported); each names the file and, where there is one,
// the tensor. Thread-safe.
#pragma once

#include <map>
#include <string>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace iclsweep {

struct TensorFile {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// `source` names the bytes in messages.
absl::StatusOr<TensorFile> ParseSafetensors(absl::string_view bytes,
                                            absl::string_view source);
absl::StatusOr<TensorFile> ReadSafetensors(const std::string& path);

// Tensors ordered by type (widest first), then name, as the reference
// implementation writes them.
absl::StatusOr<std::string> SerializeSafetensors(const TensorFile& content);
// Durable: temporary name, fsync, rename.
absl::Status WriteSafetensors(const std::string& path,
                              const TensorFile& content);

}  // namespace iclsweep

// The canonical form of a parameter message, and the key of a job. The form is
// bytes that depend on what the message means, not on how it was written: it is
// what identity is hashed over. It is not a wire format: nothing reads it back.
// Everything below is persisted through stored keys: changing it needs a new
// kKeyFormatVersion (proto/base/domain.h).
//
// Numbers are big-endian. form(message) is the concatenation, in ascending
// field number, of one record per kept field:
//
//   number (4 bytes) | kind (1 byte) | length of the payload (8 bytes) |
//   payload
//
//   kind  type                payload of a singular field
//   i     int32, int64        8 bytes, two's complement (so int32 may grow to
//   int64) u     uint32, uint64      8 bytes b     bool                1 byte,
//   0 or 1 d     double              8 bytes, IEEE-754 bits; -0.0 is written as
//   0.0; infinities are allowed e     enum                8 bytes, the value's
//   number, two's complement s     string              its bytes, from
//   [A-Za-z0-9_.:/-]+ m     message             form(message)
//
// Left out: a scalar equal to its declared default (set or not), a submessage
// with an empty form, an empty list. A repeated field uses the upper-case kind;
// its payload is length (8 bytes) | payload for each element, all elements
// kept, in order.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"
#include "proto/base/domain.h"

namespace iclsweep {

// Errors: InvalidArgument naming the field for NaN, a string outside the
// alphabet, unknown fields (they also hold a closed enum's unknown numbers),
// and types that have no form: maps, groups, float, bytes, fixed and zig-zag
// integers, oneofs, extensions.
absl::StatusOr<std::string> CanonicalForm(
    const google::protobuf::Message& message);

// SHA-256 of these parts, each after its length (8 bytes): key format version
// (4 bytes), stage name, the stage's numerics version (4 bytes), "strict" or
// "fast", CanonicalForm(inputs), then every dependency's key (32 bytes each, in
// order). Errors: those of CanonicalForm.
absl::StatusOr<JobKey> ComputeJobKey(Stage stage,
                                     const google::protobuf::Message& inputs,
                                     absl::Span<const JobKey> dependencies,
                                     bool fast = false);

}  // namespace iclsweep

// Every error of this folder, by name. All are InvalidArgument, one line, and
// begin with file:line:column.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/spec/place.h"

namespace iclsweep {

// The text in quotes on one line: control characters escaped, cut after 60
// bytes.
std::string Quoted(absl::string_view text);
// "; did you mean 'steps'?" with the nearest candidate, or nothing when none is
// near.
std::string DidYouMean(absl::string_view word,
                       const std::vector<std::string>& candidates);
// "sweep.yaml:3:9"; without the parts that are unknown.
std::string Where(absl::string_view file, Place place);

absl::Status SpecError(absl::string_view file, Place place,
                       absl::string_view message);
// An error about a parameter, at its place (or that of the section around it).
absl::Status ParameterError(const Places& places, absl::string_view path,
                            absl::string_view message);

absl::Status NotYaml(absl::string_view file, Place place,
                     absl::string_view why);
absl::Status UnknownKey(absl::string_view file, Place place,
                        absl::string_view section, absl::string_view key,
                        absl::string_view hint);
absl::Status DuplicateKey(absl::string_view file, Place place,
                          absl::string_view key, Place first);
// "train.steps takes a whole number, not 'x'".
absl::Status WrongType(absl::string_view file, Place place,
                       absl::string_view path, absl::string_view takes,
                       absl::string_view got);
absl::Status NotAvailable(absl::string_view file, Place place,
                          absl::string_view what);
absl::Status EmptyAxis(absl::string_view file, Place place,
                       absl::string_view path);
absl::Status GridTooLarge(absl::string_view file, Place place,
                          absl::string_view product, absl::string_view limit);

}  // namespace iclsweep

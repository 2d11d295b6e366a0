// The one border where LibTorch's exceptions become a Status: CatchTorch(what,
// body) runs `body`, which returns a Status or StatusOr, and turns what it
// throws into ResourceExhausted (out of memory) or Internal, prefixed by
// `what`.
#pragma once

#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "c10/util/Exception.h"

namespace iclsweep {

// The Status of a message LibTorch threw: allocators and libraries report a
// lack of memory in several ways.
inline absl::Status StatusOfTorchMessage(absl::string_view what,
                                         absl::string_view message) {
  const bool out_of_memory =
      absl::StrContains(message, "out of memory") ||
      absl::StrContains(message, "can't allocate memory") ||
      absl::StrContains(message, "ALLOC_FAILED");
  const std::string text =
      absl::StrCat(what, ": ", message.substr(0, message.find('\n')));
  return out_of_memory ? absl::ResourceExhaustedError(text)
                       : absl::InternalError(text);
}

template <typename Body>
auto CatchTorch(absl::string_view what, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const c10::OutOfMemoryError& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, ": ", error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    return StatusOfTorchMessage(what, error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const std::exception& error) {
    return StatusOfTorchMessage(what, error.what());
  }
}

}  // namespace iclsweep

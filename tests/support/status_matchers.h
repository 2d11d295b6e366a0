// Matchers and assertions for absl::Status and absl::StatusOr.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace iclsweep::testing {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Matches a Status or StatusOr that is OK.
MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// StatusIs(code, matcher of the message).
MATCHER_P2(StatusIs, code, message_matcher,
           "has the code and a matching message") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message_matcher,
                                       std::string(StatusOf(arg).message()),
                                       result_listener);
}

}  // namespace iclsweep::testing

#define ICLSWEEP_TEST_CONCAT_INNER(a, b) a##b
#define ICLSWEEP_TEST_CONCAT(a, b) ICLSWEEP_TEST_CONCAT_INNER(a, b)
// ASSERT_OK_AND_ASSIGN(auto x, F());
#define ASSERT_OK_AND_ASSIGN(target, expression)               \
  auto ICLSWEEP_TEST_CONCAT(holder_, __LINE__) = (expression); \
  ASSERT_TRUE(ICLSWEEP_TEST_CONCAT(holder_, __LINE__).ok())    \
      << ICLSWEEP_TEST_CONCAT(holder_, __LINE__).status();     \
  target = *std::move(ICLSWEEP_TEST_CONCAT(holder_, __LINE__))
#define ASSERT_OK(expression) \
  ASSERT_THAT(expression, ::iclsweep::testing::IsOk())
#define EXPECT_OK(expression) \
  EXPECT_THAT(expression, ::iclsweep::testing::IsOk())

#pragma once
// Expects that a call throws, and what the message says.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf {

// The message of the `Expected` that the call throws; "" when it throws none.
template <class Expected, class Function>
std::string error_of(const Function& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

// Expects it to throw with all of some words in the message.
template <class Expected, class Function>
void expect_throws(const Function& call,
                   std::initializer_list<std::string> words) {
  const std::string text = error_of<Expected>(call);
  EXPECT_FALSE(text.empty()) << "nothing was thrown";
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos)
        << "'" << word << "' is missing in: " << text;
}

}  // namespace sheaf

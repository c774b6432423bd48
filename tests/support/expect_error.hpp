#pragma once
// Expects that a call throws, and checks the message.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "sheaf/base/error.hpp"

namespace sheaf {

// The message of the `Expected` that the call throws; "" if it does not throw.
template <class Expected, class Function>
std::string error_of(const Function& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

// Expects the call to throw with a message that contains all of the words.
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

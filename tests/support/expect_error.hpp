#pragma once
// Expects that a call throws, with all of some words in the message.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace sheaf {

template <class Expected, class Function>
void expect_throws(Function call, std::initializer_list<std::string> words) {
  try {
    call();
  } catch (const Expected& error) {
    const std::string text = error.what();
    for (const std::string& word : words)
      EXPECT_NE(text.find(word), std::string::npos)
          << "'" << word << "' is missing in: " << text;
    return;
  }
  ADD_FAILURE() << "nothing was thrown";
}

}  // namespace sheaf

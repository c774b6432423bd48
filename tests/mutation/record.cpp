// Compiled into each test program that runs with faults.

#include <gtest/gtest.h>

#include "tests/mutation/mutants.hpp"

namespace {

class NameOfTest : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    sheaf_begin_test(std::string(test.test_suite_name()) + "." + test.name());
  }
};

[[maybe_unused]] const bool is_listening = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new NameOfTest);
  return true;
}();

}  // namespace

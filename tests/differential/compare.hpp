#pragma once
// Whether what was found is what the reference says.

#include <string>
#include <vector>

#include "plain/session.hpp"
#include "under_test.hpp"

namespace differential {

enum class Verdict { kSame, kError, kWrong, kBad };

struct Finding {
  Verdict verdict = Verdict::kSame;
  // kError: the documented error's kind and text. kWrong: what is wrong.
  // kBad: why the case cannot be run at all.
  std::string reason;
  // A tensor's values could not be compared: Entry::is_open.
  bool has_open = false;
};

// kError where all ranks failed with a documented kind of error, and had the
// reference's results until then. `expected` is what the reference gave without
// what was found; empty: it is still to run.
Finding compare(const Case& one, const std::vector<RankResult>& found,
                const std::vector<Record>& expected = {});
// What the reference gives without what is found; else why it gives nothing.
std::string find_expected(const Case& one, std::vector<Record>& expected);
// Runs the case on threads, and the reference.
Finding check(const Case& one);

}  // namespace differential

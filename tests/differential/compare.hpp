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
};

// kError where all ranks failed with a documented kind of error. `expected` is
// what the reference gave without what was found; empty: it is still to run.
Finding compare(const Case& one, const std::vector<RankResult>& found,
                const std::vector<Record>& expected = {});
// Runs the case on threads, and the reference.
Finding check(const Case& one);

}  // namespace differential

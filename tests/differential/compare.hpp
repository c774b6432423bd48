#pragma once
// Compares the results found with those of the reference.

#include <string>
#include <vector>

#include "plain/session.hpp"
#include "under_test.hpp"

namespace differential {

enum class Verdict { kSame, kError, kWrong, kBad };

struct Finding {
  Verdict verdict = Verdict::kSame;
  // kError: kind and text of the documented error. kWrong: the difference.
  // kBad: why the case cannot be run.
  std::string reason;
  // The values of a tensor could not be compared; see Entry::is_open.
  bool has_open = false;
};

// Returns kError if all ranks failed with a documented kind of error and had
// the reference's results until then. `expected` is the result of the reference
// that does not depend on `found`; if it is empty, the reference is run here.
Finding compare(const Case& one, const std::vector<RankResult>& found,
                const std::vector<Record>& expected = {});
// Computes the result of the reference that does not depend on what is found;
// otherwise returns why there is none.
std::string find_expected(const Case& one, std::vector<Record>& expected);
// Runs the case on threads, and the reference.
Finding check(const Case& one);

}  // namespace differential

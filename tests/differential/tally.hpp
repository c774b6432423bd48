#pragma once
// Counts the outcomes of the cases of a run, and decides whether the run
// passes.

#include <iosfwd>

#include "compare.hpp"
#include "coverage.hpp"

namespace differential {

class Tally {
 public:
  void add(const Case& one, const Finding& finding);

  // Cases that were compared or ended with an error, without those that cannot
  // run.
  std::int64_t done() const { return done_; }
  std::int64_t wrong() const { return wrong_; }
  // Whether more cases were rejected than a run of `cases` may have.
  bool has_too_many_bad(std::int64_t cases) const;

  void print(std::ostream& out, double seconds) const;
  const Coverage& coverage() const { return coverage_; }
  // Why the run fails, one reason per line; empty if it passes.
  std::string failures() const;

 private:
  Coverage coverage_, bad_reasons_;
  std::int64_t done_ = 0, wrong_ = 0, errors_ = 0, bad_ = 0;
  // Cases with PowerSGD; those not compared completely.
  std::int64_t power_ = 0, open_ = 0;
};

}  // namespace differential

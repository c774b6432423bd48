#include "tally.hpp"

#include <ostream>

namespace differential {
namespace {

// Maximum fractions of cases; a single case is always allowed.
constexpr double kMostErrors = 0.05;  // of the cases that ran
constexpr double kMostBad = 0.03;     // of all generated cases
constexpr double kMostOpen = 0.02;    // of the cases with PowerSGD

bool is_above(std::int64_t count, double part, std::int64_t all) {
  return count > 1 &&
         static_cast<double>(count) > part * static_cast<double>(all);
}

bool has_power(const Case& one) {
  return one.setting.get("exchange") == 3 && one.ranks() > 1;
}

}  // namespace

void Tally::add(const Case& one, const Finding& finding) {
  if (finding.verdict == Verdict::kBad) {
    ++bad_;
    bad_reasons_.add_error(one, finding.reason);
    return;
  }
  ++done_;
  coverage_.add(one);
  if (has_power(one)) ++power_;
  if (finding.has_open) ++open_;
  if (finding.verdict == Verdict::kWrong) ++wrong_;
  if (finding.verdict != Verdict::kError) return;
  ++errors_;
  coverage_.add_error(one, finding.reason);
}

bool Tally::has_too_many_bad(std::int64_t cases) const {
  return is_above(bad_, kMostBad, cases + bad_);
}

void Tally::print(std::ostream& out, double seconds) const {
  out << done_ << " cases in " << seconds << " s, " << wrong_ << " wrong, "
      << errors_ << " documented errors; " << bad_
      << " more that libtorch itself refuses; " << open_ << " of " << power_
      << " PowerSGD cases have tensors that cannot be compared\n";
  coverage_.print_errors(out);
  bad_reasons_.print_errors(out);
}

std::string Tally::failures() const {
  std::string text;
  if (wrong_ > 0) text += "cases are wrong\n";
  if (done_ == 0) text += "no case ran\n";
  if (is_above(errors_, kMostErrors, done_))
    text += "too many errors: at most 5 % of the cases may end so\n";
  if (is_above(bad_, kMostBad, done_ + bad_))
    text += "too many cases cannot run: at most 3 % may be refused\n";
  if (is_above(open_, kMostOpen, power_))
    text += "too many PowerSGD cases cannot be compared: at most 2 % may\n";
  return text;
}

}  // namespace differential

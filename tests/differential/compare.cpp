#include "compare.hpp"

#include <cmath>
#include <sstream>

#include "equal_bits.hpp"
#include "plain/reference.hpp"

namespace differential {
namespace {

// Relative to the largest element of a tensor, or to kLeast if all are smaller:
// values that are 0 up to rounding are not compared relative to themselves.
constexpr double kTolerance = 1e-9;
constexpr double kLeast = 1e-2;
// Relative to the largest element of all results so far: if a training run
// diverges, sums of large terms that cancel keep the rounding errors of the
// terms.
constexpr double kCancelled = 1e-13;

// Errors of the caller. Errors that report differences between ranks are not
// among them, because the programs here do the same on all ranks.
bool is_documented(const RankResult& found) {
  return found.kind == "UsageError" &&
         found.error.find("exchanges factors of pass") == std::string::npos;
}

std::string shown(const at::Tensor& value) {
  if (!value.defined()) return "none";
  std::ostringstream out;
  out << "[" << value.sizes() << "] of " << value.scalar_type();
  return out.str();
}

std::string worst_element(const at::Tensor& found, const at::Tensor& wanted,
                          const at::Tensor& excess) {
  const std::int64_t at = excess.flatten().argmax().item<std::int64_t>();
  std::ostringstream out;
  out.precision(12);
  out << "element " << at << " is " << found.flatten()[at].item<double>()
      << ", the reference has " << wanted.flatten()[at].item<double>();
  return out.str();
}

// Empty if both are equal. `largest`: the largest element of the results so
// far.
std::string difference(const Entry& found, const Entry& wanted,
                       double& largest) {
  if (found.name != wanted.name)
    return "found " + found.name + ", the reference has " + wanted.name;
  if (found.value.defined() != wanted.value.defined() ||
      (found.value.defined() &&
       (found.value.sizes() != wanted.value.sizes() ||
        found.value.scalar_type() != wanted.value.scalar_type())))
    return wanted.name + ": found " + shown(found.value) +
           ", the reference has " + shown(wanted.value);
  if (!found.value.defined() || found.value.numel() == 0) return "";
  const at::Tensor a = found.value.to(at::kCPU, at::kDouble);
  const at::Tensor b = wanted.value.to(at::kCPU, at::kDouble);
  if (wanted.is_open)
    return a.isfinite().all().item<bool>() ? ""
                                           : wanted.name + " is not finite";
  const double size = std::max(kLeast, b.abs().max().item<double>());
  if (std::isfinite(size)) largest = std::max(largest, size);
  at::Tensor allowed =
      at::full_like(b, kTolerance * size + kCancelled * largest);
  if (wanted.slack.defined())
    allowed = allowed + wanted.slack.to(at::kCPU, at::kDouble);
  const at::Tensor excess = (a - b).abs() - allowed;
  // NaN is a difference unless both are NaN.
  const at::Tensor is_same = (excess <= 0)
                                 .logical_or(a.isnan().logical_and(b.isnan()))
                                 .logical_or(a == b);
  if (is_same.all().item<bool>()) return "";
  return wanted.name + ": " +
         worst_element(
             a, b,
             excess.nan_to_num(1e300, 1e300).masked_fill(is_same, -1e300));
}

// A record may end early if the rank ended with an error.
std::string difference(const RankResult& found, const Record& wanted) {
  const Record& record = found.record;
  double largest = 0;
  for (std::size_t i = 0; i < std::min(record.size(), wanted.size()); ++i) {
    const std::string text = difference(record[i], wanted[i], largest);
    if (!text.empty()) return text;
  }
  if (record.size() > wanted.size() ||
      (found.kind.empty() && record.size() < wanted.size()))
    return "another number of results";
  return "";
}

Finding compare_records(const std::vector<RankResult>& found,
                        const std::vector<Record>& wanted) {
  Finding finding;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const std::string text = difference(found[rank], wanted[rank]);
    if (!text.empty())
      return {Verdict::kWrong, "rank " + std::to_string(rank) + ", " + text};
    for (std::size_t i = 0; i < found[rank].record.size(); ++i)
      finding.has_open = finding.has_open || wanted[rank][i].is_open;
  }
  const std::string text = unequal_bits(found);
  if (!text.empty()) return {Verdict::kWrong, text};
  return finding;
}

Finding compare_errors(const std::vector<RankResult>& found) {
  std::string text;
  bool are_documented = true;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    are_documented = are_documented && is_documented(found[rank]);
    text += "\n  rank " + std::to_string(rank) + ": " +
            (found[rank].kind.empty()
                 ? "no error"
                 : found[rank].kind + ": " + found[rank].error);
  }
  if (are_documented)
    return {Verdict::kError, found[0].kind + ": " + found[0].error};
  return {Verdict::kWrong,
          "errors that are not documented, or not on all "
          "ranks:" +
              text};
}

}  // namespace

Finding compare(const Case& one, const std::vector<RankResult>& found,
                const std::vector<Record>& expected) {
  std::vector<Record> tested;
  bool has_error = false;
  for (const RankResult& rank : found) {
    has_error = has_error || !rank.kind.empty();
    tested.push_back(rank.record);
  }
  Finding errors = has_error ? compare_errors(found) : Finding{};
  if (errors.verdict == Verdict::kWrong) return errors;
  const auto wanted =
      is_rounded(one) || expected.empty() ? reference(one, tested) : expected;
  const Finding records = compare_records(found, wanted);
  errors.has_open = records.has_open;
  return has_error && records.verdict == Verdict::kSame ? errors : records;
}

std::string find_expected(const Case& one, std::vector<Record>& expected) {
  try {
    require(one.ranks() % grid_size(one) == 0, "the grid does not divide");
    expected = reference(one, {});
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

Finding check(const Case& one) {
  std::vector<Record> expected;
  if (const std::string reason = find_expected(one, expected); !reason.empty())
    return {Verdict::kBad, reason};
  return compare(one, run_threads(one), expected);
}

}  // namespace differential

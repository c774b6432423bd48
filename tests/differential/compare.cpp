#include "compare.hpp"

#include <set>
#include <sstream>

#include "plain/reference.hpp"

namespace differential {
namespace {

// Of the largest element of a tensor, or of kLeast where all are smaller: what
// is 0 but for rounding is not compared by its own size.
constexpr double kTolerance = 1e-9;
constexpr double kLeast = 1e-2;

const std::set<std::string> kDocumented{"UsageError", "MismatchError"};

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

// Empty where both are the same.
std::string difference(const Entry& found, const Entry& wanted) {
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
  const double size = std::max(kLeast, b.abs().max().item<double>());
  at::Tensor allowed = at::full_like(b, kTolerance * size);
  if (wanted.slack.defined())
    allowed = allowed + wanted.slack.to(at::kCPU, at::kDouble);
  const at::Tensor excess = (a - b).abs() - allowed;
  // Not a number counts as a difference unless both are.
  const at::Tensor is_same = (excess <= 0)
                                 .logical_or(a.isnan().logical_and(b.isnan()))
                                 .logical_or(a == b);
  if (is_same.all().item<bool>()) return "";
  return wanted.name + ": " +
         worst_element(
             a, b,
             excess.nan_to_num(1e300, 1e300).masked_fill(is_same, -1e300));
}

std::string difference(const Record& found, const Record& wanted) {
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i) {
    const std::string text = difference(found[i], wanted[i]);
    if (!text.empty()) return text;
  }
  return found.size() == wanted.size() ? "" : "another number of results";
}

Finding compare_errors(const std::vector<RankResult>& found) {
  std::string text;
  bool is_documented = true;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    is_documented = is_documented && kDocumented.count(found[rank].kind) > 0;
    text += "\n  rank " + std::to_string(rank) + ": " +
            (found[rank].kind.empty()
                 ? "no error"
                 : found[rank].kind + ": " + found[rank].error);
  }
  if (is_documented)
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
  if (has_error) return compare_errors(found);
  const auto wanted =
      is_rounded(one) || expected.empty() ? reference(one, tested) : expected;
  for (std::size_t rank = 0; rank < found.size(); ++rank) {
    const std::string text = difference(tested[rank], wanted[rank]);
    if (!text.empty())
      return {Verdict::kWrong, "rank " + std::to_string(rank) + ", " + text};
  }
  return {};
}

Finding check(const Case& one) {
  std::vector<Record> expected;
  try {
    require(one.ranks() % grid_size(one) == 0, "the grid does not divide");
    expected = reference(one, {});
  } catch (const std::exception& error) {
    return {Verdict::kBad, error.what()};
  }
  return compare(one, run_threads(one), expected);
}

}  // namespace differential

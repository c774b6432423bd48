#include "sheaf/parallel/data/parameter_users.hpp"

#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::parallel {
namespace {

// Added to a parameter's count by a rank with a late gradient.
constexpr std::int32_t kLate = 1 << 16;

}  // namespace

ParameterUsers::ParameterUsers(std::size_t parameters, int ranks)
    : active_(ranks), is_expected_(parameters, true), own_(parameters) {}

void ParameterUsers::set_own(std::size_t parameter, bool is_used,
                             bool is_late) {
  own_[parameter] = (is_used ? 1 : 0) + (is_late ? kLate : 0);
}

bool ParameterUsers::is_regular(bool has_data) const {
  for (std::size_t i = 0; i < own_.size(); ++i)
    if (own_[i] != (has_data && is_expected_[i] ? 1 : 0)) return false;
  return true;
}

void ParameterUsers::count_regular() {
  counts_.resize(own_.size());
  for (std::size_t i = 0; i < own_.size(); ++i)
    counts_[i] = is_expected_[i] ? active_ : 0;
}

std::int64_t ParameterUsers::count(const comm::Group& group,
                                   const std::string& name) {
  counts_ = own_;
  comm::all_reduce(group, counts_, {.name = name}).wait();
  return static_cast<std::int64_t>(counts_.size() * sizeof counts_[0]);
}

int ParameterUsers::users(std::size_t parameter) const {
  return counts_[parameter] % kLate;
}

bool ParameterUsers::is_late_anywhere(std::size_t parameter) const {
  return counts_[parameter] >= kLate;
}

}  // namespace sheaf::parallel

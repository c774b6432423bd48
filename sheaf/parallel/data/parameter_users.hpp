#pragma once
// The number of ranks that have used each parameter in a pass.
//
// A rank has *used* a parameter if it has a gradient of it, from this pass or
// from passes without exchange. A gradient is *late* if the parameter already
// had one in the same pass. A rank is *regular* in a pass if it has used
// exactly the expected parameters and has no late gradient; a rank without data
// is expected to use none. If all ranks are regular, each of them knows all
// counts, and they need not be exchanged.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

class ParameterUsers {
 public:
  ParameterUsers(std::size_t parameters, int ranks);

  // The number of ranks that have data, equal on all ranks.
  void set_active(int ranks) { active_ = ranks; }
  int active() const { return active_; }
  // No rank will use the parameter in later passes (static_graph). All ranks
  // must call it.
  void expect_none(std::size_t parameter) { is_expected_[parameter] = false; }
  bool is_expected(std::size_t parameter) const {
    return is_expected_[parameter];
  }

  // Sets this rank's part, for each parameter in every pass.
  void set_own(std::size_t parameter, bool is_used, bool is_late);
  // Whether this rank is regular.
  bool is_regular(bool has_data) const;
  // All ranks are regular: computes the counts.
  void count_regular();
  // Sums the parts of all ranks; all of them must call it. Returns the number
  // of bytes that this rank sent.
  std::int64_t count(const comm::Group& group, const std::string& name);

  // The counts, valid until the next pass.
  int users(std::size_t parameter) const;
  bool is_late_anywhere(std::size_t parameter) const;

 private:
  int active_;
  std::vector<bool> is_expected_;
  std::vector<std::int32_t> own_;
  std::vector<std::int32_t> counts_;  // users, and kLate for each late gradient
};

}  // namespace sheaf::parallel

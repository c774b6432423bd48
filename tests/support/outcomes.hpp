#pragma once
// The outcome of each rank when an error occurs. Ranks are threads.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/topo/options.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::test {

using Hosts = std::vector<std::string>;  // host of each rank

enum class Ending { kWell, kMismatch, kTimeout, kCommError, kUsage, kOther };

struct Outcome {
  Ending ending = Ending::kWell;
  std::string text{};  // of the error

  bool names(const std::string& words) const {
    return text.find(words) != std::string::npos;
  }
};
std::ostream& operator<<(std::ostream& out, const Outcome& outcome);

// "aabb", for the names of tests.
inline std::string joined(const testing::TestParamInfo<Hosts>& info) {
  std::string name;
  for (const auto& host : info.param) name += host;
  return name;
}

// The outcome of a call on this rank.
Outcome outcome_of(const std::function<void()>& call);

// Runs `body` on every rank and returns the outcomes. No rank ends before all
// ranks have an outcome, except `deserter`, if given.
std::vector<Outcome> outcomes(
    const Hosts& hosts, const std::function<void(const comm::Group&)>& body,
    int deserter = -1, const topo::Options& options = {});

// While this object exists, files written by failures go to a separate folder,
// and nothing is logged, since the test expects failures.
class ExpectFailures {
 public:
  ExpectFailures();
  ~ExpectFailures();
  ExpectFailures(const ExpectFailures&) = delete;
  ExpectFailures& operator=(const ExpectFailures&) = delete;
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

}  // namespace sheaf::test

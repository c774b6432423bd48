#include "tests/support/outcomes.hpp"

#include <latch>
#include <ostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::test {

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  constexpr const char* kNames[] = {"well",         "MismatchError",
                                    "TimeoutError", "CommError",
                                    "UsageError",   "another error"};
  return out << kNames[static_cast<int>(outcome.ending)] << ": "
             << outcome.text;
}

Outcome outcome_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const MismatchError& error) {
    return {Ending::kMismatch, error.what()};
  } catch (const UsageError& error) {
    return {Ending::kUsage, error.what()};
  } catch (const TimeoutError& error) {
    return {Ending::kTimeout, error.what()};
  } catch (const CommError& error) {
    return {Ending::kCommError, error.what()};
  } catch (const std::exception& error) {
    return {Ending::kOther, error.what()};
  }
}

std::vector<Outcome> outcomes(
    const Hosts& hosts, const std::function<void(const comm::Group&)>& body,
    int deserter, const topo::Options& options) {
  std::vector<Outcome> all(hosts.size());
  const auto waiting =
      static_cast<std::ptrdiff_t>(hosts.size()) - (deserter >= 0 ? 1 : 0);
  std::latch everybody(waiting);
  const auto rank_body = [&](const comm::Group& group) {
    auto& mine = all[static_cast<std::size_t>(group.rank())];
    if (group.rank() == deserter) return body(group);
    mine = outcome_of([&] { body(group); });
    everybody.arrive_and_wait();
  };
  try {
    comm::run_threads(hosts, rank_body, options);
  } catch (...) {
    if (deserter < 0) throw;  // the deserter's end may be an error
  }
  return all;
}

ExpectFailures::ExpectFailures() {
  setenv("SHEAF_DUMP_DIR", folder_.path().c_str(), 1);
  set_log_level(LogLevel::kOff);
}

ExpectFailures::~ExpectFailures() {
  unsetenv("SHEAF_DUMP_DIR");
  set_log_level(LogLevel::kWarn);
}

}  // namespace sheaf::test

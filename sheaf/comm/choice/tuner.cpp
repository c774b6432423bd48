#include "sheaf/comm/choice/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/group/messages.hpp"

namespace sheaf::comm {
namespace {

// Hash of the host names and the number of ranks on each host.
std::uint64_t hash_hosts(GroupCore& group) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto add = [&](const std::string& text) {
    for (const char c : text)
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  };
  const Runtime& runtime = group.runtime();
  for (const auto& members : group.host_map().hosts) {
    const auto first =
        static_cast<std::size_t>(group.world_rank(members.front()));
    const auto host =
        static_cast<std::size_t>(runtime.host_map().host_of[first]);
    add(concat(runtime.host_names()[host], ":", members.size(), ";"));
  }
  return hash;
}

}  // namespace

std::string topology_key(GroupCore& group) {
  const HostMap& host_map = group.host_map();
  const auto& dims = group.runtime().options().dims;
  const bool is_declared = dims && dims->product() == group.size();
  return fmt::format("{} {}x{} {:016x} {}", group.runtime().transport().name(),
                     host_map.widest_host(), host_map.host_count(),
                     hash_hosts(group), is_declared ? dims->text() : "-");
}

Tuner::Tuner(GroupCore& group) : group_(group) {}

Choice Tuner::choose(DType dtype, std::size_t bytes, const Choice& usual) {
  const std::size_t class_bytes =
      std::bit_ceil(std::max<std::size_t>(1, bytes));
  Class& entry = classes_[{dtype, class_bytes}];
  if (entry.candidates.empty()) {
    entry.dtype = dtype;
    entry.bytes = class_bytes;
    open(entry, usual);
  }
  measured_ = entry.best < 0 ? &entry : nullptr;
  const std::size_t index =
      entry.best < 0 ? entry.ns_per_byte.size() % entry.candidates.size()
                     : static_cast<std::size_t>(entry.best);
  return entry.candidates[index];
}

void Tuner::open(Class& entry, const Choice& usual) {
  entry.candidates = candidates(group_.host_map(), usual, entry.bytes);
  if (entry.candidates.size() == 1) {
    entry.best = 0;
    return;
  }
  // Only rank 0 reads the file: hosts with different files would otherwise
  // choose differently.
  const std::vector<int> mine{group_.rank() == 0 ? recalled(entry) : -1};
  entry.best = all_gather_small(group_, "mode p: recall", mine)[0][0];
}

int Tuner::recalled(const Class& entry) const {
  const auto known =
      recall(tuned_path(), {topology_key(group_), entry.dtype, entry.bytes});
  for (int i = 0; known && i < static_cast<int>(entry.candidates.size()); ++i)
    if (text(entry, i) == *known) return i;
  return -1;
}

void Tuner::note(std::size_t bytes, std::int64_t busy_ns) {
  Class& entry = *measured_;
  measured_ = nullptr;
  entry.ns_per_byte.push_back(
      static_cast<double>(busy_ns) /
      static_cast<double>(std::max<std::size_t>(1, bytes)));
  if (entry.ns_per_byte.size() == kTuningRounds * entry.candidates.size())
    decide(entry);
}

// The time of a trial is that of its slowest rank. The time of a candidate is
// that of its fastest trial, the one least disturbed by other load.
void Tuner::decide(Class& entry) {
  const auto all = all_gather_small(group_, "mode p: times", entry.ns_per_byte);
  const std::size_t count = entry.candidates.size();
  std::vector<double> best(count, std::numeric_limits<double>::infinity());
  for (std::size_t trial = 0; trial < entry.ns_per_byte.size(); ++trial) {
    double slowest = 0;
    for (const auto& rank : all) slowest = std::max(slowest, rank[trial]);
    best[trial % count] = std::min(best[trial % count], slowest);
  }
  const auto fastest = std::min_element(best.begin(), best.end());
  entry.best = static_cast<int>(fastest - best.begin());
  if (group_.rank() != 0) return;
  const double us = *fastest * static_cast<double>(entry.bytes) / 1e3;
  log_info("group {}: {} up to {} uses {}: {:.1f} us", group_.id(),
           name_of(entry.dtype), format_bytes(entry.bytes),
           text(entry, entry.best), us);
  remember(tuned_path(), {topology_key(group_), entry.dtype, entry.bytes},
           text(entry, entry.best), us);
}

std::string Tuner::text(const Class& entry, int candidate) const {
  return text_of(entry.candidates[static_cast<std::size_t>(candidate)],
                 group_.host_map());
}

}  // namespace sheaf::comm

#include "sheaf/comm/algorithms/pipeline_buffers.hpp"

#include <algorithm>
#include <cstring>

namespace sheaf::comm {
namespace {

constexpr std::size_t kLine = 64;

}  // namespace

PipelineBuffers::PipelineBuffers(CollectiveCall& call, const PipelineJob& job,
                                 const PipelinePlan& plan,
                                 const HostMap& host_map)
    : job_(job),
      local_(call.local()),
      lanes_(static_cast<std::size_t>(plan.lanes)),
      me_(host_map.local),
      has_network_(host_map.host_count() > 1),
      element_(size_of(job.reduction.dtype)) {
  const auto root = static_cast<std::size_t>(job.root);
  if (host_map.host_of[root] == host_map.host)
    root_member_ = host_map.local_of[root];
  for (int member = 0; member < host_map.local_count(); ++member)
    members_.push_back(buffers_of(call, member));
  is_staged_ = needs_staging(call.group().runtime().memory());
  // The same on all hosts, whether they stage or not.
  divide(std::min(plan.segment_bytes, kMaxSegmentBytes));
  if (has_network_ && me_ < plan.lanes && !job.output)
    scratch_.resize(kWindow * segment_elements_ * element_);
}

PipelineBuffers::MemberBuffers PipelineBuffers::buffers_of(CollectiveCall& call,
                                                           int member) const {
  if (member == me_) return {job_.input, job_.output};
  SharedBuffers theirs;
  std::memcpy(&theirs, call.payload(member, sizeof theirs), sizeof theirs);
  std::byte* heap = call.heap_of(member);
  MemberBuffers buffers;
  if (theirs.input != SharedBuffers::kNotShared)
    buffers.input = heap + theirs.input;
  if (theirs.output != SharedBuffers::kNotShared)
    buffers.output = heap + theirs.output;
  return buffers;
}

bool PipelineBuffers::needs_staging(const HostMemory& memory) const {
  const int size = static_cast<int>(members_.size());
  if (size == 1) return false;
  // All members must get the same answer, so this rank's own buffers are
  // treated as its peers see them.
  const auto mine =
      memory.shared(job_.input, job_.output, job_.count * element_);
  for (int member = 0; member < size; ++member) {
    const MemberBuffers& theirs = members_[static_cast<std::size_t>(member)];
    const bool has_input = member == me_
                               ? mine.input != SharedBuffers::kNotShared
                               : theirs.input != nullptr;
    const bool has_output = member == me_
                                ? mine.output != SharedBuffers::kNotShared
                                : theirs.output != nullptr;
    if (is_source(member) && !has_input) return true;
    if (is_target(member) && !has_output) return true;
  }
  return false;
}

// Without staging buffers and messages, nothing is gained by several segments.
void PipelineBuffers::divide(std::size_t segment_bytes) {
  segment_elements_ = !is_staged_ && !has_network_
                          ? job_.count
                          : std::max<std::size_t>(1, segment_bytes / element_);
  if (job_.count > 0)
    segments_ = (job_.count + segment_elements_ - 1) / segment_elements_;
}

bool PipelineBuffers::is_source(int member) const {
  return job_.flow != Flow::kBroadcast || member == root_member_;
}

bool PipelineBuffers::is_target(int member) const {
  switch (job_.flow) {
    case Flow::kReduce:
      return member == root_member_;
    case Flow::kBroadcast:
      return member != root_member_;
    default:
      return true;
  }
}

// Chunks consist of whole cache lines, so that no line has two writers.
Range PipelineBuffers::chunk_of(std::size_t segment, int lane) const {
  const std::size_t begin = segment * segment_elements_;
  const std::size_t count = std::min(segment_elements_, job_.count - begin);
  const std::size_t unit = kLine / element_;
  const std::size_t units = (count + unit - 1) / unit;
  const auto cut = [&](int index) {
    const std::size_t at =
        units * static_cast<std::size_t>(index) / lanes_ * unit;
    return std::min(at, count);
  };
  return {begin + cut(lane), cut(lane + 1) - cut(lane)};
}

const std::byte* PipelineBuffers::input(Range range) const {
  return job_.input + range.begin * element_;
}

std::byte* PipelineBuffers::output(Range range) const {
  return job_.output + range.begin * element_;
}

const std::byte* PipelineBuffers::source(int member, std::size_t segment,
                                         Range range) const {
  if (is_staged_ && member != me_) return staging(member, segment, range);
  return members_[static_cast<std::size_t>(member)].input +
         range.begin * element_;
}

std::byte* PipelineBuffers::target(int member, std::size_t segment,
                                   Range range) const {
  if (is_staged_) return staging(member, segment, range);
  return members_[static_cast<std::size_t>(member)].output +
         range.begin * element_;
}

std::byte* PipelineBuffers::work(std::size_t segment, Range range) {
  if (job_.output) return output(range);
  return scratch_.data() + segment % kWindow * segment_elements_ * element_ +
         offset(segment, range);
}

std::byte* PipelineBuffers::staging(int member, std::size_t segment,
                                    Range range) const {
  return local_.staging(member, segment) + offset(segment, range);
}

}  // namespace sheaf::comm

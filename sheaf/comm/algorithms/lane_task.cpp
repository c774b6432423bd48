#include "sheaf/comm/algorithms/lane_task.hpp"

#include <algorithm>

namespace sheaf::comm {

LaneTask::LaneTask(Transport& transport, const std::vector<int>& peers, Tag tag,
                   Schedule schedule, std::byte* data,
                   const Reduction& reduction,
                   std::unique_ptr<float[]> partials)
    : transport_(&transport),
      peers_(&peers),
      tag_(tag),
      schedule_(std::move(schedule)),
      data_(data),
      reduction_(reduction),
      element_bytes_(size_of(reduction.dtype)),
      partials_(std::move(partials)) {
  std::size_t largest = 0;
  for (const Step& step : schedule_)
    if (step.adds) largest = std::max(largest, partial_bytes(step.received));
  incoming_.resize(largest);
}

LaneTask::~LaneTask() {
  transport_->abandon(send_);
  transport_->abandon(receive_);
}

void LaneTask::start(const Step& step) {
  if (step.receive_from >= 0 && step.received.count)
    receive_ = transport_->receive(
        (*peers_)[static_cast<std::size_t>(step.receive_from)], tag_,
        step.adds ? incoming_.data() : at(step.received),
        step.adds ? partial_bytes(step.received) : bytes(step.received));
  if (step.send_to >= 0 && step.sent.count)
    send_ = transport_->send(
        (*peers_)[static_cast<std::size_t>(step.send_to)], tag_,
        step.is_partial ? partial_at(step.sent) : at(step.sent),
        step.is_partial ? partial_bytes(step.sent) : bytes(step.sent));
  is_started_ = true;
}

std::byte* LaneTask::partial_at(Range range) const {
  if (!partials_) return at(range);
  return reinterpret_cast<std::byte*>(partials_.get() + range.begin);
}

void LaneTask::add(const Step& step) {
  Reduction how = reduction_;
  if (!step.finishes) how.divisor = 1;
  std::byte* mine = partial_at(step.received);
  // The order of the two operands affects only the bits of NaN results. The
  // received range, from earlier on the path, comes first.
  const void* sources[] = {incoming_.data(), mine};
  if (partials_ && step.finishes)
    return reduce_partials(how, sources, at(step.received),
                           step.received.count);
  if (partials_) how.dtype = DType::kF32;
  void* outputs[] = {mine};
  reduce(how, sources, outputs, step.received.count);
}

bool LaneTask::advance() {
  bool has_moved = false;
  while (!has_ended()) {
    const Step& step = schedule_[next_];
    if (!is_started_) {
      start(step);
      has_moved = true;
    }
    const bool received = transport_->test(receive_);
    if (!transport_->test(send_) || !received) return has_moved;
    if (step.adds && step.received.count) add(step);
    is_started_ = false;
    ++next_;
    has_moved = true;
  }
  return has_moved;
}

}  // namespace sheaf::comm

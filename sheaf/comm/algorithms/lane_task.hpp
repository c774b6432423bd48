#pragma once
// Executes a schedule between hosts, without blocking.

#include <memory>
#include <vector>

#include "sheaf/comm/algorithms/schedule.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

class LaneTask {
 public:
  // `peers[participant]` is a rank of the transport. `data` points to element 0
  // of the schedule's ranges and must stay alive until the task has ended. If
  // `partials` is given, it holds the input, and unfinished sums are kept and
  // sent in f32; otherwise `data` holds the input.
  LaneTask(Transport& transport, const std::vector<int>& peers, Tag tag,
           Schedule schedule, std::byte* data, const Reduction& reduction,
           std::unique_ptr<float[]> partials = nullptr);
  ~LaneTask();
  LaneTask(LaneTask&&) noexcept = default;
  LaneTask& operator=(LaneTask&&) noexcept = default;

  bool has_ended() const { return next_ == schedule_.size(); }
  int tier() const { return schedule_[next_].tier; }  // before the end
  // Makes all possible progress. Returns whether there was any.
  bool advance();

 private:
  void start(const Step& step);
  void add(const Step& step);
  std::byte* at(Range range) const {
    return data_ + range.begin * element_bytes_;
  }
  std::byte* partial_at(Range range) const;
  std::size_t bytes(Range range) const { return range.count * element_bytes_; }
  std::size_t partial_bytes(Range range) const {
    return range.count * (partials_ ? sizeof(float) : element_bytes_);
  }

  Transport* transport_;
  const std::vector<int>* peers_;
  Tag tag_;
  Schedule schedule_;
  std::byte* data_;
  Reduction reduction_;
  std::size_t element_bytes_;
  std::size_t next_ = 0;
  bool is_started_ = false;
  Request send_;
  Request receive_;
  std::unique_ptr<float[]> partials_;
  std::vector<std::byte> incoming_;
};

}  // namespace sheaf::comm

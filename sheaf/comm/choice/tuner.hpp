#pragma once
// Mode `p`: tries the candidates of a message size in turn, then keeps the
// fastest, and remembers it on disk.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/choice/select.hpp"

namespace sheaf::comm {

// Times that each candidate is tried.
inline constexpr int kTuningRounds = 4;

// Used within the group's jobs only; all ranks make the same calls.
class Tuner : public GroupAttachment {
 public:
  static constexpr Slot kSlot = GroupAttachment::kTuner;
  explicit Tuner(GroupCore& group);
  static Tuner& of(GroupCore& group) {
    return group.attachments().get<Tuner>(group);
  }

  // The choice for a call: the best one of its size class, or the next
  // candidate. `usual` is what mode `b` would take. The first call of a class
  // asks rank 0 whether the class is known from an earlier run.
  Choice choose(DType dtype, std::size_t bytes, const Choice& usual);

  // Whether the last choice is a trial, and its time is wanted.
  bool is_measuring() const { return measured_ != nullptr; }
  // The time of the trial on this rank. With the last trial of a class the
  // ranks agree on its best: the least time of the slowest rank.
  void note(std::size_t bytes, std::int64_t busy_ns);

 private:
  struct Class {
    DType dtype = DType::kF32;
    std::size_t bytes = 0;
    std::vector<Choice> candidates;
    std::vector<double> ns_per_byte;  // of this rank's trials, in turn
    int best = -1;
  };

  void open(Class& entry, const Choice& usual);
  int recalled(const Class& entry) const;
  void decide(Class& entry);
  std::string text(const Class& entry, int candidate) const;

  GroupCore& group_;
  std::map<std::pair<DType, std::size_t>, Class> classes_;
  Class* measured_ = nullptr;
};

// How a group's topology is named in the file: "mpi 4x2 <hash of the hosts'
// names>", with the declared dimensions behind.
std::string topology_key(GroupCore& group);

}  // namespace sheaf::comm

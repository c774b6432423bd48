#pragma once
// Mode `p`: measures the candidates of a message size in turn, then uses the
// fastest and stores it on disk.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/choice/tuned_results.hpp"

namespace sheaf::comm {

// Number of trials of each candidate.
inline constexpr int kTuningRounds = 4;

// Used only from within the group's jobs; all ranks make the same calls.
class Tuner : public Attachment {
 public:
  static constexpr Slot kSlot = Attachment::kTuner;
  explicit Tuner(GroupCore& group);
  static Tuner& of(GroupCore& group) {
    return group.attachments().get<Tuner>(group);
  }

  // The choice for a call: the best one of its size class if that is known,
  // otherwise the next candidate. `usual` is the choice of mode `b`. In the
  // first call of a class, rank 0 looks for the result of an earlier run and
  // shares it with all ranks.
  Choice choose(DType dtype, std::size_t bytes, const Choice& usual);

  // Whether the last choice is a trial, whose time must be passed to note().
  bool is_measuring() const { return measured_ != nullptr; }
  // Records the time of the trial on this rank. After the last trial of a class
  // the ranks agree on the best candidate: the one with the shortest time of
  // its slowest rank.
  void note(std::size_t bytes, std::int64_t busy_ns);

 private:
  struct Class {
    DType dtype = DType::kF32;
    std::size_t bytes = 0;
    std::vector<Choice> candidates;
    std::vector<double> ns_per_byte;  // this rank's trials, in order
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

// The key of a group's topology in the file: "mpi 4x2 <hash of the host
// names>", followed by the declared dimensions.
std::string topology_key(GroupCore& group);

// The choices worth measuring for messages of up to `bytes`, without
// duplicates; the same list on every rank. It contains `usual`, the choice of
// mode `b`, and a flat ring. On one host it also contains the short path and
// segments of 64 KiB to 1 MiB; on several hosts, ring, halving or tree in each
// tier, through one rank or all ranks of a host.
std::vector<Choice> candidates(const HostMap& host_map, const Choice& usual,
                               std::size_t bytes);

// SHEAF_TUNED_FILE, or sheaf/tuned.json in XDG_CACHE_HOME or in ~/.cache; empty
// if none of these variables nor HOME is set.
std::filesystem::path tuned_path();

// The text of the choice that was the fastest. A file that cannot be read is
// reported in the log and treated as empty.
std::optional<std::string> recall(const std::filesystem::path& path,
                                  const TunedKey& key);

// Adds or replaces a choice in the file and keeps all other entries, also those
// that other processes add at the same time. The file is replaced atomically;
// one that cannot be read is renamed. Failures are reported in the log.
void remember(const std::filesystem::path& path, const TunedKey& key,
              const std::string& choice, double microseconds);

}  // namespace sheaf::comm

// The algorithms between hosts, executed in memory forevery number of
// participants: each ends with the sum over all participants, finished once.

#include "sheaf/comm/algorithms/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <set>

namespace sheaf::comm {
namespace {

constexpr int kMostPlaces = 17;
constexpr std::size_t kBegin = 5;  // ranges need not begin at 0

// An element records the participants whose values it contains, and how often
// it was finished.
struct Element {
  std::multiset<int> parts;
  int finished = 0;
};

class Participants {
 public:
  Participants(std::vector<Schedule> schedules, std::size_t count)
      : schedules_(std::move(schedules)), next_(schedules_.size()) {
    for (std::size_t participant = 0; participant < schedules_.size();
         ++participant) {
      data_.emplace_back(kBegin + count);
      for (Element& element : data_.back())
        element.parts = {static_cast<int>(participant)};
    }
  }

  // Runs until there is no more progress. Returns whether all schedules ended.
  bool run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t participant = 0; participant < schedules_.size();
           ++participant)
        while (step(participant)) has_moved = true;
    }
    bool has_ended = true;
    for (std::size_t participant = 0; participant < schedules_.size();
         ++participant)
      has_ended =
          has_ended && next_[participant] == schedules_[participant].size();
    return has_ended && std::all_of(wires_.begin(), wires_.end(),
                                    [](auto& w) { return w.second.empty(); });
  }

  const std::vector<Element>& at(int participant) const {
    return data_[static_cast<std::size_t>(participant)];
  }

 private:
  using Message = std::vector<Element>;

  bool step(std::size_t participant) {
    if (next_[participant] == schedules_[participant].size()) return false;
    const Step& step = schedules_[participant][next_[participant]];
    if (!is_sent_.contains(participant)) send(participant, step);
    if (!receive(participant, step)) return false;
    is_sent_.erase(participant);
    ++next_[participant];
    return true;
  }

  void send(std::size_t participant, const Step& step) {
    is_sent_.insert(participant);
    if (step.send_to < 0 || step.sent.count == 0) return;
    const auto from =
        data_[participant].begin() + static_cast<long>(step.sent.begin);
    wires_[{participant, step.send_to}].emplace_back(
        from, from + static_cast<long>(step.sent.count));
  }

  bool receive(std::size_t participant, const Step& step) {
    if (step.receive_from < 0 || step.received.count == 0) return true;
    auto& wire = wires_[{static_cast<std::size_t>(step.receive_from),
                         static_cast<int>(participant)}];
    if (wire.empty()) return false;
    const Message message = std::move(wire.front());
    wire.pop_front();
    EXPECT_EQ(message.size(), step.received.count)
        << "at participant " << participant;
    for (std::size_t i = 0; i < message.size(); ++i)
      accept(data_[participant][step.received.begin + i], message[i], step);
    return true;
  }

  static void accept(Element& mine, const Element& theirs, const Step& step) {
    if (!step.adds) {
      mine = theirs;
      return;
    }
    mine.parts.insert(theirs.parts.begin(), theirs.parts.end());
    mine.finished += theirs.finished + (step.finishes ? 1 : 0);
  }

  std::vector<Schedule> schedules_;
  std::vector<std::size_t> next_;
  std::set<std::size_t> is_sent_;
  std::vector<std::vector<Element>> data_;
  std::map<std::pair<std::size_t, int>, std::deque<Message>> wires_;
};

template <class Make>
Participants carry_out(int size, std::size_t count, Make make) {
  std::vector<Schedule> schedules;
  for (int me = 0; me < size; ++me)
    schedules.push_back(make(me, Range{kBegin, count}));
  Participants participants(std::move(schedules), count);
  EXPECT_TRUE(participants.run())
      << "a participant waits forever, or a message is left";
  return participants;
}

std::multiset<int> everybody(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return {all.begin(), all.end()};
}

void expect_sum(const Participants& participants, int participant, int size) {
  const auto& data = participants.at(participant);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const bool is_outside = i < kBegin;
    EXPECT_EQ(data[i].parts,
              is_outside ? std::multiset<int>{participant} : everybody(size))
        << "element " << i << " at participant " << participant;
    EXPECT_EQ(data[i].finished, is_outside || size == 1 ? 0 : 1)
        << "element " << i << " at participant " << participant;
  }
}

template <class Make>
void expect_all_reduce(int size, Make make) {
  for (const std::size_t count : {0, 1, 2, 16, 17, 41}) {
    SCOPED_TRACE(testing::Message()
                 << size << " participants, " << count << " elements");
    const Participants participants = carry_out(size, count, make);
    for (int participant = 0; participant < size; ++participant)
      expect_sum(participants, participant, size);
  }
}

TEST(Schedule, PartsCoverARangeAndDifferByOne) {
  for (int parts = 1; parts <= kMostPlaces; ++parts)
    for (const std::size_t count : {0, 1, 5, 16, 100}) {
      std::size_t at = 7;
      for (int i = 0; i < parts; ++i) {
        const Range part = chunk_of({7, count}, i, parts);
        EXPECT_EQ(part.begin, at);
        EXPECT_LE(part.count, count / static_cast<std::size_t>(parts) + 1);
        at += part.count;
      }
      EXPECT_EQ(at, 7 + count);
    }
}

TEST(Schedule, RingSumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return ring_schedule(size, me, r); });
}

TEST(Schedule, HalvingSumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return halving_schedule(size, me, r); });
}

TEST(Schedule, TreeSumsEverywhere) {
  for (int size = 1; size <= kMostPlaces; ++size)
    expect_all_reduce(
        size, [=](int me, Range r) { return tree_schedule(size, me, r); });
}

TEST(Schedule, TiersSumEverywhere) {
  using enum TierAlgorithm;
  for (const std::vector<int>& dims : std::vector<std::vector<int>>{
           {4, 3}, {3, 4}, {2, 2, 2}, {1, 5}, {5, 1}, {2, 1, 3}, {2, 3, 2}}) {
    int size = 1;
    for (const int dim : dims) size *= dim;
    for (const auto inner : {kRing, kHalving})
      for (const auto last : {kRing, kHalving, kTree}) {
        std::vector<TierAlgorithm> algorithms(dims.size(), inner);
        algorithms.back() = last;
        expect_all_reduce(size, [&](int me, Range range) {
          return tiers_schedule(dims, algorithms, me, range);
        });
      }
  }
}

TEST(Schedule, ReduceSumsAtItsRoot) {
  for (int size = 1; size <= kMostPlaces; ++size)
    for (int root = 0; root < size; ++root) {
      const Participants participants =
          carry_out(size, 3, [=](int me, Range range) {
            return reduce_schedule(size, me, root, range);
          });
      expect_sum(participants, root, size);
    }
}

TEST(Schedule, BroadcastCopiesFromItsRoot) {
  for (int size = 1; size <= kMostPlaces; ++size)
    for (int root = 0; root < size; ++root) {
      const Participants participants =
          carry_out(size, 3, [=](int me, Range range) {
            return broadcast_schedule(size, me, root, range);
          });
      for (int participant = 0; participant < size; ++participant)
        for (std::size_t i = kBegin; i < participants.at(participant).size();
             ++i)
          EXPECT_EQ(participants.at(participant)[i].parts,
                    std::multiset<int>{root});
    }
}

std::size_t sent_by(const Schedule& schedule) {
  std::size_t count = 0;
  for (const Step& step : schedule)
    if (step.send_to >= 0) count += step.sent.count;
  return count;
}

// The costs stated in the files: number of steps, elements sent per
// participant.
TEST(Schedule, CostsWhatItsFileSays) {
  const Range range{0, 1600};
  for (const int size : {2, 4, 8, 16}) {
    const auto participants = static_cast<std::size_t>(size);
    const auto levels =
        static_cast<std::size_t>(std::countr_zero(participants));
    for (int me = 0; me < size; ++me) {
      const Schedule ring = ring_schedule(size, me, range);
      EXPECT_EQ(ring.size(), 2 * (participants - 1));
      EXPECT_EQ(sent_by(ring), 2 * (participants - 1) * 1600 / participants);
      const Schedule halving = halving_schedule(size, me, range);
      EXPECT_EQ(halving.size(), 2 * levels);
      EXPECT_EQ(sent_by(halving), 2 * (participants - 1) * 1600 / participants);
      EXPECT_LE(tree_schedule(size, me, range).size(), 2 * levels);
    }
  }
}

}  // namespace
}  // namespace sheaf::comm

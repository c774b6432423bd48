#pragma once
// Carries out the schedules of algorithms between hosts in memory.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>
#include <set>

#include "sheaf/comm/algorithms/schedule.hpp"

namespace sheaf::comm::in_memory {

inline constexpr int kMostPlaces = 17;
inline constexpr std::size_t kBegin = 5;  // ranges need not begin at 0

// An element records the places whose values it contains, and how often it was
// finished.
struct Element {
  std::multiset<int> parts;
  int finished = 0;
};

class Places {
 public:
  Places(std::vector<Schedule> schedules, std::size_t count)
      : schedules_(std::move(schedules)), next_(schedules_.size()) {
    for (std::size_t place = 0; place < schedules_.size(); ++place) {
      data_.emplace_back(kBegin + count);
      for (Element& element : data_.back())
        element.parts = {static_cast<int>(place)};
    }
  }

  // Runs until there is no more progress. Returns whether all schedules ended.
  bool run() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      for (std::size_t place = 0; place < schedules_.size(); ++place)
        while (step(place)) has_moved = true;
    }
    bool has_ended = true;
    for (std::size_t place = 0; place < schedules_.size(); ++place)
      has_ended = has_ended && next_[place] == schedules_[place].size();
    return has_ended && std::all_of(wires_.begin(), wires_.end(),
                                    [](auto& w) { return w.second.empty(); });
  }

  const std::vector<Element>& at(int place) const {
    return data_[static_cast<std::size_t>(place)];
  }

 private:
  using Message = std::vector<Element>;

  bool step(std::size_t place) {
    if (next_[place] == schedules_[place].size()) return false;
    const Step& step = schedules_[place][next_[place]];
    if (!is_sent_.contains(place)) send(place, step);
    if (!receive(place, step)) return false;
    is_sent_.erase(place);
    ++next_[place];
    return true;
  }

  void send(std::size_t place, const Step& step) {
    is_sent_.insert(place);
    if (step.send_to < 0 || step.sent.count == 0) return;
    const auto from = data_[place].begin() + static_cast<long>(step.sent.begin);
    wires_[{place, step.send_to}].emplace_back(
        from, from + static_cast<long>(step.sent.count));
  }

  bool receive(std::size_t place, const Step& step) {
    if (step.receive_from < 0 || step.received.count == 0) return true;
    auto& wire = wires_[{static_cast<std::size_t>(step.receive_from),
                         static_cast<int>(place)}];
    if (wire.empty()) return false;
    const Message message = std::move(wire.front());
    wire.pop_front();
    EXPECT_EQ(message.size(), step.received.count) << "at place " << place;
    for (std::size_t i = 0; i < message.size(); ++i)
      accept(data_[place][step.received.begin + i], message[i], step);
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
Places carry_out(int size, std::size_t count, Make make) {
  std::vector<Schedule> schedules;
  for (int me = 0; me < size; ++me)
    schedules.push_back(make(me, Range{kBegin, count}));
  Places places(std::move(schedules), count);
  EXPECT_TRUE(places.run()) << "a place waits forever, or a message is left";
  return places;
}

inline std::multiset<int> everybody(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return {all.begin(), all.end()};
}

inline void expect_sum(const Places& places, int place, int size) {
  const auto& data = places.at(place);
  for (std::size_t i = 0; i < data.size(); ++i) {
    const bool is_outside = i < kBegin;
    EXPECT_EQ(data[i].parts,
              is_outside ? std::multiset<int>{place} : everybody(size))
        << "element " << i << " at place " << place;
    EXPECT_EQ(data[i].finished, is_outside || size == 1 ? 0 : 1)
        << "element " << i << " at place " << place;
  }
}

template <class Make>
void expect_all_reduce(int size, Make make) {
  for (const std::size_t count : {0, 1, 2, 16, 17, 41}) {
    SCOPED_TRACE(testing::Message()
                 << size << " places, " << count << " elements");
    const Places places = carry_out(size, count, make);
    for (int place = 0; place < size; ++place) expect_sum(places, place, size);
  }
}

// The elements that a place sends.
inline std::size_t sent_by(const Schedule& schedule) {
  std::size_t count = 0;
  for (const Step& step : schedule)
    if (step.send_to >= 0) count += step.sent.count;
  return count;
}

}  // namespace sheaf::comm::in_memory

#include "sheaf/comm/host/flight.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace sheaf::comm {
namespace {

Fingerprint call_number(std::uint32_t number) {
  return {.operation = Operation::kAllReduce,
          .dtype = DType::kF32,
          .count = number,
          .sequence = number};
}

TEST(FlightRing, IsEmptyAtFirst) {
  const FlightRing ring;
  EXPECT_FALSE(ring.latest());
  EXPECT_TRUE(ring.all().empty());
}

TEST(FlightRing, DistinguishesActiveAndEndedCalls) {
  FlightRing ring;
  const auto ticket = ring.begin(call_number(1), 4);
  ASSERT_TRUE(ring.latest());
  EXPECT_FALSE(ring.latest()->has_ended);
  EXPECT_EQ(ring.latest()->group, 4);
  ring.end(ticket);
  EXPECT_TRUE(ring.latest()->has_ended);
  EXPECT_GE(ring.latest()->end_ns, ring.latest()->start_ns);
}

TEST(FlightRing, KeepsTheLastCallsInOrder) {
  FlightRing ring;
  const auto last = static_cast<std::uint32_t>(FlightRing::kCapacity) + 50;
  for (std::uint32_t i = 1; i <= last; ++i) ring.begin(call_number(i), 0);
  const auto all = ring.all();
  ASSERT_EQ(all.size(), FlightRing::kCapacity);
  EXPECT_EQ(all.front().call.sequence, 51u);
  EXPECT_EQ(all.back().call, call_number(last));
}

// The entry was overwritten by a later call, which must not be marked as ended.
TEST(FlightRing, IgnoresTheEndOfAForgottenCall) {
  FlightRing ring;
  const auto old = ring.begin(call_number(1), 0);
  for (std::uint32_t i = 0; i < FlightRing::kCapacity; ++i)
    ring.begin(call_number(2 + i), 0);
  ring.end(old);
  for (const FlightRecord& record : ring.all()) EXPECT_FALSE(record.has_ended);
}

TEST(FlightRing, MirrorsWhatAnotherHostSaid) {
  FlightRing ring;
  ring.mirror({.call = call_number(9),
               .group = 2,
               .has_ended = true,
               .start_ns = 100,
               .end_ns = 200});
  ASSERT_TRUE(ring.latest());
  EXPECT_EQ(ring.latest()->call, call_number(9));
  EXPECT_TRUE(ring.latest()->has_ended);
  EXPECT_EQ(ring.latest()->start_ns, 100);
  EXPECT_EQ(ring.latest()->end_ns, 200);
}

// A reader never sees a mirrored record without its own times.
TEST(FlightRing, MirrorsARecordAtOnce) {
  FlightRing ring;
  std::atomic<bool> is_over{false};
  std::thread reader([&] {
    while (!is_over)
      for (const FlightRecord& record : ring.all()) {
        EXPECT_EQ(record.start_ns, 100);
        EXPECT_TRUE(record.has_ended);
      }
  });
  for (std::uint32_t i = 0; i < 20000; ++i)
    ring.mirror({.call = call_number(i),
                 .has_ended = true,
                 .start_ns = 100,
                 .end_ns = 200});
  is_over = true;
  reader.join();
}

// Calls of one thread never end, those of the other end late.
TEST(FlightRing, ALateEndNeverMarksAnotherCall) {
  FlightRing ring;
  std::atomic<bool> is_over{false};
  std::thread late([&] {
    while (!is_over) {
      const auto ticket = ring.begin(call_number(1), /*group=*/1);
      ring.end(ticket);
    }
  });
  for (std::uint32_t i = 0; i < 200000; ++i)
    ring.begin(call_number(2), /*group=*/2);
  is_over = true;
  late.join();
  for (const FlightRecord& record : ring.all())
    EXPECT_TRUE(record.group == 1 || !record.has_ended);
}

TEST(FlightRecord, IsDescribed) {
  FlightRecord record{.call = call_number(12), .start_ns = 0};
  EXPECT_EQ(describe(record, 2'100'000'000),
            "in all_reduce #12 (f32 sum, 12 elements) of group 0 for 2.1 s");
  record.has_ended = true;
  record.end_ns = 1'100'000'000;
  EXPECT_EQ(describe(record, 2'100'000'000),
            "after all_reduce #12 (f32 sum, 12 elements) of group 0 (ended 1.0 "
            "s ago)");
}

// A reader sees complete records only: count and sequence are always equal.
TEST(FlightRing, CanBeReadWhileThreadsWrite) {
  FlightRing ring;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> writers;
  for (std::uint32_t w = 0; w < 2; ++w)
    writers.emplace_back([&, w] {
      for (std::uint32_t i = 0; i < 5000; ++i)
        ring.end(ring.begin(call_number(2 * i + w), 0));
    });
  std::thread reader([&] {
    while (!is_over)
      for (const FlightRecord& record : ring.all())
        EXPECT_EQ(record.call.count, record.call.sequence);
  });
  for (auto& writer : writers) writer.join();
  is_over = true;
  reader.join();
}

}  // namespace
}  // namespace sheaf::comm

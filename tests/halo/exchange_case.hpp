#pragma once
// One exchange and its adjoint on random tilings, checked on each rank against
// the whole image. Used for ranks as threads and as processes.

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/halo/halo_exchange.hpp"
#include "tests/halo/random_case.hpp"
#include "tests/halo/tile.hpp"

namespace sheaf::halo {

struct ExchangeCase {
  Tiling tiling{};
  std::vector<Box> needs{};
  std::array<std::int64_t, 2> outer{1, 1};
  Order tile_order = Order::kPlain;
  Order wanted_order = Order::kPlain;
  std::int64_t salt = 0;
  bool is_in_arena = false;
};

inline ExchangeCase random_case(std::mt19937& random, const Grid& grid) {
  ExchangeCase test;
  test.tiling = random_tiling(random, grid, 1, 9);
  test.needs = random_needs(random, test.tiling);
  test.outer = {pick(random, 1, 2), pick(random, 1, 3)};
  test.tile_order = kOrders[random() % 3];
  test.wanted_order = kOrders[random() % 3];
  test.salt = pick(random, 0, 99);
  test.is_in_arena = pick(random, 0, 1) != 0;
  return test;
}

inline HaloPlan plan_of(const ExchangeCase& test, int rank) {
  return make_plan(test.tiling, test.needs, rank);
}

template <class T>
Tile<T> image_tile(const ExchangeCase& test, const comm::Group& group) {
  Tile<T> tile(test.tiling.box_of(group.rank()), test.outer, test.tile_order,
               test.is_in_arena ? &group : nullptr);
  tile.fill([&](const Place& place) { return exact_value(place, test.salt); });
  return tile;
}

// The gradient of a rank's wanted box.
inline double gradient(const Place& place, int rank, std::int64_t salt) {
  return exact_value(place, salt + 31 * rank + 5);
}

// The expected gradient at a place: the sum over all ranks that want it.
inline double gradient_sum(const ExchangeCase& test, const Place& place) {
  double sum = 0;
  for (int rank = 0; rank < test.tiling.ranks(); ++rank)
    if (test.needs[static_cast<std::size_t>(rank)].contains(place.box()))
      sum += gradient(place, rank, test.salt);
  return sum;
}

template <class T>
void check_forward(const comm::Group& group, HaloExchange& exchange,
                   const ExchangeCase& test) {
  const HaloPlan& plan = exchange.plan();
  const Tile<T> tile = image_tile<T>(test, group);
  Tile<T> wanted(plan.wanted, test.outer, test.wanted_order);
  auto handle = exchange.start(tile.view());
  exchange.finish(std::move(handle), wanted.view());
  EXPECT_TRUE(wanted.holds(
      [&](const Place& place) { return exact_value(place, test.salt); }));
  EXPECT_TRUE(wanted.is_clean_around());
}

template <class T>
void check_adjoint(const comm::Group& group, HaloExchange& exchange,
                   const ExchangeCase& test) {
  const HaloPlan& plan = exchange.plan();
  Tile<T> wanted(plan.wanted, test.outer, test.wanted_order,
                 test.is_in_arena ? &group : nullptr);
  wanted.fill([&](const Place& place) {
    return gradient(place, plan.rank, test.salt);
  });
  Tile<T> tile(plan.tile, test.outer, test.tile_order);
  auto handle = exchange.start_adjoint(wanted.view());
  exchange.finish_adjoint(std::move(handle), tile.view());
  EXPECT_TRUE(tile.holds(
      [&](const Place& place) { return gradient_sum(test, place); }));
  EXPECT_TRUE(tile.is_clean_around());
}

// Checks that <Ax, y> and <x, A'y>, summed over all ranks, are equal. The sums
// are integers and thus exact.
inline void check_adjointness(const comm::Group& group,
                              const ExchangeCase& test) {
  HaloExchange exchange(group, plan_of(test, group.rank()), DType::kF64);
  const HaloPlan& plan = exchange.plan();
  Tile<double> x = image_tile<double>(test, group);
  Tile<double> ax(plan.wanted, test.outer, test.wanted_order);
  Tile<double> y(plan.wanted, test.outer, Order::kPlain);
  Tile<double> aty(plan.tile, test.outer, Order::kPlain);
  y.fill([&](const Place& place) {
    return gradient(place, plan.rank, test.salt);
  });
  exchange.finish(exchange.start(x.view()), ax.view());
  exchange.finish_adjoint(exchange.start_adjoint(y.view()), aty.view());
  const auto product = [](Tile<double>& a, Tile<double>& b) {
    std::vector<double> values;
    a.for_each([&](const Place&, double& value) { values.push_back(value); });
    double sum = 0;
    std::size_t next = 0;
    b.for_each(
        [&](const Place&, double& value) { sum += value * values[next++]; });
    return sum;
  };
  std::vector<double> sums{product(ax, y), product(x, aty)};
  comm::all_reduce(group, sums).wait();
  EXPECT_EQ(sums[0], sums[1]);
}

// The volume of messages to ranks of the same host.
inline std::int64_t volume_in_host(const comm::Group& group,
                                   const std::vector<HaloMessage>& messages) {
  std::int64_t volume = 0;
  for (const HaloMessage& message : messages)
    if (group.core().host_map().is_local(message.peer))
      volume += message.box.volume();
  return volume;
}

template <class T>
void check_exchange(const comm::Group& group, const ExchangeCase& test) {
  HaloExchange exchange(group, plan_of(test, group.rank()), dtype_of<T>);
  check_forward<T>(group, exchange, test);
  check_adjoint<T>(group, exchange, test);
  const HaloPlan& plan = exchange.plan();
  const HaloCounters& counters = exchange.counters();
  const std::int64_t planes = test.outer[0] * test.outer[1];
  const auto bytes = static_cast<std::int64_t>(sizeof(T)) * planes *
                     (plan.sent_volume() + plan.received_volume());
  EXPECT_EQ(counters.exchanges, 2);
  EXPECT_EQ(counters.bytes_sent, bytes);
  EXPECT_EQ(counters.bytes_read, bytes);
  EXPECT_EQ(counters.bytes_in_place,
            test.is_in_arena ? static_cast<std::int64_t>(sizeof(T)) * planes *
                                   (volume_in_host(group, plan.sends) +
                                    volume_in_host(group, plan.receives))
                             : 0);
  EXPECT_EQ(counters.messages, static_cast<std::int64_t>(plan.sends.size() +
                                                         plan.receives.size()));
}

}  // namespace sheaf::halo

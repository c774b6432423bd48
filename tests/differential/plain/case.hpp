#pragma once
// A case as a value: one setting, the blocks of a network and the steps of a
// training run, each of which has a kind and named integers. It can be printed,
// parsed and reduced without knowing what the names mean.
//
//   data ranks=2 seed=7 width=6; linear out=4; step rows0=3 rows1=2

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace differential {

struct Item {
  std::string kind;
  std::map<std::string, std::int64_t> values = {};

  std::int64_t get(const std::string& key, std::int64_t otherwise = 0) const;
  bool has(const std::string& key) const { return get(key) != 0; }
  // A value of 0 is the same as no value.
  Item& set(const std::string& key, std::int64_t value);
  bool operator==(const Item&) const = default;
};

struct Case {
  Item setting;              // its kind is the strategy
  std::vector<Item> blocks;  // of the network, in order
  std::vector<Item> steps;

  int ranks() const { return static_cast<int>(setting.get("ranks", 1)); }
  std::uint64_t seed() const {
    return static_cast<std::uint64_t>(setting.get("seed"));
  }
  bool operator==(const Case&) const = default;
};

// A case that cannot be run: a block does not fit the one before it, or a kind
// is unknown. Generators do not produce such cases; shrinking may.
class BadCase : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string text_of(const Case& one);
// Throws BadCase for an invalid text.
Case parse_case(const std::string& text);

// The number of ranks of one grid in spatial cases; they hold the same samples.
int grid_size(const Case& one);
// The number of units; a unit is a rank or a grid of ranks that has its own
// samples.
int unit_count(const Case& one);
inline int unit_of(const Case& one, int rank) { return rank / grid_size(one); }
// The rows of a unit in a step.
std::int64_t rows_of(const Item& step, int unit);
std::int64_t rows_of_all(const Case& one, const Item& step);
// The number of passes of a step; those within no_sync() come first.
int pass_count(const Item& step);
inline bool is_synced(const Item& step, int pass) {
  return pass >= step.get("no_sync");
}
// The number of steps of a unit: all, except with join().
std::size_t steps_of(const Case& one, int unit);

}  // namespace differential

#pragma once
// Generates random cases. A seed gives the same case in every process.

#include <set>
#include <string>

#include "plain/case.hpp"
#include "plain/dice.hpp"

namespace differential {

struct Wishes {
  std::set<std::string> strategies = {};  // empty: all
  std::set<std::string> only = {};        // features that a case must have
  std::set<std::string> without = {};     // features that it must not have
  int ranks = 0;                          // 0: any
  bool is_cuda = false;
};

Case generate(std::uint64_t seed, const Wishes& wishes = {});

// The parts of a case. Each function adds blocks or steps that fit the existing
// parts.
void add_row_network(Case& one, Dice& dice);
void add_spatial_network(Case& one, Dice& dice);
void add_plan_network(Case& one, Dice& dice);
void add_steps(Case& one, Dice& dice);

bool has_parameters(const Item& block);

}  // namespace differential

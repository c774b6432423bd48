#pragma once
// Coverage of the cases: how often each feature and each pair of features was
// generated, and the errors in which cases ended.

#include <iosfwd>
#include <map>
#include <set>
#include <string>

#include "plain/case.hpp"

namespace differential {

// "strategy:dad", "block:linear", "residual", "step:no_sync", "rows:empty" ...
std::set<std::string> features_of(const Case& one);

class Coverage {
 public:
  void add(const Case& one);
  void add_error(const Case& one, const std::string& reason);

  // Pairs that were never generated are listed at the end.
  void print_features(std::ostream& out) const;
  void print_pairs(std::ostream& out) const;
  void print_errors(std::ostream& out) const;

 private:
  struct Reason {
    int count = 0;
    std::string example;  // text of a case
  };
  int cases_ = 0;
  std::map<std::string, int> features_;
  std::map<std::pair<std::string, std::string>, int> pairs_;
  std::map<std::string, Reason> reasons_;
};

}  // namespace differential

#pragma once
// The content of tuned.json, the results of mode `p`. See
// docs/explanation/algorithms.md for the format.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

struct TunedKey {
  std::string topology;  // hosts, ranks, declared dimensions
  DType dtype = DType::kF32;
  std::size_t bytes = 0;  // the largest size of the size class
};

class TunedResults {
 public:
  // Throws IoError, which names `file` and the key, for anything but a file of
  // this version: times of other code are not comparable.
  static TunedResults parse(std::string_view text, const std::string& file);
  std::string text() const;

  std::size_t size() const { return results_.size(); }
  // The text of the choice that was the fastest.
  std::optional<std::string> find(const TunedKey& key) const;
  // Adds or replaces a result.
  void set(const TunedKey& key, const std::string& choice, double microseconds);

 private:
  struct Result {
    std::string choice;
    double microseconds = 0;
  };
  // By topology, type and size, as in the file.
  using Place = std::tuple<std::string, std::string, std::string>;
  static Place place_of(const TunedKey& key);

  std::map<Place, Result> results_;
};

}  // namespace sheaf::comm

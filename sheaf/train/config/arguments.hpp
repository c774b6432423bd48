#pragma once
// Reads the arguments of a transform or dataset from a run's config.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// Typed access to the arguments of one item. Getters record the names they are
// asked for; finish() rejects the arguments that were never read. All errors
// are UsageErrors whose message begins with `owner`, such as "a.yaml:3: pad".
// `arguments` must outlive the reader.
class ArgumentReader {
 public:
  ArgumentReader(const Arguments& arguments, std::string owner);

  // An argument without a default is required.
  std::int64_t whole(std::string_view name,
                     std::optional<std::int64_t> otherwise = {});
  double number(std::string_view name, std::optional<double> otherwise = {});
  // A single value is read as a list of one.
  std::vector<double> numbers(std::string_view name);
  std::vector<std::int64_t> wholes(std::string_view name,
                                   std::vector<std::int64_t> otherwise);
  bool has(std::string_view name);

  void finish() const;

 private:
  const Argument* find(std::string_view name);
  const Argument& need(std::string_view name);
  const std::string& single(std::string_view name, const Argument& argument);
  double to_number(std::string_view name, const std::string& text) const;
  std::int64_t to_whole(std::string_view name, const std::string& text) const;

  const Arguments& arguments_;
  std::string owner_;
  std::vector<std::string_view> known_;
};

}  // namespace sheaf::train

#pragma once
// Takes the arguments of a transform or a data set out of a run description.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

// Each argument is asked for once; finish() finds those that nobody wanted.
// All errors are UsageErrors that begin with `owner`, as "a.yaml:3: pad".
class ArgumentReader {
 public:
  ArgumentReader(const Arguments& arguments, std::string owner);

  // Without a default, the argument must be there.
  std::int64_t whole(std::string_view name,
                     std::optional<std::int64_t> otherwise = {});
  double number(std::string_view name, std::optional<double> otherwise = {});
  // A single value is a list of one.
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

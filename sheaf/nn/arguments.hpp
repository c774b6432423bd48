#pragma once
// Arguments that come as text, with defaults, checked by name and value.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::nn {

// In place of a default: the argument must be given, or follows from the shape
// of what comes in.
inline constexpr std::string_view kRequired = "required";
inline constexpr std::string_view kInferred = "inferred";

struct ArgumentSpec {
  std::string_view name;
  std::string_view fallback;
};

class Arguments {
 public:
  // `owner` is for messages: "network 'lenet'". UsageError names an argument
  // that is not in `specs`, or is missing.
  Arguments(std::string owner, std::vector<ArgumentSpec> specs,
            const std::map<std::string, std::string>& given);

  const std::string& owner() const { return owner_; }
  const std::string& text(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t least = 1) const;
  // None when it was left to be inferred.
  std::optional<std::int64_t> inferred(std::string_view name) const;
  double real(std::string_view name) const;
  double probability(std::string_view name) const;
  bool flag(std::string_view name) const;
  // "784-10", "784,10", "28x28" or "[784, 10]".
  std::vector<std::int64_t> integers(std::string_view name,
                                     std::int64_t least = 1) const;
  // One number for all of `count` axes, or one for each.
  std::vector<std::int64_t> axes(std::string_view name, std::size_t count,
                                 std::int64_t least = 1) const;
  // One of `words`.
  const std::string& choice(std::string_view name,
                            const std::vector<std::string_view>& words) const;

  // UsageError about the argument's value.
  [[noreturn]] void refuse(std::string_view name,
                           std::string_view allowed) const;

 private:
  std::string owner_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace sheaf::nn

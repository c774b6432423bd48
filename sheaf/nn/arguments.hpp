#pragma once
// Arguments given as text, with defaults, validated by name and value.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::nn {

// Special defaults: kRequired arguments must be given; kInferred arguments are
// derived from the input shape if not given.
inline constexpr std::string_view kRequired = "required";
inline constexpr std::string_view kInferred = "inferred";

struct ArgumentSpec {
  std::string_view name;
  std::string_view fallback;
};

class Arguments {
 public:
  // `owner` is used in error messages: "network 'lenet'". Throws UsageError,
  // which names the argument, if one is not in `specs` or is missing. The
  // accessors below throw UsageError for invalid values.
  Arguments(std::string owner, std::vector<ArgumentSpec> specs,
            const std::map<std::string, std::string>& given);

  const std::string& owner() const { return owner_; }
  const std::string& text(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t least = 1) const;
  // nullopt if the value is to be inferred.
  std::optional<std::int64_t> inferred(std::string_view name) const;
  double real(std::string_view name) const;
  double probability(std::string_view name) const;
  bool flag(std::string_view name) const;
  // "784-10", "784,10", "28x28" or "[784, 10]".
  std::vector<std::int64_t> integers(std::string_view name,
                                     std::int64_t least = 1) const;
  // One number for each of `count` axes; a single number applies to all.
  std::vector<std::int64_t> axes(std::string_view name, std::size_t count,
                                 std::int64_t least = 1) const;
  // The value, which must be one of `words`.
  const std::string& choice(std::string_view name,
                            const std::vector<std::string_view>& words) const;

  // Throws UsageError "OWNER: 'VALUE' for 'NAME' is not ALLOWED".
  [[noreturn]] void refuse(std::string_view name,
                           std::string_view allowed) const;

 private:
  std::string owner_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace sheaf::nn

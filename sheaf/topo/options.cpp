#include "sheaf/topo/options.hpp"

#include <chrono>
#include <cstdlib>
#include <limits>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::topo {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::string_view kModes =
    "r (ring), m (MPI), n (NCCL), b (best) or p (explore)";

Mode parse_mode_letter(std::string_view letter) {
  SHEAF_CHECK(letter != "c",
              "mode c was never documented publicly and is not supported; "
              "use b (the best for each tier) or p (try and keep the "
              "fastest)");
  for (const char known : {'r', 'm', 'n', 'b', 'p'})
    if (letter == std::string_view(&known, 1)) return static_cast<Mode>(known);
  throw UsageError(concat("unknown mode '", letter, "'; use ", kModes));
}

void set_mode(Options& options, std::string_view value) {
  const std::size_t colon = value.find(':');
  options.mode = parse_mode_letter(value.substr(0, colon));
  if (colon != std::string_view::npos)
    options.dims = parse_dims(value.substr(colon + 1));
}

int parse_number(std::string_view name, std::string_view value, int largest) {
  const std::optional<int> number = parse_count(value);
  const std::string range = largest == std::numeric_limits<int>::max()
                                ? "a whole number >= 0"
                                : concat("0 to ", largest);
  SHEAF_CHECK(number && *number <= largest, "option ", name, " is '", value,
              "'; it must be ", range);
  return *number;
}

int parse_timeout_ms(std::string_view value) {
  using std::chrono::milliseconds;
  const auto time =
      std::chrono::duration_cast<milliseconds>(parse_duration(value));
  SHEAF_CHECK(
      time.count() >= 1 && time.count() <= std::numeric_limits<int>::max(),
      "option -timeout is '", value, "'; it must be between 1ms and 596h");
  return static_cast<int>(time.count());
}

struct Known {
  std::string_view name;
  bool has_value;
  void (*set)(Options&, std::string_view value);
};

const std::vector<Known>& known_options() {
  static const std::vector<Known> known{
      {"-mode", true, set_mode},
      {"-dump_iter", true,
       [](Options& o, std::string_view value) {
         o.dump_iter =
             parse_number("-dump_iter", value, std::numeric_limits<int>::max());
       }},
      {"-dbg_level", true,
       [](Options& o, std::string_view value) {
         o.dbg_level = parse_number("-dbg_level", value, /*largest=*/2);
       }},
      {"-reproducible", false,
       [](Options& o, std::string_view) { o.reproducible = true; }},
      {"-algorithm", true,
       [](Options& o, std::string_view value) { o.algorithm = value; }},
      {"-timeout", true,
       [](Options& o, std::string_view value) {
         o.timeout_ms = parse_timeout_ms(value);
       }},
      {"-machine", true,
       [](Options& o, std::string_view value) { o.machine = value; }},
  };
  return known;
}

// Rejects the two GPU options of DDL, which have no equivalent in Sheaf.
void refuse_gpu_options(std::string_view name) {
  SHEAF_CHECK(name != "-dev_sync",
              "option -dev_sync synchronizes a GPU before communication; "
              "buffers in host memory have no device to wait for, so it has "
              "no equivalent here: omit it");
  SHEAF_CHECK(name != "-rebind_iter",
              "option -rebind_iter moves a slow learner to another GPU; a "
              "rank on CPU cores is moved by the system or bound by a rank "
              "file, so it has no equivalent here: omit it, and see "
              "-dump_iter for the slowest rank");
}

const Known& find_option(std::string_view name) {
  Words names;
  for (const Known& option : known_options()) {
    if (option.name == name) return option;
    names.push_back(option.name);
  }
  refuse_gpu_options(name);
  throw UsageError(concat("unknown option '", name, "'",
                          did_you_mean(name, names), "; use one of ",
                          join(names, ", ")));
}

bool is_option(std::string_view word) {
  for (const Known& option : known_options())
    if (option.name == word) return true;
  return false;
}

}  // namespace

std::string_view name_of(Mode mode) noexcept {
  switch (mode) {
    case Mode::kRing:
      return "ring";
    case Mode::kMpi:
      return "mpi";
    case Mode::kNccl:
      return "nccl";
    case Mode::kBest:
      return "best";
    case Mode::kExplore:
      return "explore";
  }
  return "?";
}

Options parse_options(std::string_view text) {
  Options options;
  Words seen;
  const Words items = words(text);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Known& option = find_option(items[i]);
    for (const std::string_view name : seen)
      SHEAF_CHECK(name != option.name, "option ", name, " is given twice in '",
                  text, "'; keep one");
    seen.push_back(option.name);
    std::string_view value;
    if (option.has_value) {
      SHEAF_CHECK(i + 1 < items.size() && !is_option(items[i + 1]), "option ",
                  option.name, " needs a value");
      value = items[++i];
    }
    option.set(options, value);
  }
  return options;
}

Options options_from_environment() {
  const char* text = std::getenv("SHEAF_OPTIONS");
  if (text == nullptr) return {};
  try {
    return parse_options(text);
  } catch (const UsageError& error) {
    throw UsageError(concat("SHEAF_OPTIONS='", text, "': ", error.what()));
  }
}

std::string text_of(const Options& options) {
  std::string text = concat("-mode ", letter_of(options.mode));
  if (options.dims) text += ":" + options.dims->text();
  if (options.dump_iter) text += concat(" -dump_iter ", options.dump_iter);
  if (options.dbg_level) text += concat(" -dbg_level ", options.dbg_level);
  if (options.reproducible) text += " -reproducible";
  if (options.algorithm) text += concat(" -algorithm ", *options.algorithm);
  if (options.timeout_ms)
    text += concat(" -timeout ", *options.timeout_ms, "ms");
  if (!options.machine.empty()) text += concat(" -machine ", options.machine);
  return text;
}

}  // namespace sheaf::topo

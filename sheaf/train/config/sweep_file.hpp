#pragma once
// The jobs file of `sheaf sweep`: the settings to combine, and all
// combinations, each with a name.

#include <filesystem>
#include <string>
#include <vector>

namespace sheaf::train {

// A config key and its value, as YAML on one line.
struct Setting {
  std::string key;
  std::string value;
  std::string place;  // "jobs.yaml:7: ", for error messages
};

// One value of an axis: usually one setting, any number for a case, none for
// `ranks` and `repeat`.
struct Choice {
  std::string label;
  std::vector<Setting> settings;
};

struct Axis {
  std::string name;  // "ranks", "case", "repeat" or a key
  std::vector<Choice> choices;
};

// Combinations to skip: those that match every entry.
struct Skip {
  struct Condition {
    std::string key;
    std::vector<std::string> values;  // matches any of these
    std::string place;
  };
  std::vector<Condition> conditions;
};

struct SweepFile {
  std::filesystem::path base;    // relative to the file's folder, or absolute
  std::filesystem::path output;  // relative to the working folder
  std::string name;              // pattern of job names; empty: default
  std::string name_place;
  std::vector<Axis> axes;  // the last changes fastest; "ranks" is always there
  std::vector<Skip> skips;
};

// Throws UsageError with the file, the line and the nearest valid key, or
// IoError if the file cannot be read.
SweepFile read_sweep_file(const std::filesystem::path& file);
SweepFile parse_sweep_file(const std::string& text,
                           const std::filesystem::path& file);

struct GridJob {
  std::string name;  // folder name
  int ranks = 1;
  std::vector<Setting> settings;

  std::vector<std::string> overrides() const;  // "key=value", for --set
};

// The jobs in the order of the axes, without the combinations to skip. Throws
// UsageError if the name pattern has unknown parts or gives two jobs the same
// name, or if a skip matches no job.
std::vector<GridJob> make_grid(const SweepFile& file);

}  // namespace sheaf::train

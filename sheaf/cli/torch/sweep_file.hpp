#pragma once
// The file that `sheaf sweep` reads: which settings to combine.

#include <filesystem>
#include <string>
#include <vector>

namespace sheaf::cli {

// A key of the run description and its value, as YAML on one line.
struct Setting {
  std::string key;
  std::string value;
  std::string place;  // "jobs.yaml:7: ", for error messages
};

// One value of an axis: usually one setting; those of a case may be many, and
// a number of ranks is none.
struct Choice {
  std::string label;
  std::vector<Setting> settings;
};

struct Axis {
  std::string name;  // "ranks", "case", "repeat" or a key
  std::vector<Choice> choices;
};

// Combinations to leave out: those that agree with every entry.
struct Skip {
  struct Entry {
    std::string key;
    std::vector<std::string> values;  // any of them
    std::string place;
  };
  std::vector<Entry> entries;
};

struct SweepFile {
  std::filesystem::path base;    // relative to the file's folder, or absolute
  std::filesystem::path output;  // relative to the working folder
  std::string name;              // pattern; empty: none was given
  std::string name_place;
  std::vector<Axis> axes;  // the last changes fastest; always one of "ranks"
  std::vector<Skip> skips;
};

// UsageError names file, line and the nearest valid key; IoError when the file
// is unreadable.
SweepFile read_sweep_file(const std::filesystem::path& file);

}  // namespace sheaf::cli

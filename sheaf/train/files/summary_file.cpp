#include "sheaf/train/files/summary_file.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"

namespace sheaf::train {

SummaryFile parse_summary_file(const std::string& text) {
  const JsonSource source{"summary.json"};
  SummaryFile summary;
  try {
    const nlohmann::json json = parse_json(text, source);
    for (const auto& [key, value] : JsonValue(json, source).members()) {
      if (key == "ending")
        summary.ending = value.text();
      else if (value.json().is_number())
        summary.numbers[key] = value.number();
    }
  } catch (const IoError&) {
    return {};
  }
  return summary;
}

}  // namespace sheaf::train

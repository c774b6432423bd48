#include "sheaf/comm/choice/tuned_results.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::comm {
namespace {

constexpr const char* kSchema = "sheaf.tuned.1";

}  // namespace

TunedResults TunedResults::parse(std::string_view text,
                                 const std::string& file) {
  const JsonSource source{file};
  const nlohmann::json json = parse_json(text, source);
  const JsonValue root(json, source);
  const JsonValue schema = root.at("schema");
  if (schema.text() != kSchema)
    schema.fail(concat("must be ", kSchema, ": results of another version"));
  TunedResults results;
  for (const auto& [topology, types] : root.at("topologies").members())
    for (const auto& [dtype, sizes] : types.members())
      for (const auto& [bytes, result] : sizes.members())
        results.results_[{topology, dtype, bytes}] = {
            result.at("choice").text(), result.at("time_us").number()};
  return results;
}

std::string TunedResults::text() const {
  nlohmann::json topologies = nlohmann::json::object();
  for (const auto& [place, result] : results_) {
    const auto& [topology, dtype, bytes] = place;
    topologies[topology][dtype][bytes] = {{"choice", result.choice},
                                          {"time_us", result.microseconds}};
  }
  const nlohmann::json root{{"schema", kSchema}, {"topologies", topologies}};
  return root.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

TunedResults::Place TunedResults::place_of(const TunedKey& key) {
  return {key.topology, std::string(name_of(key.dtype)),
          format_bytes_exactly(key.bytes)};
}

std::optional<std::string> TunedResults::find(const TunedKey& key) const {
  const auto found = results_.find(place_of(key));
  if (found == results_.end()) return std::nullopt;
  return found->second.choice;
}

void TunedResults::set(const TunedKey& key, const std::string& choice,
                       double microseconds) {
  results_[place_of(key)] = {choice, microseconds};
}

}  // namespace sheaf::comm

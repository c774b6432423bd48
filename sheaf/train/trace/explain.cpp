#include <ostream>

#include "sheaf/base/table.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/train/loop/learner.hpp"
#include "sheaf/train/loop/trainer.hpp"
#include "sheaf/train/loop/trainer_run.hpp"
#include "sheaf/train/setup/device_setup.hpp"
#include "sheaf/train/setup/network_setup.hpp"

namespace sheaf::train {
namespace {

void print_notes(const std::vector<spatial::ExchangeNote>& notes,
                 const RunConfig& config, std::ostream& out,
                 const std::string& reading) {
  Table table({{.name = "operation", .align = Align::kLeft},
               {.name = "cuts", .align = Align::kLeft},
               {.name = "halo", .align = Align::kLeft},
               {.name = "messages"},
               {.name = "bytes"},
               {.name = "in place"},
               {.name = "overlap", .align = Align::kLeft}});
  std::int64_t messages = 0, bytes = 0;
  for (const spatial::ExchangeNote& note : notes) {
    table.add_row({note.operation, note.cuts, note.halo, note.messages,
                   note.bytes, note.bytes_in_place,
                   note.is_overlapped ? "yes" : "no"});
    messages += note.messages;
    bytes += note.bytes;
  }
  table.print(out, TableFormat::kText);
  out << "One step on a grid of " << config.parallel.grid << ": "
      << notes.size() << " exchanges, " << messages << " messages and " << bytes
      << " bytes sent by rank 0, no barriers, plus the gradient all-reduce.\n"
      << "Each rank reads " << reading << ".\n";
}

void print_routes(const std::vector<parallel::DadRoute>& routes,
                  std::ostream& out) {
  Table table({{.name = "parameter", .align = Align::kLeft},
               {.name = "route", .align = Align::kLeft},
               {.name = "bytes sent"},
               {.name = "reason", .align = Align::kLeft}});
  for (const parallel::DadRoute& route : routes)
    table.add_row({route.name, route.route, route.last.sent, route.reason});
  table.print(out, TableFormat::kText);
}

}  // namespace

void explain(const comm::Group& group, const RunConfig& config,
             std::ostream& out) {
  device_of_rank(config, group);  // reports an unavailable device
  const DataSets sets = open_data(config);
  const comm::Group samples = sample_ranks(config, group);
  data::Loader loader(sets.train, samples,
                      loader_options(config, true, sets, samples, group));
  Learner learner(config, make_model(config), group);
  learner.set_training(true);
  data::Batch batch = *loader.begin();
  const auto notes = learner.notes_of_step(batch);
  if (group.rank() != 0) return;
  if (const auto routes = learner.routes(); !routes.empty())
    return print_routes(routes, out);
  if (config.parallel.strategy == "spatial")
    return print_notes(notes, config, out, loader.reading());
  out << "strategy " << config.parallel.strategy
      << ": the gradients of all parameters are averaged; nothing else is "
         "exchanged\n";
}

}  // namespace sheaf::train

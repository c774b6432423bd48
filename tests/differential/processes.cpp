#include "processes.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>

#include "sheaf/base/files.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace differential {
namespace {

// Longer than the timeout of groups, because a rank may still be waiting in a
// case.
constexpr std::chrono::seconds kBarrierTimeout{80};

std::string on_one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

void save_result(const RankResult& result, const std::filesystem::path& path) {
  std::ofstream out(path.string() + ".txt");
  out << result.kind << '\n' << on_one_line(result.error) << '\n';
  std::vector<at::Tensor> values;
  for (const Entry& entry : result.record) {
    out << (entry.value.defined() ? '+' : '-') << entry.name << '\n';
    if (entry.value.defined()) values.push_back(entry.value.cpu());
  }
  torch::save(values, path.string() + ".pt");
}

RankResult load_result(const std::filesystem::path& path) {
  std::ifstream in(path.string() + ".txt");
  RankResult result;
  std::getline(in, result.kind);
  std::getline(in, result.error);
  std::vector<at::Tensor> values;
  torch::load(values, path.string() + ".pt");
  std::size_t next = 0;
  for (std::string line; std::getline(in, line);) {
    Entry entry{line.substr(1), {}};
    if (line[0] == '+') entry.value = values.at(next++);
    result.record.push_back(std::move(entry));
  }
  return result;
}

Processes::Processes(const sheaf::comm::Group& world) : world_(world) {
  std::vector<std::int64_t> pid{static_cast<std::int64_t>(getpid())};
  sheaf::comm::broadcast(world, pid).wait();
  folder_ = std::filesystem::temp_directory_path() /
            ("differential-" + std::to_string(pid[0]));
  std::filesystem::create_directories(folder_);
}

Processes::~Processes() {
  if (!is_first()) return;
  sheaf::try_remove_tree(folder_);
}

bool Processes::agree(bool choice) const {
  std::vector<std::int32_t> word{choice ? 1 : 0};
  sheaf::comm::broadcast(world_, word).wait();
  return word[0] == 1;
}

Finding Processes::check(const Case& one) const {
  std::vector<Record> expected;
  if (const std::string reason = find_expected(one, expected); !reason.empty())
    return {Verdict::kBad, reason};
  const auto path = [&](int rank) {
    return folder_ / ("rank-" + std::to_string(rank));
  };
  {
    // A group that has failed cannot be used again, so each case has a new one.
    const sheaf::comm::Group group = world_.split(0, world_.rank());
    save_result(run_rank(one, group), path(world_.rank()));
    sheaf::comm::barrier(world_, {.timeout = kBarrierTimeout}).wait();
  }
  Finding finding;
  if (is_first()) {
    std::vector<RankResult> found;
    for (int rank = 0; rank < world_.size(); ++rank)
      found.push_back(load_result(path(rank)));
    finding = compare(one, found, expected);
  }
  std::vector<std::int32_t> words{static_cast<std::int32_t>(finding.verdict),
                                  finding.has_open ? 1 : 0};
  sheaf::comm::broadcast(world_, words).wait();
  finding.verdict = static_cast<Verdict>(words[0]);
  finding.has_open = words[1] == 1;
  return finding;
}

}  // namespace differential

// Checkpoints written by all ranks. Rank 0 creates the draft folder, each rank
// writes its files there and syncs them to disk; when all are done, rank 0 adds
// state.json and renames the folder.
#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowToShare =
    "each rank writes a shard of the checkpoint: put the run folder on a file "
    "system that all hosts share, or set output.shards=one to let rank 0 write "
    "all of it";

// Ranks on other hosts may have a separate folder of the same name.
void check_sees(const fs::path& draft, int rank) {
  if (fs::is_directory(draft)) return;
  throw IoError(concat("rank ", rank, " on ", host_name(), " cannot see ",
                       draft.string(), ", which rank 0 created; ",
                       kHowToShare));
}

// The files of all shards, verified to be visible to rank 0.
std::vector<CheckpointFile> files_of(
    const fs::path& draft, const std::vector<std::vector<std::int64_t>>& told) {
  std::vector<CheckpointFile> files;
  const int shards = static_cast<int>(told.size());
  for (const std::size_t first : {0, 2})
    for (int rank = 0; rank < shards; ++rank) {
      const auto& numbers = told[static_cast<std::size_t>(rank)];
      const std::string name =
          shard_name(first == 0 ? "weights" : "optimizer", rank, shards);
      const auto bytes = static_cast<std::uint64_t>(numbers[first]);
      std::error_code none;
      if (fs::file_size(draft / name, none) != bytes)
        throw IoError(concat("rank 0 on ", host_name(), " cannot see the ",
                             bytes, " bytes that rank ", rank, " wrote to ",
                             (draft / name).string(), "; ", kHowToShare));
      files.push_back(
          {name, bytes, static_cast<std::uint32_t>(numbers[first + 1])});
    }
  return files;
}

}  // namespace

void CheckpointFolder::save_shards(const comm::Group& group,
                                   const TrainState& share) {
  std::optional<Draft> mine;  // on rank 0
  const fs::path name = from_root(group, [&] {
    with_io_errors([&] {
      places_.clean();
      mine.emplace(places_, share.step);
    });
    return mine->path().filename().string();
  });
  const fs::path draft = places_.folder() / name;
  const int shards = group.size();
  const auto told = from_all(group, /*numbers=*/4, [&] {
    check_sees(draft, group.rank());
    std::vector<std::int64_t> numbers;
    with_io_errors([&] {
      for (const auto& file :
           write_tensors(draft, share, group.rank(), shards)) {
        numbers.push_back(static_cast<std::int64_t>(file.bytes));
        numbers.push_back(file.checksum);
      }
    });
    return numbers;
  });
  from_root(group, [&] {
    with_io_errors([&] { finish(*mine, share, files_of(draft, told)); });
    return std::string();
  });
}

NamedTensors share_of(const NamedTensors& tensors, int shard, int shards) {
  std::size_t all = 0, before = 0;
  for (const auto& [name, tensor] : tensors) all += tensor.nbytes();
  NamedTensors share;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t own =
        all == 0 ? 0 : before * static_cast<std::size_t>(shards) / all;
    // A tensor without bytes may begin after all others.
    if (std::min(own, static_cast<std::size_t>(shards - 1)) ==
        static_cast<std::size_t>(shard))
      share.emplace_back(name, tensor);
    before += tensor.nbytes();
  }
  return share;
}

}  // namespace sheaf::train

#include "sheaf/train/checkpoint/checkpoint.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/missing.hpp"
#include "tests/tensor/files/expect_same.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

TrainState make_state(std::int64_t step, std::int64_t best_step = 90) {
  TrainState state;
  state.step = step;
  state.epoch = 2;
  state.batch = 5;
  state.seed = 42;
  state.global_batch = 64;
  // The second name is Latin-1, which a JSON string cannot hold.
  state.class_names = {"Tür", "T\xfcr", ""};
  state.best = 0.1 + 0.2;
  state.best_step = best_step;
  state.best_metric = "validation_loss";
  state.epochs_since_best = 1;
  state.metric_sums = {0.1, 1e300, 3};
  state.weights = {{"conv.weight", torch::full({2, 3}, double(step))},
                   {"norm.num_batches_tracked", torch::tensor(7)},
                   {"half", torch::ones({3}, torch::kBFloat16)}};
  state.optimizer = {{"step/conv.weight", torch::tensor(step)},
                     {"exp_avg/conv.weight", torch::rand({2, 3})}};
  return state;
}

void expect_same(const TrainState& a, const TrainState& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.batch, b.batch);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.global_batch, b.global_batch);
  EXPECT_EQ(a.class_names, b.class_names);
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.best_step, b.best_step);
  EXPECT_EQ(a.best_metric, b.best_metric);
  EXPECT_EQ(a.epochs_since_best, b.epochs_since_best);
  EXPECT_EQ(a.has_stopped_early, b.has_stopped_early);
  EXPECT_EQ(a.metric_sums, b.metric_sums);
  tensor::expect_same(a.weights, b.weights);
  tensor::expect_same(a.optimizer, b.optimizer);
}

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kWarn); }
  fs::path place(const std::string& name) const {
    return folder_.path() / name;
  }

  TemporaryFolder folder_;
  CheckpointFolder checkpoints_{folder_.path(), /*keep=*/2};
};

TEST_F(Checkpoint, ReadsBackTheSame) {
  const TrainState state = make_state(100, 100);
  checkpoints_.save(state);
  expect_same(*checkpoints_.load_latest(), state);
  expect_same(checkpoints_.load_step(100), state);
  EXPECT_EQ(fs::read_symlink(place("best")), "step-0000000100");
}

TEST_F(Checkpoint, WithoutABestMetricToo) {
  TrainState state = make_state(1);
  state.best = NAN;
  state.optimizer.clear();
  checkpoints_.save(state);
  EXPECT_TRUE(std::isnan(checkpoints_.load_latest()->best));
  EXPECT_FALSE(fs::is_symlink(place("best")));
}

TEST_F(Checkpoint, EmptyFolderHasNoCheckpoint) {
  EXPECT_FALSE(checkpoints_.load_latest());
  EXPECT_FALSE(CheckpointFolder(place("none"), 1).load_latest());
}

TEST_F(Checkpoint, KeepsTheNewestAndTheBest) {
  for (const int step : {1, 2, 3, 4, 5})
    checkpoints_.save(make_state(step, step == 1 ? 1 : 2));
  EXPECT_EQ(folder_.names(),
            (std::vector<std::string>{"best", "latest", "step-0000000002",
                                      "step-0000000004", "step-0000000005"}));
  EXPECT_EQ(fs::read_symlink(place("best")), "step-0000000002");
  EXPECT_EQ(fs::read_symlink(place("latest")), "step-0000000005");
}

// Links as left by a kill before they were updated, or a copy without links.
TEST_F(Checkpoint, StateRecordsTheBestStep) {
  checkpoints_.save(make_state(1, 1));
  checkpoints_.save(make_state(2, 2));
  for (const bool is_gone : {false, true}) {
    for (const char* link : {"best", "latest"}) {
      fs::remove(place(link));
      if (!is_gone) fs::create_symlink("step-0000000001", place(link));
    }
    checkpoints_.repair(make_state(2, 2));
    for (const char* link : {"best", "latest"})
      EXPECT_EQ(fs::read_symlink(place(link)), "step-0000000002");
  }
  fs::remove(place("best"));
  for (const int step : {3, 4, 5}) checkpoints_.save(make_state(step, 2));
  EXPECT_EQ(checkpoints_.load_step(2).step, 2);
  EXPECT_EQ(fs::read_symlink(place("best")), "step-0000000002");
  checkpoints_.repair(make_state(5, 77));  // step 77 does not exist
  EXPECT_FALSE(fs::exists(fs::symlink_status(place("best"))));
}

// The result of `cp -rL`.
TEST_F(Checkpoint, ReplacesCopiesByLinks) {
  checkpoints_.save(make_state(1, 1));
  checkpoints_.save(make_state(2, 1));
  for (const char* link : {"best", "latest"}) {
    const fs::path target = place(fs::read_symlink(place(link)));
    fs::remove(place(link));
    fs::copy(target, place(link));
  }
  checkpoints_.save(make_state(3, 1));
  EXPECT_EQ(fs::read_symlink(place("latest")), "step-0000000003");
  EXPECT_EQ(fs::read_symlink(place("best")), "step-0000000001");
  fs::remove(place("best"));
  fs::create_directory(place("best"));
  write_file_atomically(place("best") / "notes.txt", "mine");
  expect_throws<IoError>([&] { checkpoints_.repair(make_state(3, 1)); },
                         {place("best").string(), "rename or remove"});
  EXPECT_EQ(read_whole(place("best") / "notes.txt"), "mine");
}

TEST_F(Checkpoint, TheSameStepIsReplaced) {
  checkpoints_.save(make_state(1));
  TrainState again = make_state(1);
  again.epoch = 9;
  checkpoints_.save(again);
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 9);
  EXPECT_EQ(folder_.names(),
            (std::vector<std::string>{"latest", "step-0000000001"}));
}

// For every kind of damage to every file, the previous checkpoint is loaded and
// the error names the damaged one.
TEST_F(Checkpoint, ACorruptOneIsPassedOver) {
  checkpoints_.save(make_state(1));
  for (const char* file : {"state.json", "weights.pt", "optimizer.pt"})
    for (const char* fault : {"cut", "empty", "flip", "gone", "longer"}) {
      SCOPED_TRACE(std::string(file) + " " + fault);
      checkpoints_.save(make_state(2));
      const fs::path path = place("step-0000000002") / file;
      std::string bytes = read_whole(path);
      const std::string kind = fault;
      if (kind == "cut") bytes.resize(bytes.size() / 2);
      if (kind == "empty") bytes.clear();
      if (kind == "flip") bytes[bytes.size() / 2] ^= 1;
      if (kind == "longer") bytes += "x";
      if (kind == "gone")
        fs::remove(path);
      else
        write_file_atomically(path, bytes);
      const std::string name = "step-0000000002";
      expect_throws<IoError>([&] { checkpoints_.load(name); }, {name});
      EXPECT_EQ(checkpoints_.load_latest()->step, 1);
    }
}

TEST_F(Checkpoint, NoGoodOneLeftIsAnIoError) {
  checkpoints_.save(make_state(1));
  write_file_atomically(place("step-0000000001") / "weights.pt", "x");
  EXPECT_THROW(checkpoints_.load_latest(), IoError);
}

TEST_F(Checkpoint, AnUnfinishedOneIsNotSeenAndIsCleanedUp) {
  checkpoints_.save(make_state(1));
  fs::create_directory(place(".unfinished-step-0000000002"));
  write_file_atomically(place(".unfinished-step-0000000002") / "weights.pt",
                        "x");
  EXPECT_EQ(checkpoints_.load_latest()->step, 1);
  checkpoints_.save(make_state(3));
  EXPECT_FALSE(fs::exists(place(".unfinished-step-0000000002")));
}

TEST_F(Checkpoint, LaterOnesAreSetAside) {
  for (const int step : {1, 2}) checkpoints_.save(make_state(step));
  checkpoints_.repair(make_state(1));
  EXPECT_EQ(checkpoints_.names(),
            (std::vector<std::string>{"step-0000000001"}));
  EXPECT_TRUE(fs::exists(place("bad-step-0000000002")));
  EXPECT_EQ(fs::read_symlink(place("latest")), "step-0000000001");
}

// As left by a kill after a checkpoint was saved; the damaged one does not
// count.
TEST_F(Checkpoint, OldOnesAreRemovedByARepair) {
  CheckpointFolder all(folder_.path(), /*keep=*/9);
  for (const int step : {1, 2, 3, 4}) all.save(make_state(step));
  checkpoints_.repair(make_state(3));
  EXPECT_EQ(checkpoints_.names(),
            (std::vector<std::string>{"step-0000000002", "step-0000000003"}));
}

TEST_F(Checkpoint, AFailedSaveLeavesTheOldOne) {
  checkpoints_.save(make_state(1));
  write_file_atomically(place(".unfinished-step-0000000002"), "in the way");
  fs::permissions(place(".unfinished-step-0000000002"), fs::perms::none);
  checkpoints_.save(make_state(2));  // removed as a leftover
  EXPECT_EQ(checkpoints_.load_latest()->step, 2);
  write_file_atomically(folder_.path() / "file", "");
  CheckpointFolder below(folder_.path() / "file" / "x", 1);
  EXPECT_THROW(below.save(make_state(3)), IoError);
}

// Calls `body` in a child process in which files are limited to `bytes`, as on
// a full disk. It must throw an IoError.
void expect_io_error_within(rlim_t bytes, const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      body();
    } catch (const IoError&) {
      ::_exit(0);
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Checkpoint, AFullDiskKeepsNoDraft) {
  checkpoints_.save(make_state(1));
  TrainState large = make_state(2);
  large.optimizer.emplace_back("large", torch::ones({3000}));
  const auto before = folder_.names();
  for (const rlim_t bytes : {0, 3000, 8000}) {
    expect_io_error_within(bytes, [&] { checkpoints_.save(large); });
    EXPECT_EQ(folder_.names(), before);
  }
  EXPECT_EQ(checkpoints_.load_latest()->step, 1);
}

// As left by a kill while a checkpoint was being replaced on a file system that
// cannot exchange names.
TEST_F(Checkpoint, AnInterruptedReplacementKeepsOneVersion) {
  TrainState again = make_state(2);
  again.epoch = 9;
  const fs::path now = place("step-0000000002");
  const fs::path old = place("step-0000000002.old");
  const auto replace = [&] {
    checkpoints_.save(make_state(2));
    fs::rename(now, old);
  };
  checkpoints_.save(make_state(1));

  replace();
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 2);
  EXPECT_EQ(checkpoints_.load_step(2).epoch, 2);
  checkpoints_.repair(make_state(2));
  EXPECT_TRUE(fs::exists(now / "state.json"));
  EXPECT_FALSE(fs::exists(old));

  replace();
  checkpoints_.save(again);  // ends the replacement first, then replaces
  EXPECT_FALSE(fs::exists(old));
  fs::copy(now, old);
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 9);
  checkpoints_.repair(again);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 9);

  // The new version was damaged before the old one was removed.
  fs::copy(now, old);
  write_file_atomically(now / "weights.pt", "x");
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 9);
  checkpoints_.repair(again);
  EXPECT_TRUE(fs::exists(place("bad-step-0000000002")));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(checkpoints_.load_latest()->epoch, 9);
  EXPECT_EQ(fs::read_symlink(place("latest")), "step-0000000002");
}

// Makes the checksums of a damaged checkpoint valid.
void seal(const fs::path& place) {
  auto state = nlohmann::ordered_json::parse(read_whole(place / "state.json"));
  for (const char* name : {"weights.pt", "optimizer.pt"}) {
    const FileSummary file = summarize(place / name);
    state[name] = {{"bytes", file.bytes}, {"crc32c", file.checksum}};
  }
  state.erase("crc32c");
  state["crc32c"] = crc32c(state.dump());
  write_file_atomically(place / "state.json", state.dump());
}

// Files with valid checksums that were never written by save().
TEST_F(Checkpoint, WhatCannotBeLoadedIsPassedOver) {
  const std::string name = "step-0000000002";
  const std::vector<std::function<void(const fs::path&)>> faults{
      [](const fs::path& two) {
        tensor::save_state_dict(two / "optimizer.pt",
                                {{"metric_sums", torch::ones({2})}});
      },
      [](const fs::path& two) {
        write_file_atomically(two / "weights.pt", "");
      },
      [](const fs::path& two) {
        write_file_atomically(two / "weights.pt", std::string(100, 'P'));
      },
      [](const fs::path& two) {
        auto state = read_whole(two / "state.json");
        state.replace(state.find("\"epoch\": 2"), 10, "\"epoch\": {}");
        write_file_atomically(two / "state.json", state);
      },
      [](const fs::path& two) {
        auto state = read_whole(two / "state.json");
        state.replace(state.find("\"step\": 2"), 9, "\"step\": 7");
        write_file_atomically(two / "state.json", state);
      }};
  checkpoints_.save(make_state(1));
  for (const auto& fault : faults) {
    checkpoints_.save(make_state(2));
    fault(place(name));
    seal(place(name));
    expect_throws<IoError>([&] { checkpoints_.load(name); }, {name});
    EXPECT_EQ(checkpoints_.load_latest()->step, 1);
  }
}

TEST_F(Checkpoint, OtherKindsOfFilesArePassedOver) {
  checkpoints_.save(make_state(1));
  const fs::path two = place("step-0000000002");
  for (const char* file : {"state.json", "weights.pt"}) {
    checkpoints_.save(make_state(2));
    fs::remove(two / file);
    ASSERT_EQ(::mkfifo((two / file).c_str(), 0600), 0);  // opening would block
    EXPECT_EQ(checkpoints_.load_latest()->step, 1);
    fs::remove(two / file);
    fs::create_directory(two / file);
    EXPECT_EQ(checkpoints_.load_latest()->step, 1);
  }
  remove_tree(two);
  write_file_atomically(two, "x");
  EXPECT_EQ(checkpoints_.load_latest()->step, 1);
}

// An intact checkpoint must not be skipped for lack of file descriptors.
TEST_F(Checkpoint, WhatCannotBeReadNowStopsTheSearch) {
  checkpoints_.save(make_state(1));
  checkpoints_.save(make_state(2));
  rlimit before = {};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const int free = ::dup(0);
  ::close(free);
  // One descriptor to list the folder, none for a file within.
  const rlimit limit{static_cast<rlim_t>(free), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_THROW(checkpoints_.load("step-0000000002"), AccessError);
  EXPECT_THROW(checkpoints_.load_latest(), IoError);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(checkpoints_.load_latest()->step, 2);
}

TEST_F(Checkpoint, OtherNamesAreNoCheckpoints) {
  checkpoints_.save(make_state(3));
  for (const char* name :
       {"step-1", "step-00000000x4", "step-0000000004.new", "step-",
        "step-00000000000000000000000004", "step-99999999999999999999",
        "bad-step-0000000004", "step-+000000004"})
    fs::create_directory(place(name));
  EXPECT_EQ(checkpoints_.names(), std::vector<std::string>{"step-0000000003"});
}

// Names sort by step, not as text.
TEST_F(Checkpoint, StepsOfMoreDigitsAreNewer) {
  for (const std::int64_t step : {9'999'999'999, 10'000'000'000})
    checkpoints_.save(make_state(step));
  EXPECT_EQ(checkpoints_.load_latest()->step, 10'000'000'000);
  checkpoints_.save(make_state(10'000'000'001));
  EXPECT_EQ(checkpoints_.names(),
            (std::vector<std::string>{"step-10000000000", "step-10000000001"}));
}

TEST_F(Checkpoint, TravelsToEveryRank) {
  const TrainState state = make_state(100);
  comm::run_threads(3, [&](const comm::Group& group) {
    EXPECT_FALSE(share_state(group, std::nullopt));
    std::optional<TrainState> mine;
    if (group.rank() == 0) mine = state;
    expect_same(*share_state(group, mine), state);
  });
}

// One rank's share of make_state().
TrainState make_share(std::int64_t step, int rank, int ranks) {
  TrainState state = make_state(step);
  state.optimizer[1].second = torch::full({2, 3}, 0.5);
  state.weights = share_of(state.weights, rank, ranks);
  state.optimizer = share_of(state.optimizer, rank, ranks);
  return state;
}

class ShardedCheckpoint : public Checkpoint {
 protected:
  void save(std::int64_t step, int ranks) {
    comm::run_threads(ranks, [&](const comm::Group& group) {
      CheckpointFolder mine(folder_.path(), /*keep=*/2);
      mine.save_shards(group, make_share(step, group.rank(), ranks));
    });
  }

  // Compares the contents of a checkpoint by name.
  static void expect_whole(const TrainState& state, std::int64_t step) {
    TrainState wanted = make_state(step);
    wanted.optimizer[1].second = torch::full({2, 3}, 0.5);
    TrainState sorted = state;
    for (TrainState* one : {&wanted, &sorted})
      for (NamedTensors* list : {&one->weights, &one->optimizer})
        std::sort(list->begin(), list->end(), [](const auto& a, const auto& b) {
          return a.first < b.first;
        });
    expect_same(sorted, wanted);
  }
};

TEST(ShareOf, GivesEachTensorToOneShard) {
  NamedTensors tensors;
  for (const int size : {0, 5, 1, 1, 100, 7, 40, 0})
    tensors.emplace_back(std::to_string(tensors.size()), torch::ones({size}));
  for (const int shards : {1, 2, 3, 9}) {
    NamedTensors all;
    for (int i = 0; i < shards; ++i)
      for (auto& one : share_of(tensors, i, shards)) all.push_back(one);
    tensor::expect_same(all, tensors);
  }
  EXPECT_EQ(share_of(tensors, 0, 2).size(), 5u);
  EXPECT_TRUE(share_of({}, 1, 2).empty());
}

TEST_F(ShardedCheckpoint, ReadsBackTheSame) {
  for (const int ranks : {1, 2, 3, 5}) {
    save(ranks, ranks);
    expect_whole(*checkpoints_.load_latest(), ranks);
  }
  EXPECT_EQ(checkpoints_.names().size(), 2u);
  EXPECT_TRUE(fs::exists(place("latest") / "optimizer-00004-of-00005.pt"));
  // One file of each kind per rank, and state.json.
  EXPECT_EQ(std::distance(fs::directory_iterator(place("latest")), {}), 11);
}

TEST_F(ShardedCheckpoint, AFaultInAnyShardIsPassedOver) {
  save(1, 3);
  for (const char* file :
       {"state.json", "weights-00000-of-00003.pt", "weights-00002-of-00003.pt",
        "optimizer-00001-of-00003.pt"})
    for (const std::string fault : {"cut", "flip", "gone", "longer"}) {
      SCOPED_TRACE(file + (" " + fault));
      save(2, 3);
      const fs::path path = place("step-0000000002") / file;
      std::string bytes = read_whole(path);
      if (fault == "cut") bytes.resize(bytes.size() / 2);
      if (fault == "flip") bytes[bytes.size() / 2] ^= 1;
      if (fault == "longer") bytes += "x";
      fs::remove(path);
      if (fault != "gone") write_file_atomically(path, bytes);
      expect_throws<IoError>([&] { checkpoints_.load("step-0000000002"); },
                             {"step-0000000002", file});
      expect_whole(*checkpoints_.load_latest(), 1);
    }
}

// Shards of another step have the same names but different checksums.
TEST_F(ShardedCheckpoint, ShardsOfAnotherStepAreSeen) {
  save(1, 2);
  save(2, 2);
  fs::copy_file(place("step-0000000001") / "weights-00000-of-00002.pt",
                place("step-0000000002") / "weights-00000-of-00002.pt",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(checkpoints_.load_latest()->step, 1);
}

TEST_F(ShardedCheckpoint, WithoutACommonFolderThereIsNone) {
  save(1, 2);
  const TemporaryFolder elsewhere;
  comm::run_threads(2, [&](const comm::Group& group) {
    CheckpointFolder mine(group.rank() == 0 ? folder_.path() : elsewhere.path(),
                          /*keep=*/2);
    const auto save = [&] {
      mine.save_shards(group, make_share(2, group.rank(), 2));
    };
    if (group.rank() == 0)
      EXPECT_THROW(save(), FailedOnRoot);
    else
      expect_throws<IoError>(save, {"rank 1", elsewhere.path().string(),
                                    "file system", "output.shards=one"});
  });
  EXPECT_EQ(checkpoints_.load_latest()->step, 1);
  EXPECT_EQ(folder_.names(),  // without the draft
            (std::vector<std::string>{"latest", "step-0000000001"}));
}

// The first Python found that has torch.
std::string python_with_torch() {
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (std::system((python + " -c 'import torch' 2>/dev/null").c_str()) == 0)
      return python;
  return "";
}

TEST_F(Checkpoint, PythonReadsTheWeights) {
  const std::string python = python_with_torch();
  if (python.empty()) SHEAF_SKIP_MISSING("Python has no torch");
  checkpoints_.save(make_state(5));
  const std::string script = "import torch; d = torch.load('" +
                             place("latest").string() +
                             "/weights.pt'); assert list(d) == ['conv.weight', "
                             "'norm.num_batches_tracked', 'half'], d; "
                             "assert (d['conv.weight'] == 5).all(); "
                             "assert d['half'].dtype == torch.bfloat16";
  EXPECT_EQ(std::system((python + " -c \"" + script + "\"").c_str()), 0);
}

TEST_F(ShardedCheckpoint, PythonReadsEachShard) {
  const std::string python = python_with_torch();
  if (python.empty()) SHEAF_SKIP_MISSING("Python has no torch");
  save(5, 2);
  const std::string script =
      "import torch; d = [torch.load('" + place("latest").string() +
      "/weights-0000%d-of-00002.pt' % i) for i in (0, 1)]; "
      "assert sorted(list(d[0]) + list(d[1])) == ['conv.weight', 'half', "
      "'norm.num_batches_tracked'], d; assert d[0] and d[1]; "
      "assert (d[0]['conv.weight'] == 5).all()";
  EXPECT_EQ(std::system((python + " -c \"" + script + "\"").c_str()), 0);
}

}  // namespace
}  // namespace sheaf::train

#include "tests/crash/full_disk.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "tests/crash/crash_runs.hpp"

namespace sheaf::crash {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kLarge = 64 << 20;

// A file system in memory; nothing outside this process sees it.
class Disk {
 public:
  explicit Disk(fs::path place) : place_(std::move(place)) {
    fs::create_directory(place_);
  }
  ~Disk() { ::umount2(place_.c_str(), MNT_DETACH); }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  void mount(std::int64_t bytes) {
    ::umount2(place_.c_str(), MNT_DETACH);
    require(::mount("none", place_.c_str(), "tmpfs", 0,
                    concat("size=", bytes).c_str()) == 0,
            "cannot mount a tmpfs");
  }
  void enlarge() {
    require(::mount("none", place_.c_str(), "tmpfs", MS_REMOUNT,
                    concat("size=", kLarge).c_str()) == 0,
            "cannot enlarge a tmpfs");
  }
  std::int64_t used() const {
    const fs::space_info space = fs::space(place_);
    return static_cast<std::int64_t>(space.capacity - space.free);
  }

 private:
  fs::path place_;
};

bool may_mount() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

Outcome run_in(const fs::path& folder, bool is_resumed) {
  return run_plainly(
      [&] { return execute(run_kinds()[0], folder, is_resumed); });
}

void try_size(Disk& disk, const fs::path& folder, std::int64_t bytes,
              const Result& reference) {
  disk.mount(bytes);
  const Outcome outcome = run_in(folder, false);
  if (outcome.code != 0) {
    require(outcome.code == 5,
            concat("ended with code ", outcome.code, ": ", outcome.output));
    for (const auto& entry :
         fs::recursive_directory_iterator(folder.parent_path()))
      require(entry.path().filename().string().find(".unfinished-") ==
                  std::string::npos,
              "a draft is left on the full disk: " + outcome.output);
    if (fs::exists(folder)) expect_consistent(folder);
    disk.enlarge();
    const Outcome again = run_in(folder, fs::exists(folder));
    require(again.code == 0, "cannot be resumed: " + again.output);
  }
  expect_same(result_in(folder), reference, /*may_have_bad=*/false);
}

}  // namespace

void fill_disks(const fs::path& folder, int most, const SizeTrial& count) {
  if (!may_mount()) return;
  Disk disk(folder / "disk");
  const fs::path run = folder / "disk" / "run";
  disk.mount(kLarge);
  const Outcome outcome = run_in(run, false);
  require(outcome.code == 0, outcome.output);
  const Result reference = result_in(run);
  // Drafts and temporary files need some space more.
  const std::int64_t pages = 2 * disk.used() / kPage;
  const std::int64_t stride = std::max<std::int64_t>(1, pages / most);
  for (std::int64_t page = 1; page <= pages; page += stride)
    count(page * kPage, [&] { try_size(disk, run, page * kPage, reference); });
}

}  // namespace sheaf::crash

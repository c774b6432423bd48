#pragma once
// Runs on disks that are too small.

#include <cstdint>
#include <filesystem>
#include <functional>

namespace sheaf::crash {

using SizeTrial =
    std::function<void(std::int64_t bytes, const std::function<void()>& trial)>;

// Calls `count` for about `most` sizes, up to one that suffices. Its `trial`
// executes a run on a new file system of that size, mounted below `folder`;
// when the run has ended for lack of space, it enlarges the file system and
// resumes the run. Throws Lost. Does nothing if this process may not mount file
// systems.
void fill_disks(const std::filesystem::path& folder, int most,
                const SizeTrial& count);

}  // namespace sheaf::crash

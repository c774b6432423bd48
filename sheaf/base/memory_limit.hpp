#pragma once
// The memory that this process can still allocate: that of the machine, or less
// in a control group with a limit, as in most containers.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace sheaf {

// In bytes; nullopt if the system does not report it.
std::optional<std::uint64_t> available_memory();

// The same, with /proc and /sys/fs/cgroup in another folder: for tests.
std::optional<std::uint64_t> available_memory(
    const std::filesystem::path& root);

}  // namespace sheaf

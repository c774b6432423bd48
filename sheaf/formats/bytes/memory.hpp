#pragma once
// Memory for the content of files. A file can ask for any amount: readers check
// what is available before they use it, so that a file causes an error, and not
// the end of this or of another process.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sheaf/base/system.hpp"

namespace sheaf::formats {

// Reports the available memory in bytes; nullopt if it is unknown.
using AvailableMemory = std::optional<std::uint64_t> (*)();

// Larger amounts are used in parts of this size, each after a check, since
// other processes of the host use memory at the same time.
inline constexpr std::size_t kMemoryPart = std::size_t{16} << 20;
// This much is left to others.
inline constexpr std::uint64_t kMemoryLeft = std::uint64_t{64} << 20;

// Throws IoError "PATH: WHAT needs N more memory, ..." unless the system can
// provide `bytes` more. Less than a part is not checked.
void check_memory(const std::string& path, std::string_view what,
                  std::uint64_t bytes,
                  AvailableMemory available = available_memory);

struct FreeBytes {
  void operator()(std::uint8_t* bytes) const { std::free(bytes); }
};
using Memory = std::unique_ptr<std::uint8_t[], FreeBytes>;

// Uninitialized memory, after check_memory(). Throws IoError, which names the
// file, if there is not enough.
Memory allocate(const std::string& path, std::string_view what,
                std::size_t bytes);

// Changes the size of `memory` and keeps its content; large blocks are moved
// without a copy. Does not call check_memory(). Throws IoError, and leaves
// `memory` as it is, if there is not enough.
void resize(Memory& memory, const std::string& path, std::string_view what,
            std::size_t bytes);

}  // namespace sheaf::formats

#include "sheaf/formats/bytes/memory.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"

namespace sheaf::formats {
namespace {

[[noreturn]] void fail_for_memory(const std::string& path,
                                  std::string_view what, std::uint64_t bytes,
                                  const std::string& reason) {
  throw IoError(concat(path, ": ", what, " needs ", format_bytes(bytes),
                       " more memory, ", reason,
                       "; check that the file is intact, or use a machine or "
                       "container with more memory"));
}

}  // namespace

void check_memory(const std::string& path, std::string_view what,
                  std::uint64_t bytes, AvailableMemory available) {
  if (bytes < kMemoryPart) return;
  const std::optional<std::uint64_t> left = available();
  if (!left || (*left >= kMemoryLeft && *left - kMemoryLeft >= bytes)) return;
  fail_for_memory(
      path, what, bytes,
      concat("but ", format_bytes(*left), " is available, of which ",
             format_bytes(kMemoryLeft), " are left to others"));
}

Memory allocate(const std::string& path, std::string_view what,
                std::size_t bytes) {
  check_memory(path, what, bytes);
  Memory memory;
  resize(memory, path, what, bytes);
  return memory;
}

void resize(Memory& memory, const std::string& path, std::string_view what,
            std::size_t bytes) {
  // Not 0, for which realloc() frees the memory.
  void* moved = std::realloc(memory.get(), bytes ? bytes : 1);
  if (!moved)
    fail_for_memory(path, what, bytes, "which the system does not provide");
  memory.release();
  memory.reset(static_cast<std::uint8_t*>(moved));
}

}  // namespace sheaf::formats

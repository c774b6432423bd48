#pragma once
// Survives the loss of a mapped file's content. If a file is truncated while it
// is mapped, or its disk fails, an access to the lost pages raises SIGBUS,
// which ends the process. In a watched range, a handler instead replaces them
// by zeros and makes a note. Who reads the range asks for the note afterwards.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sheaf::formats {

class BusErrorWatch {
 public:
  // Watches a mapping: `begin` is the first byte of a page. The first call
  // installs the handler; a SIGBUS elsewhere is passed on to the handler that
  // was there before.
  BusErrorWatch(void* begin, std::size_t bytes);
  // Call before the range is unmapped.
  ~BusErrorWatch();
  BusErrorWatch(const BusErrorWatch&) = delete;
  BusErrorWatch& operator=(const BusErrorWatch&) = delete;

  // Whether some bytes of the range were replaced by zeros. A thread that has
  // read such bytes gets true. Costs one load.
  bool has_failed() const;

  struct Range;

 private:
  Range* range_;
};

}  // namespace sheaf::formats

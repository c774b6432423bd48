#pragma once
// How the 28 bits of a tag are shared out: 3 bits of kind, 10 of group, 15 of
// place within an operation.

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

enum class TagKind : Tag {
  kData,       // pieces of a collective
  kGuard,      // fingerprints between hosts
  kLetter,     // headers of point-to-point messages
  kEnclosure,  // their contents, when large
  kBootstrap,
  kEnd  // as kData, of the end of a program: others may be in another call
};

inline constexpr Tag kPlaceMask = (1u << 15) - 1;

inline constexpr Tag make_tag(TagKind kind, int group, Tag place = 0) {
  return static_cast<Tag>(kind) << 25 | static_cast<Tag>(group) << 15 |
         (place & kPlaceMask);
}

}  // namespace sheaf::comm

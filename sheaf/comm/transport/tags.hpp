#pragma once
// Layout of the 28 bits of a tag: 3 bits for the kind, 10 for the group, and 15
// for the place within an operation.

#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

enum class TagKind : Tag {
  kData,       // pieces of a collective
  kGuard,      // fingerprints between hosts
  kLetter,     // headers of point-to-point messages
  kEnclosure,  // contents of large point-to-point messages
  kBootstrap,
  // Like kData, for the end of a program, when other ranks may be in another
  // call.
  kEnd
};

inline constexpr Tag kPlaceMask = (1u << 15) - 1;

inline constexpr Tag make_tag(TagKind kind, int group, Tag place = 0) {
  return static_cast<Tag>(kind) << 25 | static_cast<Tag>(group) << 15 |
         (place & kPlaceMask);
}

}  // namespace sheaf::comm

#pragma once
// The world of a test program that runs on real ranks.

#include "sheaf/comm/group/group.hpp"

namespace sheaf::test {

const comm::Group& world();

}  // namespace sheaf::test

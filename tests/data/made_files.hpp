#pragma once
// The files that tests of formats make, for tests of datasets.

#include "tests/formats/images/made_images.hpp"

namespace sheaf::data {

using namespace formats::made;

}  // namespace sheaf::data

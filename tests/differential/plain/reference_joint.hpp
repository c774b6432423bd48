#pragma once
// The reference for normalization over the rows of all units: one forward of
// all rows, and the losses of the units on their parts of the outputs.

#include "plain/session.hpp"

namespace differential {

std::vector<Record> joint_reference(const Case& one);

}  // namespace differential

#pragma once
// Everything that a program needs, by short names.

#include "sheaf/base/error.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/comm/point_to_point.hpp"
#include "sheaf/comm/world.hpp"

namespace sheaf {

using comm::Algorithm;
using comm::Buffer;
using comm::CollectiveOptions;
using comm::ConstBuffer;
using comm::Group;
using comm::kAnySource;
using comm::MessageOptions;
using comm::ReduceOp;
using comm::SharedArray;
using comm::Work;
using comm::World;

using comm::all_gather;
using comm::all_reduce;
using comm::all_reduce_n;
using comm::all_to_all;
using comm::barrier;
using comm::broadcast;
using comm::gather;
using comm::irecv;
using comm::isend;
using comm::recv;
using comm::reduce;
using comm::reduce_scatter;
using comm::scatter;
using comm::send;

// Joins the other ranks, or is one process alone; see comm/world.hpp.
inline World init(int& argc, char**& argv) { return comm::init(&argc, &argv); }

}  // namespace sheaf

#pragma once
// The public C++ API in namespace sheaf: one include for user programs. The
// tensor, network and parallel parts need a build with libtorch.

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/group/world.hpp"
#ifdef SHEAF_WITH_TORCH
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/nn/sgd.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/memory.hpp"
#include "sheaf/tensor/start/init.hpp"
#endif

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

#ifdef SHEAF_WITH_TORCH
using tensor::all_gather;
using tensor::all_reduce;
using tensor::all_reduce_n;
using tensor::all_to_all;
using tensor::broadcast;
using tensor::empty_shared;
using tensor::gather;
using tensor::init;
using tensor::init_process_group;
using tensor::irecv;
using tensor::isend;
using tensor::load_npy;
using tensor::load_npz;
using tensor::load_state_dict;
using tensor::load_state_dict_file;
using tensor::recv;
using tensor::reduce;
using tensor::reduce_scatter;
using tensor::save_npy;
using tensor::save_npz;
using tensor::save_state_dict;
using tensor::scatter;
using tensor::send;
using tensor::state_dict;

using nn::Sgd;
using parallel::average_gradients;
using parallel::clip_gradients;
using parallel::DadMode;
using parallel::DadOptions;
using parallel::DadParallel;
using parallel::DataParallel;
using parallel::DataParallelOptions;
using parallel::forget_gradients;
using parallel::join_models;
using parallel::JoinOptions;
using parallel::layers_of;
using parallel::LossScale;
using parallel::make_half_exchange;
using parallel::make_power_sgd_exchange;
using parallel::MixedPrecision;
using parallel::seed_rank;
using parallel::use_sync_batch_norm;
using plan::Precision;
using plan::PrecisionPlan;
using spatial::SpatialOptions;
using spatial::SpatialParallel;
#else
// Joins the other ranks of the launcher, or starts a world of one process; see
// comm/group/world.hpp.
inline World init(int& argc, char**& argv) { return comm::init(&argc, &argv); }
#endif

}  // namespace sheaf

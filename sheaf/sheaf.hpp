#pragma once
// The public C++ API in namespace sheaf: one include for user programs. The
// tensor, network and parallel parts need a build with libtorch. Other headers
// are installed only as far as this one includes them.

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/version.hpp"
#ifdef SHEAF_WITH_TORCH
#include "sheaf/base/trace.hpp"
#include "sheaf/data/catalog/catalog.hpp"
#include "sheaf/data/dataset/synthetic.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/data/formats/image_folder.hpp"
#include "sheaf/data/load/loader.hpp"
#include "sheaf/data/load/torch_sampler.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/nn/sgd.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/precision/loss_scale.hpp"
#include "sheaf/parallel/precision/precision.hpp"
#include "sheaf/spatial/spatial_parallel.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/differentiable.hpp"
#include "sheaf/tensor/groups/memory.hpp"
#include "sheaf/tensor/start/init.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/loop/trainer.hpp"
#endif

namespace sheaf {

// Groups and their operations.
using comm::Algorithm;
using comm::Buffer;
using comm::CollectiveOptions;
using comm::ConstBuffer;
using comm::Counts;
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
using comm::gatherv;
using comm::irecv;
using comm::isend;
using comm::recv;
using comm::reduce;
using comm::reduce_scatter;
using comm::scatter;
using comm::scatterv;
using comm::send;

#ifdef SHEAF_WITH_TORCH
using tensor::init;
using tensor::init_process_group;
using tensor::ProcessGroupOptions;

using tensor::all_gather;
using tensor::all_reduce;
using tensor::all_reduce_n;
using tensor::all_to_all;
using tensor::broadcast;
using tensor::empty_shared;
using tensor::gather;
using tensor::irecv;
using tensor::isend;
using tensor::recv;
using tensor::reduce;
using tensor::reduce_scatter;
using tensor::scatter;
using tensor::send;
// Collectives that autograd records: differentiable::all_reduce() etc.
namespace differentiable = tensor::differentiable;

// Files and checkpoints.
using tensor::load_npy;
using tensor::load_npz;
using tensor::load_state_dict;
using tensor::load_state_dict_file;
using tensor::NamedTensors;
using tensor::save_npy;
using tensor::save_npz;
using tensor::save_state_dict;
using tensor::state_dict;
using tensor::StateDict;
using tensor::StateDictFileOptions;
using train::CheckpointFolder;
using train::load_optimizer_state;
using train::optimizer_state;
using train::share_state;
using train::TrainState;

// Networks and optimizers.
using nn::count_parameters;
using nn::layer_names;
using nn::LayerSpec;
using nn::make_network;
using nn::Network;
using nn::network_names;
using nn::NetworkSpec;
using nn::Sgd;

// Datasets, samplers, loaders and transforms.
using data::Batch;
using data::catalog;
using data::catalog_entry;
using data::CatalogEntry;
using data::center_crop;
using data::check_dataset;
using data::CheckedFile;
using data::CifarKind;
using data::class_folders;
using data::compose;
using data::data_root;
using data::Dataset;
using data::dataset_names;
using data::epoch_order;
using data::find_dataset;
using data::horizontal_flip;
using data::IdxOptions;
using data::ImageFolder;
using data::ImageFolderOptions;
using data::Loader;
using data::LoaderOptions;
using data::normalize;
using data::open_dataset;
using data::Order;
using data::pad;
using data::Random;
using data::random_crop;
using data::read_cifar;
using data::read_idx;
using data::read_idx_dataset;
using data::read_npy_dataset;
using data::resize;
using data::resize_shorter;
using data::Sampler;
using data::SamplerOptions;
using data::Sites;
using data::SyntheticDataset;
using data::SyntheticOptions;
using data::TensorDataset;
using data::TileOf;
using data::to_float;
using data::TorchSampler;
using data::Transform;
using data::TransformPtr;

// Wrappers of modules, and their options.
using parallel::DataParallel;
using parallel::DataParallelCore;
using parallel::DataParallelOptions;
using parallel::ExchangeStats;
using parallel::join_models;
using parallel::JoinOptions;
using parallel::Overlap;
using parallel::Strategy;

using parallel::Average;
using parallel::DadMode;
using parallel::DadOptions;
using parallel::DadParallel;
using parallel::DadParallelCore;
using parallel::DadRoute;
using parallel::FactorStats;
using parallel::FixedRoutes;
using parallel::LinkModel;
using parallel::Route;
using parallel::Where;

using spatial::CheckInputs;
using spatial::gather;
using spatial::is_split;
using spatial::SpatialOptions;
using spatial::SpatialParallel;
using spatial::SpatialParallelCore;
using spatial::SpatialStats;
using spatial::Tile;

using parallel::Bucket;
using parallel::BucketExchange;
using parallel::BucketMember;
using parallel::ExchangeState;
using parallel::make_half_exchange;
using parallel::make_plain_exchange;
using parallel::make_power_sgd_exchange;
using parallel::PowerSgdOptions;

// Gradients, batch normalization and precision.
using parallel::average_gradients;
using parallel::clip_gradients;
using parallel::forget_gradients;
using parallel::layers_of;
using parallel::LossScale;
using parallel::LossScaleOptions;
using parallel::MixedPrecision;
using parallel::MixedPrecisionOptions;
using parallel::seed_rank;
using parallel::use_local_batch_norm;
using parallel::use_sync_batch_norm;
using plan::Precision;
using plan::PrecisionPlan;

// Complete training runs: train::run().
using train::read_config;
using train::RunConfig;
using train::RunResult;
using train::TrainOptions;
#else
// Joins the other ranks of the launcher, or starts a world of one process; see
// comm/group/world.hpp.
inline World init(int& argc, char**& argv) { return comm::init(&argc, &argv); }
#endif

}  // namespace sheaf

#pragma once
// Operations on gradients after backward(), called by the user.

#include <torch/nn/module.h>

#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

// Averages all gradients over the group after a plain backward(), one at a
// time. DataParallel does the same during backward(), in larger messages. A
// parameter without a gradient on this rank counts as zero. All ranks must call
// it, with the same module.
void average_gradients(const torch::nn::Module& module,
                       const comm::Group& group);

// Scales the gradients so that their total norm is at most `max_norm`; returns
// the norm before scaling. A parameter that the module holds under several
// names counts once. Averaged gradients are equal on all ranks, so no
// communication is needed and all ranks apply the same factor. Throws
// UsageError if the norm is not finite or `max_norm` is not positive.
double clip_gradients(const torch::nn::Module& module, double max_norm);
// The two steps of clip_gradients(), for callers that sum squares over ranks:
// the squared norm of the gradients of the distinct parameters in the list, and
// the scaling. scale_gradients() throws UsageError if `norm` is not finite.
double square_of_gradients(const std::vector<at::Tensor>& parameters);
void scale_gradients(const torch::nn::Module& module, double norm,
                     double max_norm);

// The defined gradients, each memory region once, for in-place changes. Views
// of different parts of a storage are different regions.
std::vector<at::Tensor> distinct_gradients(
    const std::vector<at::Tensor>& parameters);

// Resets the gradients to undefined instead of filling them with zeros, so that
// the next backward() writes them without reading.
void forget_gradients(const torch::nn::Module& module);

// Seeds torch's default generators with a value that differs between ranks and
// is the same in every run. Returns the seed of this rank.
std::uint64_t seed_rank(std::uint64_t seed, const comm::Group& group);

}  // namespace sheaf::parallel

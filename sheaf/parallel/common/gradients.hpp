#pragma once
// What can be done with gradients after backward(), by hand.

#include <torch/nn/module.h>

#include <vector>

#include "sheaf/comm/group/group.hpp"

namespace sheaf::parallel {

// The simple way: averages every gradient over the group, one after the other,
// after a plain backward(). DataParallel does the same during backward(), in
// larger lumps. A parameter that has no gradient here counts as zero; all
// ranks must have the same module.
void average_gradients(const torch::nn::Module& module,
                       const comm::Group& group);

// Scales gradients so that their norm, over all parameters, is at most
// `max_norm`; returns the norm before. A parameter that the module holds under
// several names counts once. Averaged gradients are the same on all
// ranks, so no message is needed, and all ranks scale alike.
double clip_gradients(const torch::nn::Module& module, double max_norm);
// Its two halves, for those who sum squares over ranks: the squared norm of the
// distinct parameters among those given, and the scaling by a norm. UsageError
// when that is not finite.
double square_of_gradients(const std::vector<at::Tensor>& parameters);
void scale_gradients(const torch::nn::Module& module, double norm,
                     double max_norm);

// The gradients that are defined, each memory once: for whoever changes them in
// place. Views of different parts of a storage are different memory.
std::vector<at::Tensor> distinct_gradients(
    const std::vector<at::Tensor>& parameters);

// Forgets gradients rather than filling them with zeros: the next backward()
// then writes them without reading.
void forget_gradients(const torch::nn::Module& module);

// Seeds torch's random numbers so that ranks draw different ones, and the same
// ones in every run. Returns the rank's seed.
std::uint64_t seed_rank(std::uint64_t seed, const comm::Group& group);

}  // namespace sheaf::parallel

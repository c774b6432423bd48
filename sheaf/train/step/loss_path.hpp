#pragma once
// The parts that compute the loss of a piece, for passes outside of steps.

#include "sheaf/train/step/loss.hpp"
#include "sheaf/train/step/network.hpp"
#include "sheaf/train/step/pieces.hpp"

namespace sheaf::train {

struct LossPath {
  Network& network;
  const PieceCutter& cutter;
  const Loss& loss;
};

}  // namespace sheaf::train

#pragma once
// The rows of inputs and deltas that wait to be sent, by weight.
//
// Each product of a weight is a *call*. Calls with the same part of a weight
// and the same bias form a *block*, whose rows are sent together. Inputs may be
// sent before the deltas arrive. Calls of passes without exchange keep their
// rows for the next pass; they represent a gradient that has not been computed,
// and a mark on the parameter's gradient detects that the user resets it.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sheaf/parallel/common/gradient_mark.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/dad/factor_parcel.hpp"
#include "sheaf/parallel/products/delta_chain.hpp"
#include "sheaf/parallel/products/products.hpp"

namespace sheaf::parallel {

struct WaitingCall {
  at::Tensor input;
  at::Tensor delta;
  std::int64_t version = 0;   // of the input, at the time of the product
  std::int64_t number = 0;    // unique
  std::int64_t arrivals = 0;  // number of gradients in the delta
  bool is_dropped = false;    // its graph was released without a backward()
};

struct WaitingBlock {
  BlockKey key;
  std::vector<WaitingCall> calls;
  std::size_t early = 0;  // number of calls whose inputs were sent
  DeltaSource source;
  std::shared_ptr<DeltaChain> chain;  // from the source
};

// Identifies a call to the hooks of its product.
struct CallTicket {
  std::int64_t pass = 0;
  std::size_t call = 0;  // index among the calls of the block
  // Number of the call, to detect that another took its index.
  std::int64_t number = 0;
  WaitingBlock* block = nullptr;
  Product product;  // without its nodes, which own the hooks
};

// The rows of one block for one parcel. They are concatenated when the parcel
// is sent.
struct PackedRows {
  BlockKey block;
  DeltaSource source;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> deltas;
  Numbers voids;  // see FactorPart
};

// Not thread-safe. Blocks are never destroyed or moved.
class WaitingRows {
 public:
  // `parameters` must outlive this object.
  explicit WaitingRows(const std::vector<TrainedParameter>& parameters)
      : parameters_(parameters), sites_(parameters.size()) {}

  // Adds a call.
  CallTicket add(const Product& product);
  // Adds a delta to the call. A delta that arrives after its pass, from a
  // retained graph or an older forward(), counts as a new call of this pass.
  // `is_local`: the pass is without exchange, so the rows are kept.
  void take_delta(const CallTicket& ticket, const at::Tensor& delta,
                  bool is_local);
  // Releases the input of a call whose graph was released without backward().
  void drop(const CallTicket& ticket);

  // Whether the weight has at least `calls` calls, and whether all of them have
  // deltas.
  bool has_calls(std::size_t weight, std::int64_t calls) const;
  bool has_deltas(std::size_t weight, std::int64_t calls) const;
  // Whether a delta of the weight has arrived in this pass.
  bool has_new_delta(std::size_t weight) const {
    return sites_[weight].deltas > 0;
  }
  // Whether no weight has calls.
  bool is_empty() const;
  // The biases of the weight's blocks.
  std::vector<std::size_t> biases_of(std::size_t weight) const;

  // The inputs (forward) or deltas (backward) of these weights, with inputs
  // that were not sent yet. Throws UsageError if an input was changed in place.
  std::vector<PackedRows> pack(const std::vector<std::size_t>& weights,
                               bool is_backward);

  // Whether the parameter has rows of passes without exchange.
  bool has_local(std::size_t parameter) const {
    return sites_[parameter].mark.is_set();
  }
  bool has_local() const;
  // The parameter's gradient was replaced by this library: marks the new one,
  // if there are local rows.
  void renew_mark(std::size_t parameter);
  // Removes the mark. Returns whether the gradient was unchanged since it was
  // set.
  bool remove_mark(std::size_t parameter);
  // Drops local rows if the user has reset the gradient meanwhile. Throws
  // UsageError if the user has changed it in another way. `is_changed`:
  // backward() has just added to the gradient.
  void forget_reset(std::size_t parameter, bool is_changed);

  // Begins a pass: deltas that arrived before it are not counted as new.
  void begin_pass();
  // Ends a pass. Keeps local rows, except those of parameters in `is_gone`.
  void end_pass(const std::vector<bool>& is_gone);

 private:
  struct Site {
    std::vector<std::unique_ptr<WaitingBlock>> blocks;
    std::int64_t calls = 0;
    std::int64_t deltas = 0;
    GradientMark mark;  // set while rows of passes without exchange are kept
  };

  WaitingBlock& block_for(const Product& product);
  bool is_in_time(const CallTicket& ticket) const;
  bool follows_from_above(const WaitingBlock& block) const;
  PackedRows pack(const WaitingBlock& block, bool is_backward) const;
  void check_unchanged(const WaitingBlock& block,
                       const WaitingCall& call) const;
  static void forget_deltas(Site& site);
  static void drop(Site& site, WaitingCall& call);
  static void remove_dropped(WaitingBlock& block);

  const std::vector<TrainedParameter>& parameters_;
  std::vector<Site> sites_;   // by parameter
  std::int64_t pass_ = 0;     // number of the pass, including discarded ones
  std::int64_t numbers_ = 0;  // total number of calls
};

}  // namespace sheaf::parallel

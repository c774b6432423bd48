#pragma once
// Carries out a plan on tensors' memory. Forward, each rank gets the box that
// it wants out of all tiles; the adjoint takes the gradient of that box back
// to the owners of the tiles, who add. No barriers: ranks wait for the
// neighbours that they need something of, and for nobody else.

#include <memory>
#include <span>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/halo/halo_plan.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

class Lines;
class Pump;

// Of one rank, since the exchange was made.
struct HaloCounters {
  std::int64_t exchanges = 0;  // forward and adjoint, finished
  std::int64_t messages = 0;   // sent to other ranks
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_in_place = 0;  // of them, read where they lay
  std::int64_t bytes_read = 0;      // of what others sent
  std::int64_t wait_ns = 0;         // until it was here
};

// A part of the wanted box and where it is to go.
struct Patch {
  Box box{};  // of the image
  View view{};
};

// What is written: all, or only what comes from other ranks, where the rank's
// own part is in its place already or not wanted.
enum class Part { kAll, kHalo };

// Where others read a tile in place: whether finish() waits until they have, or
// its caller will.
enum class Reads { kAwaited, kLater };

class HaloExchange {
 public:
  // The plan is this rank's; all ranks of the group make exchanges in the same
  // order, of plans for the same layout and needs. Nothing is sent. With a
  // pump, messages between hosts move on by themselves.
  HaloExchange(const comm::Group& group, HaloPlan plan, DType dtype,
               std::shared_ptr<Pump> pump = nullptr);

  // An exchange under way. Must be finished, by the exchange it comes from.
  class Handle {
   public:
    Handle() = default;

    // Of what was sent: so much is read where it lies.
    std::int64_t bytes_in_place() const { return bytes_in_place_; }
    // Whether the others have read that.
    bool is_read() const;

   private:
    friend class HaloExchange;
    std::shared_ptr<Lines> lines_;
    std::uint32_t round_ = 0;
    bool is_adjoint_ = false;
    Reads reads_ = Reads::kAwaited;
    ConstView view_{};
    std::int64_t bytes_in_place_ = 0;
  };

  // Sends what others want of the tile: packed, but a tile in the arena (see
  // Group::allocate) is read by the others of the host where it lies. All ranks
  // of the group start the same exchanges in the same order, with as many
  // samples and channels. The tile stays alive and unchanged until finish(), or
  // with kLater until the handle is_read(). Of one direction two exchanges may
  // be under way; they are finished in the order started.
  Handle start(const ConstView& tile, Reads reads = Reads::kAwaited);
  // Brings what others sent, and this rank's own part, to the view of the
  // wanted box; or to some parts of it, which may overlap. Where the tile is
  // read in place, returns when those who want some of it have read it; ranks
  // then finish their exchanges in the same order.
  void finish(Handle handle, const View& wanted, Part part = Part::kAll);
  void finish(Handle handle, std::span<const Patch> patches,
              Part part = Part::kAll);

  // The adjoint: sends the halos of a gradient of the wanted box to their
  // owners. As for start().
  Handle start_adjoint(const ConstView& wanted, Reads reads = Reads::kAwaited);
  // The gradient of the tile: what this rank has of it itself, then the others'
  // added in the order of ranks; zero where nobody wanted it. With kHalo the
  // others' are added to what is there. f64, f32, f16, bf16.
  void finish_adjoint(Handle handle, const View& tile, Part part = Part::kAll);

  // Lets messages between hosts move on; whether all are here.
  bool poll(const Handle& handle);
  // Of a finished exchange: returns when the others have read in place.
  void wait_read(const Handle& handle);

  const HaloPlan& plan() const { return plan_; }
  DType dtype() const { return dtype_; }
  const HaloCounters& counters() const { return counters_; }

 private:
  Handle begin(std::shared_ptr<Lines>& lines, bool is_adjoint,
               const ConstView& view);
  void post(Handle& handle, const Box& whole,
            const std::vector<HaloMessage>& out);
  template <class Consume>
  void collect(const Handle& handle, const std::vector<HaloMessage>& in,
               Consume consume);
  void place(const Box& box, const ConstView& message,
             std::span<const Patch> patches);
  void start_sum(const Handle& handle, const View& tile);
  void check_view(const ConstView& view, const Box& box,
                  const char* what) const;

  comm::Group group_;
  HaloPlan plan_;
  DType dtype_;
  std::size_t element_bytes_;
  std::shared_ptr<Pump> pump_;
  std::shared_ptr<Lines> forward_;
  std::shared_ptr<Lines> adjoint_;
  HaloCounters counters_;
};

}  // namespace sheaf::halo

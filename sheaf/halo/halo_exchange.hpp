#pragma once
// Executes a halo plan on the memory of tensors. The forward exchange brings
// each rank its wanted box from all tiles; the adjoint sends the gradient of
// that box back to the owners of the tiles, which add it. There are no
// barriers: a rank waits only for the neighbors whose data it needs.

#include <memory>
#include <span>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/halo/halo_plan.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

class Lines;
class Pump;

// Counters of one rank since the construction of the exchange.
struct HaloCounters {
  std::int64_t exchanges = 0;  // finished, forward and adjoint
  std::int64_t messages = 0;   // sent to other ranks
  std::int64_t bytes_sent = 0;
  std::int64_t bytes_in_place = 0;  // part of bytes_sent that is read in place
  std::int64_t bytes_read = 0;      // received from other ranks
  std::int64_t wait_ns = 0;         // time spent waiting for messages
};

// A part of the wanted box and its destination.
struct Patch {
  Box box{};  // in image coordinates
  View view{};
};

// The data that finish() writes: everything, or only the data from other ranks,
// if the rank's own part is already in place or not needed.
enum class Part { kAll, kHalo };

// If other ranks read the tile in place: finish() waits until they have read it
// (kAwaited), or the caller waits later (kLater).
enum class Reads { kAwaited, kLater };

class HaloExchange {
 public:
  // `plan` is the plan of this rank. All ranks of the group construct their
  // exchanges in the same order, with plans for the same tiling and needs.
  // Sends nothing. With a pump, messages between hosts advance in the
  // background.
  HaloExchange(const comm::Group& group, HaloPlan plan, DType dtype,
               std::shared_ptr<Pump> pump = nullptr);

  // An exchange in progress. It must be finished by the HaloExchange that
  // started it.
  class Handle {
   public:
    Handle() = default;

    // Bytes of the tile that other ranks read in place.
    std::int64_t bytes_in_place() const { return bytes_in_place_; }
    // Whether the other ranks have read them.
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

  // Sends the parts of the tile that other ranks need. Messages are packed,
  // except that ranks on the same host read a tile in the arena (see
  // Group::allocate) in place. All ranks of the group start the same exchanges
  // in the same order, with the same number of samples and channels. The tile
  // must stay alive and unchanged until finish(), or with kLater until the
  // handle is_read(). Two exchanges per direction may be in progress; they must
  // be finished in the order started. Throws UsageError if these rules are
  // violated; a failed peer is a CommError or TimeoutError.
  Handle start(const ConstView& tile, Reads reads = Reads::kAwaited);
  // Writes the received data and this rank's own part to the view of the wanted
  // box, or to parts of it, which may overlap. If the tile is read in place and
  // reads are awaited, returns when all receivers have read it; ranks must then
  // finish their exchanges in the same order.
  void finish(Handle handle, const View& wanted, Part part = Part::kAll);
  void finish(Handle handle, std::span<const Patch> patches,
              Part part = Part::kAll);

  // The adjoint: sends the halos of a gradient of the wanted box to their
  // owners. The rules of start() apply.
  Handle start_adjoint(const ConstView& wanted, Reads reads = Reads::kAwaited);
  // Computes the gradient of the tile: this rank's own contribution, plus those
  // of the other ranks in rank order; zero where no rank needed the tile. With
  // kHalo, the other ranks' contributions are added to the content of `tile`.
  // Types: f64, f32, f16, bf16.
  void finish_adjoint(Handle handle, const View& tile, Part part = Part::kAll);

  // Advances messages between hosts; returns whether all have arrived.
  bool poll(const Handle& handle);
  // After finish(): waits until all receivers have read the tile in place.
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

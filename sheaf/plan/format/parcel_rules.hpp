#pragma once
// The rules by which dAD exchanges factors: their sizes, which layers share a
// parcel, and the messages of a parcel. The runtime (sheaf/parallel) follows
// them, and the planner and the runtime's own choice of routes predict with
// them.

#include <cstddef>
#include <optional>
#include <vector>

#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"

namespace sheaf::plan {

// Messages below this size are combined, so that the latency is a small part.
inline constexpr double kParcelBytes = 256 << 10;
// Rows of the low-rank residual that are kept for the next pass, by default.
inline constexpr int kFeedbackRows = 16;

// The matrix products of a layer on one rank.
struct FactorShape {
  double rows = 0;
  double in = 0;
  double out = 0;
  double width = 4;        // bytes per element
  bool is_lookup = false;  // inputs are indices of 64 bits: an embedding
};

// Bytes of one rank's inputs, deltas, and low-rank factors with their bias.
double input_bytes(const FactorShape& shape);
double delta_bytes(const FactorShape& shape);
double low_rank_bytes(const FactorShape& shape, int rank, bool has_bias);
// The number of operations that find the low-rank factors: with the rows kept
// from the pass before these are m rows, and 2 m^2 (in + out) + 3 m^3.
double low_rank_operations(const FactorShape& shape, int feedback_rows);
// The number of rows of the product that computes the gradient after the
// exchange. `all_rows` are those of all ranks together.
double gradient_rows(Route route, const FactorShape& shape, int rank,
                     double all_rows, int ranks);

// Whether the deltas of a layer are derived from those of the layer above it
// instead of being sent. `above`: how that layer is exchanged; nullopt if there
// is no such layer.
bool derives_deltas(Route route, std::optional<Route> above);

// A layer that sends factors, with its mean number of rows per rank. All ranks
// must use the same numbers.
struct ParcelItem {
  Route route = Route::kDad;
  FactorShape shape;
};
using Parcels = std::vector<std::vector<std::size_t>>;
struct ParcelPlan {
  Parcels forward;   // inputs; low-rank factors are sent in backward only
  Parcels backward;  // deltas, derived deltas, low-rank factors
};
// `order` lists the layers that send factors, in the order of the forward pass,
// as indices of items. Parcels are returned in the order in which they are
// sent. A parcel is closed when its items have reached `parcel_bytes`.
ParcelPlan plan_parcels(const std::vector<ParcelItem>& items,
                        const std::vector<std::size_t>& order,
                        double parcel_bytes = kParcelBytes);

// A parcel is sent as a header of fixed size, the rest of the header if it is
// longer, and the factors, if there are any. Numbers in headers have 64 bits.
inline constexpr std::size_t kFirstHeaderNumbers = 64;  // the first is a count
inline constexpr std::size_t kParcelHeaderNumbers = 4;
inline constexpr std::size_t kPartHeaderNumbers = 25;  // for each layer
// Bytes of one rank's messages with the header of a parcel of `parts` layers.
std::vector<double> header_bytes(std::size_t parts);
int parcel_messages(std::size_t parts, bool has_payload);

// Additional cost of a pass that exchanges both gradients and factors, in small
// messages: a count of users, the end of a second exchange, and one more
// thread. With a value of 3, the routes chosen by auto measured 10 to 20 %
// slower than rank-dad for all weights.
inline constexpr int kMixedPassMessages = 10;

}  // namespace sheaf::plan

// Chooses how the ranks of a job meet, and who may take part.

#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/comm/transport/tcp_transport.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

// Whether the user asks for connections within this host only: for an address
// of loopback or its usual name, but not for a name of this host, which many
// systems map to 127.0.1.1 as well.
bool is_loopback(const MeetingPlace& place,
                 const std::vector<comm::Endpoint>& endpoints) {
  const bool is_name =
      place.host != "localhost" && !comm::parse_address(place.host + "/0");
  return endpoints.front().address.is_loopback() && !is_name;
}

// A name of this host that leads to loopback: the other ranks need another
// address.
bool is_ambiguous(const MeetingPlace& place,
                  const std::vector<comm::Endpoint>& endpoints) {
  return endpoints.front().address.is_loopback() &&
         !is_loopback(place, endpoints);
}

// How one start connects its ranks.
class Start {
 public:
  Start(const MeetingPlace& place, Deadline deadline)
      : place_(place),
        deadline_(deadline),
        identity_(identity_of(place)),
        encrypts_(comm::wants_encryption()) {
    SHEAF_CHECK(!encrypts_ || identity_.has_secret,
                "SHEAF_ENCRYPT=1 needs a secret; set SHEAF_SECRET to the same "
                "random text in all processes");
    if (place.path.empty()) endpoints_ = endpoints_of(place);
  }

  std::unique_ptr<comm::Transport> connect() {
    // In a file that nobody else can access, rank 0 writes a random secret.
    if (!identity_.has_secret && place_.path.empty()) warn();
    return comm::make_tcp_transport(
        place_.rank, place_.world_size,
        {.interface = "",
         .address = address_to_use(),
         .identity = identity_,
         .encrypts = encrypts_},
        [this](const std::string& mine) { return meet_others(mine); });
  }

 private:
  // Without a secret, only the interface that leads to rank 0 is used.
  std::optional<comm::Address> address_to_use() const {
    if (identity_.has_secret || endpoints_.empty() ||
        is_ambiguous(place_, endpoints_))
      return std::nullopt;
    return comm::address_towards(endpoints_.front());
  }

  void warn() const {
    if (place_.rank != 0) return;
    log_warn(
        "no SHEAF_SECRET: every program that reaches {} can join this job; set "
        "SHEAF_SECRET to the same random text in all processes",
        place_.has_server ? "the store of torchrun's agent"
                          : "this network interface");
  }

  comm::MeetingResult meet_others(const std::string& mine) const {
    if (!place_.path.empty() || place_.has_server)
      return meet(*open_store(place_, deadline_), place_, deadline_, mine);
    return comm::meet_at_rank_zero(
        {.endpoints = endpoints_,
         .listens_everywhere =
             identity_.has_secret || is_ambiguous(place_, endpoints_),
         .identity = identity_,
         .rank = place_.rank,
         .size = place_.world_size,
         .encrypts = encrypts_,
         .deadline = deadline_,
         .place = text_of(place_),
         .port_from = place_.port_from,
         .host_from = place_.host_from,
         .rank_from = place_.rank_from,
         .size_from = place_.world_size_from},
        mine);
  }

  const MeetingPlace& place_;
  const Deadline deadline_;
  const comm::JobIdentity identity_;
  const bool encrypts_;
  std::vector<comm::Endpoint> endpoints_;  // empty for a file
};

}  // namespace

comm::JobIdentity identity_of(const MeetingPlace& place) {
  return comm::find_identity(place.job + "/" + place.prefix);
}

std::vector<comm::Endpoint> endpoints_of(const MeetingPlace& place) {
  try {
    return comm::find_endpoints(place.host, place.port);
  } catch (const UsageError& error) {
    throw UsageError(concat(place.host_from, "=", error.what(), "; ",
                            place.host_hint,
                            " to the name or address of rank 0's host"));
  }
}

std::unique_ptr<comm::Transport> connect_ranks(const MeetingPlace& place,
                                               Deadline deadline) {
  return Start(place, deadline).connect();
}

}  // namespace sheaf::tensor

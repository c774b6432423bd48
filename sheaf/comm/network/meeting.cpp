#include "sheaf/comm/network/meeting.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/connect.hpp"
#include "sheaf/comm/network/frame_link.hpp"
#include "sheaf/comm/network/meeting_host.hpp"
#include "sheaf/comm/network/meeting_messages.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Between attempts, growing: many ranks may wait for rank 0.
constexpr auto kFirstRetryPause = milliseconds(10);
constexpr auto kLongestRetryPause = milliseconds(200);
constexpr auto kGuestRound = milliseconds(50);

// The side of a rank other than 0.
class MeetingGuest {
 public:
  explicit MeetingGuest(const MeetingPlan& plan)
      : plan_(plan),
        link_(connect(),
              kMostCardBytes * (static_cast<std::size_t>(plan.size) + 1)) {}

  MeetingResult join(const std::string& mine) {
    send(MeetingMessage::kCard, bytes_of(encode({this_process(), mine})));
    while (!has_started_) serve();
    return result_of(std::move(*all_), plan_.identity);
  }

 private:
  Channel connect() const;
  void serve();
  void handle(const FrameBuffer::Frame& frame);
  void send(MeetingMessage kind, std::span<const std::byte> payload = {}) {
    link_.send(static_cast<std::uint32_t>(kind), payload);
  }
  [[noreturn]] void throw_host_lost() const {
    throw CommError(concat(me(), "the host of rank 0 at ", where(),
                           " does not respond any more: it has failed, or the "
                           "network to it is cut"));
  }
  std::string me() const { return concat("rank ", plan_.rank, ": "); }
  std::string where() const {
    return concat(plan_.place, " (", plan_.host_from, ", ", plan_.port_from,
                  ")");
  }

  const MeetingPlan& plan_;
  FrameLink link_;
  std::optional<AllCards> all_;
  bool has_started_ = false;
};

Channel MeetingGuest::connect() const {
  const Party party{.purpose = Purpose::kMeeting,
                    .identity = plan_.identity,
                    .rank = plan_.rank,
                    .size = plan_.size,
                    .encrypts = plan_.encrypts};
  for (auto pause = kFirstRetryPause;;
       pause = std::min(2 * pause, kLongestRetryPause)) {
    Connection connection = connect_to({.endpoints = plan_.endpoints,
                                        .me = party,
                                        .peer = 0,
                                        .deadline = plan_.deadline});
    if (connection.channel) return std::move(connection.channel);
    if (connection.is_host_lost) throw_host_lost();
    if (!connection.may_retry)
      throw CommError(concat(
          me(), "the server at ", where(),
          " is not rank 0 of this job: ", connection.why,
          "; set the same secret and job in all processes, or another port if "
          "another program uses this one"));
    if (steady_clock::now() > plan_.deadline)
      throw TimeoutError(
          concat(me(), "nothing answers at ", where(), ": ", connection.why,
                 "; rank 0 must run on that host, and this host must be able "
                 "to reach the port"));
    std::this_thread::sleep_for(pause);
  }
}

void MeetingGuest::serve() {
  pollfd entry{link_.fd(), POLLIN, 0};
  poll(&entry, 1, static_cast<int>(kGuestRound.count()));
  const bool is_open = link_.read([this](const auto& frame) { handle(frame); });
  if (has_started_) return;
  if (!is_open)
    throw CommError(concat(me(), "rank 0 at ", where(),
                           " has closed the connection while the ranks were "
                           "connecting: it has died; see its output"));
  const auto now = steady_clock::now();
  if (!link_.keep_alive(now)) throw_host_lost();
  // Rank 0 reports its own timeout, with the ranks that are missing.
  if (now > plan_.deadline + std::chrono::seconds(2))
    throw TimeoutError(concat(me(), "rank 0 at ", where(),
                              " did not start in time; see its output, or "
                              "raise the timeout"));
}

void MeetingGuest::handle(const FrameBuffer::Frame& frame) {
  const auto kind = static_cast<MeetingMessage>(frame.kind);
  if (kind == MeetingMessage::kFailure) throw_failure(frame.payload);
  if (kind == MeetingMessage::kCards) {
    all_ = decode_cards(frame.payload, plan_.size);
    send(MeetingMessage::kReceived);
  }
  if (kind == MeetingMessage::kStart) has_started_ = true;
  if (!all_ && (has_started_ || kind == MeetingMessage::kCards))
    throw CommError(
        concat(me(), "rank 0 at ", where(), " has sent ", frame.payload.size(),
               " bytes that are not the ", plan_.size,
               " cards of this job; all ranks must run the same version of "
               "Sheaf"));
}

}  // namespace

MeetingResult meet_at_rank_zero(const MeetingPlan& plan,
                                const std::string& mine) {
  SHEAF_ASSERT(mine.size() <= kMostCardBytes, mine.size(), " bytes");
  if (plan.rank == 0) return MeetingHost(plan).hold(mine);
  return MeetingGuest(plan).join(mine);
}

}  // namespace sheaf::comm

#pragma once
// Rank 0's side of a meeting.

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sheaf/comm/network/acceptor.hpp"
#include "sheaf/comm/network/frame_link.hpp"
#include "sheaf/comm/network/meeting_messages.hpp"

namespace sheaf::comm {

class MeetingHost {
 public:
  // Listens at the endpoint of the plan. Throws UsageError if another program
  // uses the port.
  explicit MeetingHost(const MeetingPlan& plan);

  MeetingResult hold(const std::string& mine);

 private:
  struct Member {
    int rank;
    int size;  // number of ranks, as this member knows it
    FrameLink link;
    std::string who{};  // set when its card has come
    std::string card{};
    bool has_card = false;
    bool has_cards = false;  // all of them
  };

  Socket listen() const;
  void admit_guests();
  void serve();
  void read_from(Member& member);
  void handle(Member& member, const FrameBuffer::Frame& frame);
  void take_card(Member& member, std::span<const std::byte> payload);
  bool is_complete(bool Member::*step) const;
  void wait_for_all(bool Member::*step);
  void stop_listening();
  void send_to_all(MeetingMessage kind, const std::string& payload);
  void part();
  [[noreturn]] void fail(MeetingFailure kind, const std::string& text);
  [[noreturn]] void fail_late(bool Member::*step);
  std::string member_text(const Member& member) const;

  const MeetingPlan& plan_;
  std::list<Member> members_;
  Socket news_;  // an event: a guest has arrived
  std::mutex mutex_;
  std::vector<Acceptor::Guest> guests_;  // protected by mutex_
  std::string last_refusal_;
  // Null when nobody can join any more. Declared last, because its thread uses
  // the other members.
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace sheaf::comm

#include "sheaf/comm/network/meeting_host.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kRound = milliseconds(50);
// After the end, time for the members to read the last message.
constexpr auto kPartingTime = std::chrono::seconds(2);
constexpr std::size_t kMostMemberBytes = kMostCardBytes + 1024;

std::span<const std::byte> payload_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

MeetingHost::MeetingHost(const MeetingPlan& plan)
    : plan_(plan), news_(new_event()) {
  const Party me{.purpose = Purpose::kMeeting,
                 .identity = plan.identity,
                 .rank = 0,
                 .size = plan.size,
                 .encrypts = plan.encrypts};
  acceptor_ =
      std::make_unique<Acceptor>(listen(), me, [this](Acceptor::Guest guest) {
        const std::lock_guard lock(mutex_);
        guests_.push_back(std::move(guest));
        wake(news_);
      });
}

// The address may be that of a router that forwards to this host: then no
// interface has it, and all are listened on.
Socket MeetingHost::listen() const {
  std::uint16_t port = plan_.endpoints.front().port;
  const auto try_at = [&](const std::optional<Address>& address) {
    try {
      return listen_at(address, port);
    } catch (const CommError&) {
      SHEAF_CHECK(errno != EADDRINUSE, plan_.port_from, "=", port,
                  ": the port is in use by another program on this host, or by "
                  "another process with rank 0; set a free port in all "
                  "processes");
      if (!address || errno != EADDRNOTAVAIL) throw;
      return Socket();
    }
  };
  if (!plan_.listens_everywhere)
    for (const Endpoint& endpoint : plan_.endpoints)
      if (Socket socket = try_at(endpoint.address)) return socket;
  return try_at(std::nullopt);
}

MeetingResult MeetingHost::hold(const std::string& mine) {
  wait_for_all(&Member::has_card);
  AllCards all{
      .random = random_bytes(),
      .cards = std::vector<std::string>(static_cast<std::size_t>(plan_.size))};
  all.cards[0] = mine;
  for (const Member& member : members_)
    if (member.has_card)
      all.cards[static_cast<std::size_t>(member.rank)] = member.card;
  send_to_all(MeetingMessage::kCards, encode(all));
  wait_for_all(&Member::has_cards);
  stop_listening();
  send_to_all(MeetingMessage::kStart, "");
  part();
  return result_of(std::move(all), plan_.identity);
}

void MeetingHost::wait_for_all(bool Member::*step) {
  while (!is_complete(step)) {
    if (steady_clock::now() > plan_.deadline) fail_late(step);
    serve();
  }
}

bool MeetingHost::is_complete(bool Member::*step) const {
  return std::count_if(members_.begin(), members_.end(), [&](const auto& one) {
           return one.*step;
         }) == plan_.size - 1;
}

void MeetingHost::admit_guests() {
  clear(news_);
  const std::lock_guard lock(mutex_);
  for (Acceptor::Guest& guest : guests_)
    members_.push_back({guest.rank, guest.size,
                        FrameLink(std::move(guest.channel), kMostMemberBytes)});
  guests_.clear();
}

// Waits for messages, for one round at most, and handles them.
void MeetingHost::serve() {
  std::vector<pollfd> entries{{news_.fd(), POLLIN, 0}};
  for (const Member& member : members_)
    entries.push_back({member.link.fd(), POLLIN, 0});
  poll(entries.data(), entries.size(), static_cast<int>(kRound.count()));
  const auto now = steady_clock::now();
  auto entry = entries.begin() + 1;
  for (Member& member : members_) {
    if ((entry++)->revents) read_from(member);
    if (member.link.is_open() && !member.link.keep_alive(now))
      fail(MeetingFailure::kComm,
           concat("the host of ", member_text(member),
                  " does not respond any more: it has failed, or the network "
                  "to it is cut"));
  }
  std::erase_if(members_,
                [](const Member& one) { return !one.link.is_open(); });
  admit_guests();
}

void MeetingHost::read_from(Member& member) {
  if (member.link.read([&](const auto& frame) { handle(member, frame); }))
    return;
  member.link.close();
  // A process that has not sent its card may come again.
  if (member.has_card)
    fail(MeetingFailure::kComm,
         concat(member_text(member),
                " has died while the ranks were connecting; see its output"));
}

void MeetingHost::handle(Member& member, const FrameBuffer::Frame& frame) {
  const auto kind = static_cast<MeetingMessage>(frame.kind);
  if (kind == MeetingMessage::kCard && !member.has_card)
    take_card(member, frame.payload);
  else if (kind == MeetingMessage::kReceived)
    member.has_cards = member.has_card;
}

void MeetingHost::take_card(Member& member,
                            std::span<const std::byte> payload) {
  auto message = decode_card(payload);
  if (!message)
    fail(MeetingFailure::kComm,
         concat(member_text(member), " has sent ", payload.size(),
                " bytes that are not its card; all ranks must run the same "
                "version of Sheaf"));
  member.who = std::move(message->who);
  member.card = std::move(message->card);
  if (member.size != plan_.size)
    fail(MeetingFailure::kUsage,
         concat("world sizes differ: ", member_text(member), " has ",
                member.size, ", rank 0 (", this_process(), ") has ", plan_.size,
                "; set WORLD_SIZE or world_size to the same value in all "
                "processes"));
  const auto other =
      std::find_if(members_.begin(), members_.end(), [&](const Member& one) {
        return one.has_card && one.rank == member.rank;
      });
  if (member.rank == 0 || other != members_.end())
    fail(MeetingFailure::kUsage,
         concat("two processes claim to be rank ", member.rank, " at ",
                plan_.place, ": ", member.who, " and ",
                member.rank == 0 ? this_process() : other->who, "; set ",
                plan_.rank_from, " to a different number in each process"));
  member.has_card = true;
}

std::string MeetingHost::member_text(const Member& member) const {
  return concat("rank ", member.rank,
                member.who.empty() ? "" : concat(" (", member.who, ")"));
}

void MeetingHost::send_to_all(MeetingMessage kind, const std::string& payload) {
  for (Member& member : members_)
    if (member.link.is_open())
      member.link.send(static_cast<std::uint32_t>(kind), payload_of(payload));
}

// Members close their connections when they have read the last message. Those
// whose host is cut off never will.
void MeetingHost::part() {
  const auto until = steady_clock::now() + kPartingTime;
  while (!members_.empty() && steady_clock::now() < until) {
    std::vector<pollfd> entries;
    for (const Member& member : members_)
      entries.push_back({member.link.fd(), POLLIN, 0});
    poll(entries.data(), entries.size(), static_cast<int>(kRound.count()));
    for (Member& member : members_) {
      const bool is_cut_off = !member.link.keep_alive(steady_clock::now());
      if (!member.link.read([](const auto&) {}) || is_cut_off)
        member.link.close();
    }
    std::erase_if(members_,
                  [](const Member& one) { return !one.link.is_open(); });
  }
}

// Those that come too late for the last message find nobody at the address, and
// try again: they may belong to the next start.
void MeetingHost::stop_listening() {
  if (!acceptor_) return;
  last_refusal_ = acceptor_->last_refusal();
  acceptor_.reset();
}

void MeetingHost::fail(MeetingFailure kind, const std::string& text) {
  stop_listening();
  admit_guests();
  send_to_all(MeetingMessage::kFailure, encode_failure(kind, text));
  part();
  throw_failure(kind, text);
}

void MeetingHost::fail_late(bool Member::*step) {
  std::string present = "0";
  std::string missing;
  for (int rank = 1; rank < plan_.size; ++rank) {
    const bool has_come = std::any_of(
        members_.begin(), members_.end(),
        [&](const Member& one) { return one.rank == rank && one.*step; });
    std::string& list = has_come ? present : missing;
    list += concat(list.empty() ? "" : ", ", rank);
  }
  stop_listening();
  const std::string ranks =
      concat("rank 0: ranks ", missing, " of ", plan_.size);
  if (step == &Member::has_cards)
    fail(MeetingFailure::kTimeout,
         concat(ranks, " joined at ", plan_.place,
                ", but did not respond in time; they may be stopped: see their "
                "output, or raise the timeout"));
  fail(
      MeetingFailure::kTimeout,
      concat(ranks, " did not join at ", plan_.place,
             " in time; present: ", present,
             "; start the missing ranks with the same address and port, lower ",
             plan_.size_from, ", or raise the timeout",
             last_refusal_.empty() ? "" : concat(" (", last_refusal_, ")")));
}

}  // namespace sheaf::comm

#include "sheaf/comm/process/mailroom.hpp"

#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {
namespace {

constexpr Tag kLetterTag = make_tag(TagKind::kLetter, 0);
constexpr std::size_t kLargestContents = 8192;  // sent inside the letter
constexpr std::uint64_t kMostLetterElements = std::uint64_t{1} << 60;
// A peer that sends without pause must not keep a caller from its other work.
constexpr int kLettersAtOnce = 1000;
// Letters between mailrooms have one of these values instead of a group.
constexpr std::uint32_t kAskForLast = ~std::uint32_t{0};
constexpr std::uint32_t kLast = ~std::uint32_t{1};

bool is_note(std::uint32_t group) { return group >= kLast; }

Tag enclosure_tag(std::uint32_t number) {
  return static_cast<Tag>(TagKind::kEnclosure) << 25 |
         (number & ((1u << 25) - 1));
}

bool matches(const LetterHead& wanted, const LetterHead& head) {
  return wanted.group == head.group && wanted.tag == head.tag &&
         (wanted.source == kAnySender || wanted.source == head.source);
}

// Calls fn(offset, bytes) for each part; a part fits into one message.
template <class Fn>
void for_each_part(std::size_t bytes, Fn fn) {
  for (std::size_t at = 0; at < bytes; at += kLargestMessage)
    fn(at, std::min(kLargestMessage, bytes - at));
}

bool test_all(Transport& transport, std::vector<Request>& requests) {
  bool done = true;
  for (Request& request : requests) done = transport.test(request) && done;
  return done;
}

}  // namespace

Mailroom::FutureGroup::FutureGroup(Mailroom& mailroom) : mailroom_(mailroom) {
  const std::lock_guard lock(mailroom_.mutex_);
  at_ = mailroom_.future_.insert(mailroom_.next_serial_);
}

Mailroom::FutureGroup::~FutureGroup() {
  const std::lock_guard lock(mailroom_.mutex_);
  mailroom_.future_.erase(at_);
}

void Mailroom::open_group(std::uint32_t serial, std::vector<int> peers) {
  const std::lock_guard lock(mutex_);
  groups_.insert_or_assign(serial, std::move(peers));
  next_serial_ = std::max(next_serial_, serial + 1);
}

void Mailroom::close_group(std::uint32_t serial) {
  const std::lock_guard lock(mutex_);
  groups_.erase(serial);
  unclaimed_.remove_if([&](const Letter& letter) {
    if (letter.head.group != serial) return false;
    note_claimed(letter);
    discard(letter);
    return true;
  });
}

// Every group that this rank joins later has a higher serial number than all
// groups it has been in. The caller must hold the lock.
bool Mailroom::is_over(std::uint32_t serial) const {
  const std::uint32_t lowest =
      future_.empty() ? next_serial_ : *future_.begin();
  return serial < lowest && !groups_.contains(serial);
}

std::unique_ptr<Mailroom::Outgoing> Mailroom::send(int peer, LetterHead head,
                                                   const void* data) {
  const std::size_t bytes = head.count * size_of(head.dtype);
  const bool is_enclosed = bytes > kLargestContents;
  if (is_enclosed) {
    const std::lock_guard lock(mutex_);
    head.enclosure = next_enclosure_++;
  }
  auto out = std::make_unique<Outgoing>();
  out->token = token_;
  out->letter.resize(sizeof head + (is_enclosed ? 0 : bytes));
  std::memcpy(out->letter.data(), &head, sizeof head);
  if (!is_enclosed && bytes)
    std::memcpy(out->letter.data() + sizeof head, data, bytes);
  out->requests.push_back(transport_.send(peer, kLetterTag, out->letter.data(),
                                          out->letter.size()));
  if (is_enclosed)
    for_each_part(bytes, [&](std::size_t at, std::size_t part) {
      out->requests.push_back(
          transport_.send(peer, enclosure_tag(head.enclosure),
                          static_cast<const std::byte*>(data) + at, part));
    });
  return out;
}

bool Mailroom::test(Outgoing& outgoing) {
  progress();
  if (!test_all(transport_, outgoing.requests)) return false;
  outgoing.token.reset();
  return true;
}

void Mailroom::progress() {
  std::list<Orphan> ended;  // freed after the lock is released
  const std::lock_guard lock(mutex_);
  fetch();
  move_orphans(ended);
}

// Makes progress on orphaned messages. Their errors are not reported: any
// operation that waits for the same peer reports one.
void Mailroom::move_orphans(std::list<Orphan>& ended) {
  for (auto it = orphans_.begin(); it != orphans_.end();) {
    const auto orphan = it++;
    try {
      if (!test_all(transport_, orphan->requests)) continue;
    } catch (const TransportError&) {
      // Other parts of the message may still use the memory.
      if (!std::all_of(orphan->requests.begin(), orphan->requests.end(),
                       [](const Request& request) { return !request; }))
        continue;
    }
    ended.splice(ended.end(), orphans_, orphan);
  }
  wastes_.remove_if([&](Waste& waste) { return advance(waste); });
}

void Mailroom::adopt(std::unique_ptr<Outgoing> outgoing,
                     std::shared_ptr<void> memory) {
  Orphan orphan{std::move(outgoing->requests), nullptr,
                std::move(outgoing->token)};
  orphan.memory = std::make_shared<
      std::pair<std::unique_ptr<Outgoing>, std::shared_ptr<void>>>(
      std::move(outgoing), std::move(memory));
  const std::lock_guard lock(mutex_);
  orphans_.push_back(std::move(orphan));
}

std::shared_ptr<Receipt> Mailroom::receive(const LetterHead& wanted,
                                           void* data) {
  auto receipt = std::make_shared<Receipt>();
  receipt->wanted = wanted;
  receipt->data = data;
  receipt->token = token_;
  const std::lock_guard lock(mutex_);
  const auto letter =
      std::find_if(unclaimed_.begin(), unclaimed_.end(),
                   [&](const Letter& l) { return matches(wanted, l.head); });
  if (letter != unclaimed_.end()) {
    note_claimed(*letter);
    deliver(*letter, *receipt);
    unclaimed_.erase(letter);
  } else {
    waiting_.push_back(receipt);
  }
  return receipt;
}

bool Mailroom::test(Receipt& receipt) {
  const std::lock_guard lock(mutex_);
  if (!receipt.is_matched) fetch();
  if (!receipt.is_matched) {
    throw_if_lost(receipt);
    return false;
  }
  if (receipt.error.empty() && !test_all(transport_, receipt.enclosure))
    return false;
  receipt.token.reset();
  if (!receipt.error.empty()) throw MismatchError(receipt.error);
  return true;
}

void Mailroom::forget(const std::shared_ptr<Receipt>& receipt,
                      std::shared_ptr<void> memory) noexcept {
  const std::lock_guard lock(mutex_);
  waiting_.remove(receipt);
  if (memory && !receipt->enclosure.empty())
    orphans_.push_back({std::move(receipt->enclosure), std::move(memory),
                        std::move(receipt->token)});
  else
    for (Request& request : receipt->enclosure) transport_.abandon(request);
}

void Mailroom::discard(const Letter& letter) {
  const LetterHead& head = letter.head;
  if (head.enclosure == 0) return;
  Waste waste{letter.peer,
              enclosure_tag(head.enclosure),
              head.count * size_of(head.dtype),
              {},
              {},
              token_};
  if (!advance(waste)) wastes_.push_back(std::move(waste));
}

// Returns whether all of it has been received, or can no longer be.
bool Mailroom::advance(Waste& waste) {
  try {
    while (transport_.test(waste.request)) {
      if (waste.left == 0) return true;
      waste.part.resize(std::min(kLargestMessage, waste.left));
      waste.left -= waste.part.size();
      waste.request = transport_.receive(waste.peer, waste.tag,
                                         waste.part.data(), waste.part.size());
    }
    return false;
  } catch (const TransportError&) {
    return true;
  }
}

void Mailroom::stop_keeping() {
  const std::lock_guard lock(mutex_);
  keeps_letters_ = false;
  unclaimed_.clear();
  unclaimed_bytes_.clear();
}

void Mailroom::end() noexcept {
  const std::lock_guard lock(mutex_);
  for (Waste& waste : wastes_) transport_.abandon(waste.request);
  for (IncomingLetter& letter : incoming_) transport_.abandon(letter.request);
}

void Mailroom::free_orphans() noexcept {
  std::list<Orphan> ended;  // freed after the lock is released, as above
  const std::lock_guard lock(mutex_);
  ended.swap(orphans_);
}

std::size_t Mailroom::unclaimed_count() {
  const std::lock_guard lock(mutex_);
  fetch();
  return unclaimed_.size();
}

bool Mailroom::can_never_arrive(const Receipt& receipt, int peer) {
  const std::lock_guard lock(mutex_);
  fetch();
  if (receipt.is_matched) return false;
  if (asked_.insert(peer).second) send_note(peer, kAskForLast);
  return ended_.count(peer) > 0;
}

// For this and the following functions, the caller must hold the lock.
void Mailroom::send_note(int peer, std::uint32_t note) {
  const LetterHead head{.group = note,
                        .source = transport_.rank(),
                        .tag = 0,
                        .enclosure = 0,
                        .count = 0,
                        .dtype = DType::kU8};
  const auto letter = std::make_shared<std::vector<std::byte>>(sizeof head);
  std::memcpy(letter->data(), &head, sizeof head);
  std::vector<Request> requests;
  requests.push_back(
      transport_.send(peer, kLetterTag, letter->data(), letter->size()));
  orphans_.push_back({std::move(requests), letter, token_});
}

void Mailroom::take_note(const Letter& letter) {
  if (letter.head.group == kAskForLast)
    send_note(letter.peer, kLast);
  else
    ended_.insert(letter.peer);
}

// Throws TransportError if the bytes are not a letter.
Mailroom::Letter Mailroom::parse(int peer,
                                 std::span<const std::byte> bytes) const {
  Letter letter{{}, peer, {}};
  LetterHead& head = letter.head;
  bool is_valid = bytes.size() >= sizeof head;
  if (is_valid) {
    std::memcpy(&head, bytes.data(), sizeof head);
    is_valid = static_cast<int>(head.dtype) < kDTypeCount && head.source >= 0 &&
               head.source < transport_.size();
  }
  if (is_valid) {
    const std::size_t contents = bytes.size() - sizeof head;
    // Not head.count * size_of(), which may overflow.
    is_valid = head.count <= kMostLetterElements &&
               contents ==
                   (head.enclosure == 0 ? head.count * size_of(head.dtype) : 0);
  }
  if (!is_valid)
    throw TransportError(concat("rank ", peer, " has sent ", bytes.size(),
                                " bytes that are not a valid message header"));
  letter.contents.assign(bytes.begin() + sizeof head, bytes.end());
  return letter;
}

// Never waits: the contents of a letter may come long after its announcement,
// for example if the peer computes meanwhile. Such a letter is tested once per
// call, and delays only later letters of the same peer.
void Mailroom::fetch() {
  finish_incoming();
  for (int i = 0; i < kLettersAtOnce; ++i) {
    const auto arrived = transport_.probe(kLetterTag, held_peers());
    if (!arrived) return;
    IncomingLetter letter{arrived->peer, {}, {}};
    letter.bytes.resize(
        std::min(arrived->bytes, sizeof(LetterHead) + kLargestContents));
    letter.request = transport_.receive(
        letter.peer, kLetterTag, letter.bytes.data(), letter.bytes.size());
    if (transport_.test(letter.request))
      take(parse(letter.peer, letter.bytes));
    else
      incoming_.push_back(std::move(letter));
  }
}

void Mailroom::finish_incoming() {
  for (auto it = incoming_.begin(); it != incoming_.end();) {
    std::list<IncomingLetter> one;
    one.splice(one.begin(), incoming_, it++);
    IncomingLetter& letter = one.front();
    try {
      if (!transport_.test(letter.request)) {
        incoming_.splice(it, one);
        continue;
      }
    } catch (const TransportError& error) {
      lost_.emplace(letter.peer, error.what());
      continue;
    }
    take(parse(letter.peer, letter.bytes));
  }
}

// An operation with other peers need not fail.
void Mailroom::throw_if_lost(const Receipt& receipt) const {
  for (const auto& [peer, why] : lost_)
    if (may_match(receipt.wanted, peer)) throw TransportError(why);
}

// The peers whose next letter must not be fetched yet: those whose last letter
// is not complete, or was lost, because later ones must not overtake it, and
// those with more unclaimed letters than the limit. The rest of their letters
// stays in the transport, which has limits of its own and then makes the peer
// wait.
//
// While a receive waits that a letter of the peer may match, there is no limit,
// because any number of letters may have been sent before that one. A program
// whose sends do not wait for each other therefore never deadlocks, and a rank
// that does not receive from a peer keeps a bounded number of its letters.
std::span<const int> Mailroom::held_peers() {
  held_.clear();
  for (const IncomingLetter& letter : incoming_) held_.push_back(letter.peer);
  for (const auto& [peer, why] : lost_) held_.push_back(peer);
  for (const auto& [peer, bytes] : unclaimed_bytes_)
    if (bytes >= most_unclaimed_bytes_ && !is_awaited(peer))
      held_.push_back(peer);
  return held_;
}

bool Mailroom::is_awaited(int peer) const {
  return std::any_of(
      waiting_.begin(), waiting_.end(),
      [&](const auto& receipt) { return may_match(receipt->wanted, peer); });
}

bool Mailroom::may_match(const LetterHead& wanted, int peer) const {
  const auto group = groups_.find(wanted.group);
  if (group == groups_.end() || group->second.empty()) return true;
  const std::vector<int>& peers = group->second;
  if (wanted.source == kAnySender)
    return std::find(peers.begin(), peers.end(), peer) != peers.end();
  return peers.at(static_cast<std::size_t>(wanted.source)) == peer;
}

void Mailroom::take(Letter letter) {
  if (is_note(letter.head.group)) return take_note(letter);
  if (is_over(letter.head.group)) return discard(letter);
  const auto receipt = std::find_if(
      waiting_.begin(), waiting_.end(),
      [&](const auto& r) { return matches(r->wanted, letter.head); });
  if (receipt == waiting_.end()) return keep(std::move(letter));
  deliver(letter, **receipt);
  waiting_.erase(receipt);
}

void Mailroom::keep(Letter letter) {
  if (!keeps_letters_) return;
  unclaimed_bytes_[letter.peer] += kLetterCost + letter.contents.size();
  unclaimed_.push_back(std::move(letter));
}

void Mailroom::note_claimed(const Letter& letter) {
  const auto kept = unclaimed_bytes_.find(letter.peer);
  kept->second -= kLetterCost + letter.contents.size();
  if (kept->second == 0) unclaimed_bytes_.erase(kept);
}

void Mailroom::deliver(const Letter& letter, Receipt& receipt) {
  const LetterHead& head = letter.head;
  receipt.got = head;
  receipt.is_matched = true;
  if (head.count != receipt.wanted.count ||
      head.dtype != receipt.wanted.dtype) {
    receipt.error = concat(
        "rank ", head.source, " sent ", head.count, " elements of ",
        name_of(head.dtype), " with tag ", head.tag, ", but this recv is for ",
        receipt.wanted.count, " of ", name_of(receipt.wanted.dtype));
    return;
  }
  const std::size_t bytes = head.count * size_of(head.dtype);
  if (head.enclosure == 0) {
    if (bytes) std::memcpy(receipt.data, letter.contents.data(), bytes);
    return;
  }
  for_each_part(bytes, [&](std::size_t at, std::size_t part) {
    receipt.enclosure.push_back(
        transport_.receive(letter.peer, enclosure_tag(head.enclosure),
                           static_cast<std::byte*>(receipt.data) + at, part));
  });
}

}  // namespace sheaf::comm

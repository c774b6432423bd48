// Letters of two other ranks: one sends messages as a mailroom does, the other
// any bytes, while this rank receives, forgets, and opens and closes groups. A
// model of matching says what each receive must get.
// parser: sheaf/comm/process/mailroom.cpp
#include "sheaf/comm/process/mailroom.hpp"

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace {

using namespace sheaf::comm;
using sheaf::DType;
using sheaf::fuzz::ByteSource;
using Bytes = std::vector<std::byte>;

constexpr int kRanks = 3;
constexpr int kMe = 0;
constexpr int kHonest = 1;
constexpr int kAny = 2;  // sends any bytes
constexpr std::size_t kMostReceives = 40;
constexpr Tag kLetterTag = make_tag(TagKind::kLetter, 0);
// Larger contents are sent apart from the letter.
constexpr std::size_t kLargestInLetter = 8192;
// Instead of a group: the rank sends no more.
constexpr std::uint32_t kLast = ~std::uint32_t{1};
// The room allocates memory for contents that are announced. A rank of the job
// may announce much; here that would only exceed the limit of the fuzzer.
constexpr std::uint64_t kMostAnnounced = 1 << 16;

struct ModelLetter {
  LetterHead head{};
  int peer = 0;
  Bytes contents{};
  std::size_t bytes = 0;  // of the letter, if it is of kAny
};

struct Receive {
  std::shared_ptr<Receipt> receipt;
  std::shared_ptr<Bytes> data;
  std::optional<ModelLetter> got{};  // as the model says
};

bool matches(const LetterHead& wanted, const LetterHead& head) {
  return wanted.group == head.group && wanted.tag == head.tag &&
         (wanted.source == kAnySender || wanted.source == head.source);
}

class Trial {
 public:
  Trial() = default;
  ~Trial() {
    for (const Receive& one : receives_) room_.forget(one.receipt);
    while (fetch([&] { room_.progress(); })) {
    }
    room_.end();
    room_.free_orphans();
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void step(ByteSource& source) {
    const std::uint8_t choice = source.byte();
    switch (choice % 16) {
      case 0:
      case 1:
      case 2:
        send(head_from(source), choice & 16);
        break;
      case 3:
      case 4:
        send_any(source, choice / 16);
        break;
      case 5:
        send_contents(source);
        break;
      case 6:
      case 7:
      case 8:
        receive(head_from(source), choice / 16);
        break;
      case 9:
      case 10:
        if (!receives_.empty()) test(source.below(receives_.size()));
        break;
      case 11:
        if (!receives_.empty())
          forget(source.below(receives_.size()), choice & 16);
        break;
      case 12:
        if (choice < 208)
          set_group(source.byte(), choice & 16);
        else if (choice & 16)
          future_.emplace(room_);
        else
          future_.reset();
        break;
      case 13:
        may_still_arrive(source);
        break;
      case 14:
        fetch([&] { room_.progress(); });
        break;
      default:
        fetch([&] { count_unclaimed(); });
    }
  }

 private:
  static LetterHead head_from(ByteSource& source) {
    const std::uint8_t names = source.byte();
    LetterHead head{};
    head.group = names % 3;
    head.source = names / 4 % 2 ? kHonest : kMe;
    head.tag = names / 8 % 2;
    head.count = source.byte();
    if (head.count >= 128) head.count = (head.count - 127) * 100;
    head.dtype = names / 16 % 2 ? DType::kU8 : DType::kF64;
    return head;
  }

  // The honest rank sends; its mailroom chooses the number of the contents.
  void send(const LetterHead& head, bool is_abandoned) {
    ModelLetter letter{.head = head, .peer = kHonest};
    letter.contents.resize(head.count * size_of(head.dtype));
    for (std::size_t i = 0; i < letter.contents.size(); ++i)
      letter.contents[i] = static_cast<std::byte>(sent_ * 31 + i * 7 + i / 251);
    ++sent_;
    auto out = honest_.send(kMe, head, letter.contents.data());
    if (is_abandoned)
      honest_.adopt(std::move(out));
    else
      SHEAF_FUZZ_CHECK(honest_.test(*out));
    coming_[kHonest].push_back(std::move(letter));
  }

  // A letter with any head, or none.
  void send_any(ByteSource& source, std::uint8_t form) {
    LetterHead head = head_from(source);
    if (form % 4 == 1) head = source.value<LetterHead>();
    if (form % 4 == 2) head.group = ~source.byte() % 4u - 4;  // a note
    if (form >= 8) head.enclosure = source.byte() % 8;
    if (head.enclosure) head.count = std::min(head.count, kMostAnnounced);
    std::size_t bytes = 0;
    if (head.count < 10'000 && head.enclosure == 0)
      bytes = head.count * size_of_any(head.dtype);
    if (form % 4 == 3) bytes += source.byte() % 16;
    Bytes letter(sizeof head + std::min<std::size_t>(bytes, 100'000));
    std::memcpy(letter.data(), &head, sizeof head);
    if (source.byte() >= 240)
      letter.resize(std::min<std::size_t>(letter.size(), source.byte()));
    any_.send(kMe, kLetterTag, letter.data(), letter.size());
    const std::size_t size = letter.size();
    letter.erase(letter.begin(), letter.begin() + static_cast<long>(std::min(
                                                      size, sizeof head)));
    coming_[kAny].push_back({head, kAny, std::move(letter), size});
  }

  static std::size_t size_of_any(DType dtype) {
    return static_cast<int>(dtype) < sheaf::kDTypeCount ? size_of(dtype) : 1;
  }

  // Contents that a letter may have announced.
  void send_contents(ByteSource& source) {
    const Bytes contents(source.byte() * std::size_t{100});
    const Tag tag =
        static_cast<Tag>(TagKind::kEnclosure) << 25 | source.byte() % 8u;
    any_.send(kMe, tag, contents.data(), contents.size());
  }

  void receive(LetterHead wanted, std::uint8_t form) {
    if (receives_.size() == kMostReceives) return;
    if (form % 2) wanted.source = kAnySender;
    Receive one;
    one.data = std::make_shared<Bytes>(wanted.count * size_of(wanted.dtype));
    const auto found = std::find_if(
        unclaimed_.begin(), unclaimed_.end(),
        [&](const ModelLetter& l) { return matches(wanted, l.head); });
    if (found != unclaimed_.end()) {
      one.got = *found;
      unclaimed_.erase(found);
    }
    one.receipt = room_.receive(wanted, one.data->data());
    receives_.push_back(std::move(one));
  }

  void test(std::size_t i) {
    bool is_done = false;
    bool has_failed = false;
    const auto receipt = receives_[i].receipt;
    const auto act = [&] {
      try {
        is_done = room_.test(*receipt);
      } catch (const sheaf::MismatchError&) {
        has_failed = true;
      }
    };
    const bool has_thrown = receives_[i].got ? call(act) : fetch(act);
    // A letter was invalid, or the contents have another size than announced.
    if (has_thrown && receives_[i].got) forget(i, /*keeps_memory=*/false);
    if (has_thrown) return;
    check(receives_[i], is_done, has_failed);
    if (is_done || has_failed) drop(i);
  }

  static void check(const Receive& one, bool is_done, bool has_failed) {
    SHEAF_FUZZ_CHECK(one.got || (!is_done && !has_failed));
    if (!one.got) return;
    const LetterHead& head = one.got->head;
    const LetterHead& wanted = one.receipt->wanted;
    const bool fits = head.count == wanted.count && head.dtype == wanted.dtype;
    SHEAF_FUZZ_CHECK(has_failed == !fits);
    SHEAF_FUZZ_CHECK(one.receipt->got.source == head.source);
    if (!fits || (one.got->peer == kAny && head.enclosure)) return;
    SHEAF_FUZZ_CHECK(is_done && *one.data == one.got->contents);
  }

  // Contents that may never come are not waited for.
  void forget(std::size_t i, bool keeps_memory) {
    const auto& got = receives_[i].got;
    keeps_memory = keeps_memory && (!got || got->peer == kHonest);
    room_.forget(receives_[i].receipt,
                 keeps_memory ? receives_[i].data : nullptr);
    drop(i);
  }
  void drop(std::size_t i) {
    receives_.erase(receives_.begin() + static_cast<long>(i));
  }

  void set_group(std::uint8_t group, bool is_open) {
    group %= 3;
    if (is_open) {
      room_.open_group(group);
      open_.insert(group);
      next_ = std::max(next_, group + 1u);
    } else {
      call([&] { room_.close_group(group); });
      open_.erase(group);
      std::erase_if(unclaimed_, [&](const ModelLetter& letter) {
        return letter.head.group == group;
      });
    }
  }

  void may_still_arrive(ByteSource& source) {
    if (receives_.empty()) return;
    Receive& one = receives_[source.below(receives_.size())];
    const int peer = 1 + source.byte() % 2;
    bool is_over = false;
    if (fetch([&] { is_over = room_.can_never_arrive(*one.receipt, peer); }))
      return;
    SHEAF_FUZZ_CHECK(is_over == (!one.got && ended_.contains(peer)));
    if (one.got || !asked_.insert(peer).second || peer == kAny) return;
    honest_.progress();  // it answers
    LetterHead last{};
    last.group = kLast;
    coming_[kHonest].push_back({.head = last, .peer = kHonest});
  }

  void count_unclaimed() {
    SHEAF_FUZZ_CHECK(room_.unclaimed_count() == predicted_.size());
  }

  // Calls fn(), which receives all letters that have come. Returns whether it
  // threw.
  template <class Fn>
  bool fetch(const Fn& fn) {
    const bool is_valid = take_letters();
    predicted_ = unclaimed_;
    const bool has_thrown = call(fn);
    // The message of a letter may have another size than its letter says.
    SHEAF_FUZZ_CHECK(is_valid || has_thrown);
    return has_thrown;
  }

  template <class Fn>
  static bool call(const Fn& fn) {
    try {
      fn();
      return false;
    } catch (const sheaf::TransportError&) {
      return true;
    }
  }

  // The letters of the lower rank come first. An invalid one is an error, after
  // which the others remain.
  bool take_letters() {
    for (const int peer : {kHonest, kAny})
      for (auto& letters = coming_[peer]; !letters.empty();) {
        const ModelLetter letter = std::move(letters.front());
        letters.erase(letters.begin());
        if (!is_valid(letter)) return false;
        take(letter);
      }
    return true;
  }

  static bool is_valid(const ModelLetter& letter) {
    if (letter.peer == kHonest) return true;
    const LetterHead& head = letter.head;
    if (letter.bytes < sizeof head ||
        letter.bytes > sizeof head + kLargestInLetter)
      return false;
    if (static_cast<int>(head.dtype) >= sheaf::kDTypeCount || head.source < 0 ||
        head.source >= kRanks)
      return false;
    return head.count <= std::uint64_t{1} << 60 &&
           letter.contents.size() ==
               (head.enclosure ? 0 : head.count * size_of(head.dtype));
  }

  void take(const ModelLetter& letter) {
    if (letter.head.group > kLast) return;  // a question
    if (letter.head.group == kLast) {
      ended_.insert(letter.peer);
      return;
    }
    const std::uint32_t lowest = future_ ? future_->serial() : next_;
    if (letter.head.group < lowest && !open_.contains(letter.head.group))
      return;
    for (Receive& one : receives_)
      if (!one.got && matches(one.receipt->wanted, letter.head)) {
        one.got = letter;
        return;
      }
    unclaimed_.push_back(letter);
  }

  std::vector<std::unique_ptr<Transport>> transports_ =
      make_thread_transports(kRanks);
  Mailroom room_{*transports_[kMe]};
  Mailroom honest_{*transports_[kHonest]};
  Transport& any_ = *transports_[kAny];
  std::optional<Mailroom::FutureGroup> future_;
  std::vector<Receive> receives_;  // in the order in which they were posted
  std::size_t sent_ = 0;
  // The model.
  std::map<int, std::vector<ModelLetter>> coming_;
  std::vector<ModelLetter> unclaimed_;
  std::vector<ModelLetter> predicted_;
  std::set<std::uint32_t> open_;
  std::uint32_t next_ = 0;
  std::set<int> asked_;
  std::set<int> ended_;
};

}  // namespace

SHEAF_FUZZ_TARGET(mailroom) {
  ByteSource source(input);
  Trial trial;
  for (int steps = 0; steps < 150 && !source.is_empty(); ++steps)
    trial.step(source);
}

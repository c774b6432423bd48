#include "sheaf/tensor/start/rendezvous.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/comm/network/seal.hpp"

namespace sheaf::tensor {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::seconds(2);

// A process's start time in ticks since boot, since process ids are reused.
std::string start_of(pid_t pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "?";
  std::istringstream in(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) in >> field;
  return field;
}

// The entry that a rank publishes: its identity, then its string.
struct Card {
  int world_size = 0;
  std::string host;
  std::string boot;
  std::string space;  // in which the process id is valid
  pid_t pid = 0;
  std::string start;
  std::string text;

  static Card mine(int world_size, const std::string& text) {
    return {world_size, host_name(),        boot_id(), process_namespace(),
            getpid(),   start_of(getpid()), text};
  }
  static Card parse(const std::string& text) {
    Card card;
    std::istringstream in(text);
    in >> card.world_size >> card.host >> card.boot >> card.space >> card.pid >>
        card.start;
    in.get();
    card.text.assign(std::istreambuf_iterator<char>(in), {});
    return card;
  }
  std::string str() const {
    return concat(world_size, " ", host, " ", boot, " ", space, " ", pid, " ",
                  start, "\n", text);
  }
  // Whether the process was started on this host, where its id means the same.
  bool is_here() const {
    return host == host_name() && space == process_namespace();
  }
  // Known only for processes of this host; false for all others.
  bool is_surely_dead() const {
    return is_here() && (boot != boot_id() || start_of(pid) != start);
  }
  std::string who() const { return concat("process ", pid, " on ", host); }
};

class Meeting {
 public:
  Meeting(KeyStore& store, const MeetingPlace& place, Deadline deadline)
      : store_(store),
        place_(place),
        deadline_(deadline),
        seal_(identity_of(place)) {}

  comm::MeetingResult hold(const std::string& mine) {
    try {
      return exchange(mine);
    } catch (...) {
      linger();
      throw;
    }
  }

 private:
  comm::MeetingResult exchange(const std::string& mine) {
    const int rank = place_.rank;
    store_.add(key("came"), 1);
    claim(rank);
    agree_on_session();
    set(key("card", rank), Card::mine(place_.world_size, mine).str());
    wait_for_all("card");
    comm::MeetingResult result{.cards = {}, .session = seal_.session_key()};
    for (int other = 0; other < place_.world_size; ++other)
      result.cards.push_back(read(other).text);
    set(key("done", rank), "");
    // All ranks have read before rank 0 goes on, which may remove the store.
    if (rank == 0) wait_for_all("done");
    return result;
  }

  // Values of earlier sessions are recognized by their session, a random number
  // of rank 0.
  void agree_on_session() {
    const std::string name = key("session");
    if (place_.rank == 0) {
      const comm::Bytes32 session = comm::random_bytes();
      set(name, std::string(session.begin(), session.end()));
      seal_.set_session(session);
      return;
    }
    wait_until([&] { return store_.has(name); }, "session");
    read_session();
  }

  void read_session() {
    if (!store_.has(key("session"))) return;
    seal_.set_session({});
    const std::string text = get(key("session"));
    comm::Bytes32 session{};
    if (text.size() == session.size())
      std::copy(text.begin(), text.end(), session.begin());
    seal_.set_session(session);
  }

  void set(const std::string& name, const std::string& value) {
    store_.set(name, seal_.close(name, value));
  }
  std::string get(const std::string& name) {
    const auto value = seal_.open(name, store_.get(name));
    if (!value) throw CommError(foreign_value(name));
    return *value;
  }
  std::string foreign_value(const std::string& name) const {
    const std::string text = concat(
        "rank ", place_.rank, ": the value ", name, " in the store at ",
        text_of(place_),
        " was not written by a rank of this start: ranks have different "
        "secrets or jobs (SHEAF_SECRET, SHEAF_JOB), or another program uses "
        "the store");
    return place_.path.empty()
               ? text
               : concat(text, "; if an earlier run left the file, ",
                        remove_hint());
  }

  // After an error, rank 0 keeps the store open for up to kPatience, so that
  // the other ranks can read the error.
  void linger() noexcept try {
    if (!place_.path.empty()) return;  // a file needs no server
    store_.add(key("told"), 1);
    if (place_.rank != 0) return;
    for (const auto until = steady_clock::now() + kPatience;
         store_.add(key("told"), 0) < store_.add(key("came"), 0) &&
         steady_clock::now() < until;)
      std::this_thread::sleep_for(milliseconds(5));
  } catch (const std::exception&) {  // best effort
  }

  std::string key(const char* kind) const {
    return concat("sheaf/", place_.prefix, "/", kind);
  }
  std::string key(const char* kind, int rank) const {
    return concat(key(kind), "/", rank);
  }

  template <class E>
  [[noreturn]] void fail_all(const std::string& text) {
    seal_.set_session({});  // known to ranks that have not read the session
    set(key("error"), text);
    throw E(text);
  }

  std::string remove_hint() const {
    return concat("remove it (rm ", place_.path, ") and start again");
  }

  void claim(int rank) {
    if (store_.add(key("claim", rank), 1) == 1) return;
    for (const auto until = steady_clock::now() + kPatience;
         !store_.has(key("card", rank)) && steady_clock::now() < until;)
      std::this_thread::sleep_for(milliseconds(5));
    const bool is_known = store_.has(key("card", rank));
    if (is_known) read_session();
    const Card other = is_known ? Card::parse(get(key("card", rank))) : Card{};
    if (is_known && other.is_surely_dead()) fail_leftover(rank, other);
    std::string text =
        concat("two processes claim to be rank ", rank, " at ", text_of(place_),
               ": process ", getpid(), " on ", host_name(),
               is_known ? " and " + other.who() : "", "; set ",
               place_.rank_from, " to a different number in each process");
    if (!place_.path.empty())
      text += concat(", or, if an earlier run left the file, ", remove_hint());
    fail_all<UsageError>(text);
  }

  [[noreturn]] void fail_leftover(int rank, const Card& other) {
    if (place_.path.empty())
      fail_all<UsageError>(
          concat("rank ", rank, " was already registered at ", text_of(place_),
                 " by ", other.who(),
                 ", which has exited; start a new torchrun for each "
                 "program, or give each program a different group_name"));
    fail_all<UsageError>(
        concat(place_.path, " was left by an earlier run: its rank ", rank,
               " was ", other.who(), ", which has exited; ", remove_hint()));
  }

  Card read(int rank) {
    Card card = Card::parse(get(key("card", rank)));
    if (!place_.path.empty() && card.is_surely_dead())
      fail_leftover(rank, card);
    if (card.is_here()) seen_.insert_or_assign(rank, card);
    return card;
  }

  bool has_come(const char* kind, int rank) {
    return store_.has(key(kind, rank));
  }

  void wait_for_all(const char* kind) {
    for (int rank = 0; rank < place_.world_size; ++rank) {
      wait_until([&] { return has_come(kind, rank); }, kind);
      check_size(rank);
    }
  }

  template <class Condition>
  void wait_until(const Condition& is_met, const char* kind) {
    for (milliseconds nap(1); !is_met();
         nap = std::min(2 * nap, milliseconds(50))) {
      check_others();
      if (steady_clock::now() > deadline_) fail_late(kind);
      std::this_thread::sleep_for(nap);
    }
  }

  void check_size(int rank) {
    if (rank == place_.rank) return;
    const Card card = read(rank);
    if (card.world_size == place_.world_size) return;
    fail_all<UsageError>(
        concat("world sizes differ: rank ", rank, " (", card.who(), ") has ",
               card.world_size, ", rank ", place_.rank, " (process ", getpid(),
               " on ", host_name(), ") has ", place_.world_size,
               "; set WORLD_SIZE or world_size to the same value in all "
               "processes"));
  }

  // Fails if another rank has published an error, or if rank 0's world size
  // differs.
  void check_others() {
    if (store_.has(key("error"))) {
      std::string text = open_error();
      if (!place_.path.empty())
        text +=
            concat(" (if this is an earlier run's error, ", remove_hint(), ")");
      throw CommError(concat("another rank failed to start: ", text));
    }
    if (place_.rank != 0 && has_come("card", 0)) {
      if (seal_.session() == comm::Bytes32{}) read_session();
      check_size(0);
    }
    check_lives();
  }

  std::string open_error() {
    comm::Seal seal(identity_of(place_));
    const std::string name = key("error");
    const auto text = seal.open(name, store_.get(name));
    if (!text) throw CommError(foreign_value(name));
    return *text;
  }

  // Ranks that have come and that this process can watch.
  void check_lives() {
    for (const auto& [rank, card] : seen_)
      if (card.is_surely_dead())
        fail_all<CommError>(concat("rank ", rank, " (", card.who(),
                                   ") has died while the ranks were "
                                   "connecting; see its output"));
  }

  [[noreturn]] void fail_late(const char* kind) {
    std::string came;
    std::string missing;
    const bool is_session = kind == std::string_view("session");
    for (int rank = 0; rank < place_.world_size; ++rank) {
      auto& list =
          has_come(is_session ? "card" : kind, rank) || rank == place_.rank
              ? came
              : missing;
      list += concat(list.empty() ? "" : ", ", rank);
    }
    const std::string text = concat(
        "rank ", place_.rank, ": ranks ", missing, " of ", place_.world_size,
        " did not join at ", text_of(place_), " in time; present: ", came,
        "; start the missing ranks with the same ",
        place_.path.empty() ? "address and port" : "path", ", lower ",
        place_.world_size_from, ", or raise the timeout");
    if (place_.rank != 0) throw TimeoutError(text);
    if (place_.path.empty()) fail_all<TimeoutError>(text);
    unlink(place_.path.c_str());  // so that the next attempt starts clean
    throw TimeoutError(text);
  }

  KeyStore& store_;
  const MeetingPlace& place_;
  const Deadline deadline_;
  comm::Seal seal_;
  std::map<int, Card> seen_;  // cards of ranks of this host, by rank
};

}  // namespace

comm::MeetingResult meet(KeyStore& store, const MeetingPlace& place,
                         Deadline deadline, const std::string& mine) {
  return Meeting(store, place, deadline).hold(mine);
}

}  // namespace sheaf::tensor

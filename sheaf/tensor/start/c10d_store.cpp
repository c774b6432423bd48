// KeyStore on top of libtorch's c10d stores, with actionable error messages.
// Only this file includes c10d.

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/tcp_socket.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

using comm::Socket;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

milliseconds left_until(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return std::max(left, milliseconds(1));
}

// The message without libtorch's call stack.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

class C10dStore final : public KeyStore {
 public:
  C10dStore(StorePointer store, std::string place)
      : store_(std::move(store)), place_(std::move(place)) {}

  void set(const std::string& key, const std::string& value) override {
    attempt([&] {
      store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
    });
  }
  std::string get(const std::string& key) override {
    std::vector<std::uint8_t> value;
    attempt([&] { value = store_->get(key); });
    return {value.begin(), value.end()};
  }
  bool has(const std::string& key) override {
    bool result = false;
    attempt([&] { result = store_->check({key}); });
    return result;
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    std::int64_t result = 0;
    attempt([&] { result = store_->add(key, value); });
    return result;
  }

 private:
  template <class Fn>
  void attempt(const Fn& fn) {
    try {
      fn();
    } catch (const std::exception& error) {
      throw CommError(concat("the store at ", place_,
                             " failed: ", first_line(error),
                             "; its server process, rank 0 or torchrun, may "
                             "have exited: check its output"));
    }
  }

  StorePointer store_;
  std::string place_;
};

struct Names {
  explicit Names(const MeetingPlace& place) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    const int code = getaddrinfo(
        place.host.c_str(), std::to_string(place.port).c_str(), &wanted, &list);
    SHEAF_CHECK(code == 0, place.host_from, "='", place.host,
                "' is not a known host (", gai_strerror(code), "); ",
                place.host_hint, " to the name or address of rank 0's host");
  }
  ~Names() { freeaddrinfo(list); }
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;
  addrinfo* list = nullptr;
};

// Fails at once; libtorch would retry repeatedly, with a warning each time.
void check_port_is_free(const MeetingPlace& place) {
  const Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Socket old(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(place.port);
  sockaddr_in old_name{};
  old_name.sin_family = AF_INET;
  old_name.sin_port = htons(place.port);
  const auto is_taken = [&](const Socket& s, const void* at, socklen_t bytes) {
    setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    return bind(s.fd(), static_cast<const sockaddr*>(at), bytes) != 0 &&
           errno == EADDRINUSE;
  };
  bool taken = is_taken(old, &old_name, sizeof old_name);
  if (!taken) {
    setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    taken = is_taken(socket, &name, sizeof name);
  }
  SHEAF_CHECK(!taken, place.port_from, "=", place.port,
              ": the port is in use by another program on this host, or by "
              "another process with rank 0; set a free port in all processes");
}

bool answers(const Names& names) {
  for (const addrinfo* it = names.list; it; it = it->ai_next) {
    const Socket socket(
        ::socket(it->ai_family, it->ai_socktype | SOCK_CLOEXEC, 0));
    if (socket && connect(socket.fd(), it->ai_addr, it->ai_addrlen) == 0)
      return true;
  }
  return false;
}

void wait_for_server(const MeetingPlace& place, const Names& names,
                     Deadline deadline) {
  while (!answers(names)) {
    if (steady_clock::now() > deadline)
      throw TimeoutError(
          concat("rank ", place.rank, ": nothing answers at ", text_of(place),
                 " (", place.host_from, ", ", place.port_from, "); ",
                 place.has_server ? "torchrun's agent" : "rank 0",
                 " must run on that host, and this host must be able to reach "
                 "the port"));
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Another program may listen on the port and never respond. libtorch's client
// would wait forever, so it runs on a thread that is detached at the deadline.
void make_contact(const StorePointer& store, const MeetingPlace& place,
                  Deadline deadline) {
  auto task = std::make_shared<std::packaged_task<void()>>(
      [store] { store->check({"sheaf/contact"}); });
  auto result = task->get_future();
  std::thread thread([task] { (*task)(); });
  const bool is_there =
      result.wait_until(deadline) == std::future_status::ready;
  if (is_there) {
    thread.join();
    try {
      return result.get();
    } catch (const std::exception&) {
    }
  } else {
    thread.detach();
  }
  throw CommError(concat("rank ", place.rank, ": the server at ",
                         text_of(place), " (", place.port_from,
                         ") is not rank 0 of this program; another program may "
                         "use the port: set another port in all processes"));
}

StorePointer open_tcp(const MeetingPlace& place, Deadline deadline) {
  const Names names(place);
  const bool serves = place.rank == 0 && !place.has_server;
  if (serves)
    check_port_is_free(place);
  else
    wait_for_server(place, names, deadline);
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = serves;
  options.waitWorkers = false;
  // libtorch rounds this timeout to whole seconds.
  options.timeout = left_until(deadline) + std::chrono::seconds(2);
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.host, options);
  } catch (const std::exception& error) {
    throw CommError(concat("rank ", place.rank, " cannot ",
                           serves ? "serve" : "reach", " the store at ",
                           text_of(place), " (", place.host_from, ", ",
                           place.port_from, "): ", first_line(error)));
  }
}

StorePointer open_file(const MeetingPlace& place) {
  const auto folder = std::filesystem::path(place.path).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw IoError(concat("cannot write to ", folder.string(),
                         " for the rendezvous file ", place.path, ": ",
                         strerror(errno),
                         "; choose a folder that all ranks can write to"));
  return c10::make_intrusive<c10d::FileStore>(place.path, place.world_size);
}

}  // namespace

std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline) {
  StorePointer store =
      place.path.empty() ? open_tcp(place, deadline) : open_file(place);
  store->setTimeout(left_until(deadline));
  if (place.path.empty()) make_contact(store, place, deadline);
  return std::make_unique<C10dStore>(std::move(store), text_of(place));
}

}  // namespace sheaf::tensor

// KeyStore on top of libtorch's c10d stores, with actionable error messages.
// Only this file includes c10d.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

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
                             "; its server, torchrun's agent, may have "
                             "exited: check its output"));
    }
  }

  StorePointer store_;
  std::string place_;
};

bool answers(const std::vector<comm::Endpoint>& endpoints, Deadline deadline) {
  int error = 0;
  for (const comm::Endpoint& endpoint : endpoints)
    if (comm::connect_within(endpoint, deadline, error)) return true;
  return false;
}

void wait_for_server(const MeetingPlace& place, Deadline deadline) {
  const auto endpoints = endpoints_of(place);
  while (!answers(endpoints, deadline)) {
    if (steady_clock::now() > deadline)
      throw TimeoutError(
          concat("rank ", place.rank, ": nothing answers at ", text_of(place),
                 " (", place.host_from, ", ", place.port_from,
                 "); torchrun's agent must run on that host, and this host "
                 "must be able to reach the port"));
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
                         ") is not torchrun's agent; another program may use "
                         "the port: set another port in all processes"));
}

StorePointer open_agent(const MeetingPlace& place, Deadline deadline) {
  wait_for_server(place, deadline);
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = false;
  options.waitWorkers = false;
  // libtorch rounds this timeout to whole seconds.
  options.timeout = left_until(deadline) + std::chrono::seconds(2);
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.host, options);
  } catch (const std::exception& error) {
    throw CommError(concat("rank ", place.rank, " cannot reach the store at ",
                           text_of(place), " (", place.host_from, ", ",
                           place.port_from, "): ", first_line(error)));
  }
}

// Without a secret, the key of the connections derives from what the ranks
// write to the file, so nobody else may access it. In a folder that others can
// write to, a link might lead to any file of this user.
void make_private_file(const MeetingPlace& place) {
  const int fd = ::open(place.path.c_str(),
                        O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  struct stat status {};
  const bool is_open = fd >= 0 && ::fstat(fd, &status) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!is_open)
    throw IoError(concat("cannot open the rendezvous file ", place.path, ": ",
                         strerror(error),
                         "; choose a folder that all ranks can write to"));
  SHEAF_CHECK(identity_of(place).has_secret ||
                  (status.st_uid == ::geteuid() && (status.st_mode & 077) == 0),
              "the rendezvous file ", place.path,
              " exists and can be accessed by other users; remove it, or set "
              "SHEAF_SECRET to the same random text in all processes");
}

StorePointer open_file(const MeetingPlace& place) {
  const auto folder = std::filesystem::path(place.path).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw IoError(concat("cannot write to ", folder.string(),
                         " for the rendezvous file ", place.path, ": ",
                         strerror(errno),
                         "; choose a folder that all ranks can write to"));
  make_private_file(place);
  return c10::make_intrusive<c10d::FileStore>(place.path, place.world_size);
}

}  // namespace

std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline) {
  StorePointer store =
      place.path.empty() ? open_agent(place, deadline) : open_file(place);
  store->setTimeout(left_until(deadline));
  if (place.path.empty()) make_contact(store, place, deadline);
  return std::make_unique<C10dStore>(std::move(store), text_of(place));
}

}  // namespace sheaf::tensor

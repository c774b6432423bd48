// KeyStore on top of libtorch's c10d stores, with actionable error messages.
// Only this file includes c10d.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/network/address.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using StorePointer = c10::intrusive_ptr<c10d::Store>;

constexpr auto kLastCall = std::chrono::seconds(2);
// For one address of a name that may have several.
constexpr auto kLongestAttempt = std::chrono::seconds(2);

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

// libtorch waits without a limit for a server that has stopped to respond, or
// for a damaged file. So its calls run on a thread of their own, which is
// abandoned at the deadline: the result is then not ready.
template <class Fn>
auto run_until(Deadline deadline, Fn fn) {
  using Task = std::packaged_task<std::invoke_result_t<Fn>()>;
  const auto task = std::make_shared<Task>(std::move(fn));
  auto result = task->get_future();
  std::thread thread([task] { (*task)(); });
  if (result.wait_until(deadline) == std::future_status::ready)
    thread.join();
  else
    thread.detach();
  return result;
}

template <class T>
bool is_ready(const std::future<T>& result) {
  return result.wait_for(milliseconds(0)) == std::future_status::ready;
}

class C10dStore final : public KeyStore {
 public:
  C10dStore(StorePointer store, std::string place, Deadline deadline)
      : store_(std::move(store)),
        place_(std::move(place)),
        deadline_(deadline) {}

  void set(const std::string& key, const std::string& value) override {
    attempt([=, store = store_] {
      store->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
    });
  }
  std::string get(const std::string& key) override {
    return attempt([=, store = store_] {
      const auto value = store->get(key);
      return std::string(value.begin(), value.end());
    });
  }
  bool has(const std::string& key) override {
    return attempt([=, store = store_] { return store->check({key}); });
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return attempt([=, store = store_] { return store->add(key, value); });
  }

 private:
  template <class Fn>
  std::invoke_result_t<Fn> attempt(const Fn& fn) {
    // After the deadline, errors are still passed on to the other ranks.
    const auto latest = std::max(deadline_, steady_clock::now() + kLastCall);
    auto result = run_until(latest, fn);
    if (!is_ready(result)) fail("it does not respond");
    try {
      return result.get();
    } catch (const std::exception& error) {
      fail(first_line(error));
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw CommError(concat("the store at ", place_, " failed: ", why,
                           "; its server, torchrun's agent, may have exited: "
                           "check its output"));
  }

  StorePointer store_;
  std::string place_;
  const Deadline deadline_;
};

bool answers(const std::vector<comm::Endpoint>& endpoints, Deadline deadline) {
  int error = 0;
  return std::ranges::any_of(endpoints, [&](const auto& endpoint) {
    const auto until =
        std::min(deadline, steady_clock::now() + kLongestAttempt);
    return static_cast<bool>(comm::connect_within(endpoint, until, error));
  });
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

// Another program may listen on the port and never respond.
void make_contact(const StorePointer& store, const MeetingPlace& place,
                  Deadline deadline) {
  auto result =
      run_until(deadline, [store] { store->check({"sheaf/contact"}); });
  if (is_ready(result)) try {
      return result.get();
    } catch (const std::exception&) {
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

// Whether the file is a sequence of keys and values, each preceded by its
// length, as libtorch writes it. It reads any other file without end.
bool holds_values(int fd, std::uint64_t size) {
  std::uint64_t at = 0;
  int texts = 0;
  for (; at < size; ++texts) {
    std::uint32_t length = 0;
    if (size - at < sizeof length ||
        ::pread(fd, &length, sizeof length, static_cast<off_t>(at)) !=
            static_cast<ssize_t>(sizeof length) ||
        length > size - at - sizeof length)
      return false;
    at += sizeof length + length;
  }
  return texts % 2 == 0;
}

// Throws TimeoutError if a rank keeps the file locked until the deadline.
void lock_shared(int fd, const MeetingPlace& place, Deadline deadline) {
  while (::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (steady_clock::now() > deadline)
      throw TimeoutError(concat("rank ", place.rank, ": another process keeps ",
                                "the rendezvous file ", place.path,
                                " locked; see whether it is stopped"));
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// Without a secret, the key of the connections derives from what the ranks
// write to the file, so nobody else may access it. In a folder that others can
// write to, a link might lead to any file of this user.
void make_private_file(const MeetingPlace& place, Deadline deadline) {
  const comm::Socket file(
      ::open(place.path.c_str(),
             O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  struct stat status {};
  if (!file || ::fstat(file.fd(), &status) != 0)
    throw IoError(concat("cannot open the rendezvous file ", place.path, ": ",
                         strerror(errno),
                         "; choose a folder that all ranks can write to"));
  SHEAF_CHECK(identity_of(place).has_secret ||
                  (status.st_uid == ::geteuid() && (status.st_mode & 077) == 0),
              "the rendezvous file ", place.path,
              " exists and can be accessed by other users; remove it, or set "
              "SHEAF_SECRET to the same random text in all processes");
  SHEAF_CHECK(S_ISREG(status.st_mode), place.path,
              " is not a regular file; name a file that does not exist yet");
  lock_shared(file.fd(), place, deadline);
  const bool is_known = ::fstat(file.fd(), &status) == 0;
  SHEAF_CHECK(is_known && holds_values(file.fd(), static_cast<std::uint64_t>(
                                                      status.st_size)),
              place.path,
              " exists and is no rendezvous file, or a rank was killed while "
              "it wrote to it; remove it, or name a file that does not exist "
              "yet");
}

// Other users could replace the file by one of theirs.
void check_folder(const std::filesystem::path& folder,
                  const MeetingPlace& place) {
  struct stat status {};
  const bool is_open = ::stat(folder.c_str(), &status) == 0 &&
                       (status.st_mode & S_IWOTH) != 0 &&
                       (status.st_mode & S_ISVTX) == 0;
  SHEAF_CHECK(!is_open || identity_of(place).has_secret, "the folder ",
              folder.string(), " of the rendezvous file ", place.path,
              " can be written to by all users; choose another, or set "
              "SHEAF_SECRET to the same random text in all processes");
}

StorePointer open_file(const MeetingPlace& place, Deadline deadline) {
  const auto folder = std::filesystem::path(place.path).parent_path();
  check_folder(folder, place);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw IoError(concat("cannot write to ", folder.string(),
                         " for the rendezvous file ", place.path, ": ",
                         strerror(errno),
                         "; choose a folder that all ranks can write to"));
  make_private_file(place, deadline);
  return c10::make_intrusive<c10d::FileStore>(place.path, place.world_size);
}

}  // namespace

std::unique_ptr<KeyStore> open_store(const MeetingPlace& place,
                                     Deadline deadline) {
  StorePointer store = place.path.empty() ? open_agent(place, deadline)
                                          : open_file(place, deadline);
  store->setTimeout(left_until(deadline));
  if (place.path.empty()) make_contact(store, place, deadline);
  return std::make_unique<C10dStore>(std::move(store), text_of(place),
                                     deadline);
}

}  // namespace sheaf::tensor

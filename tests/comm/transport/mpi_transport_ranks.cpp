// The transport over MPI on real ranks. Each test has one of its own, beside
// that of the world, which has started MPI. Tests on ranks also run with
// another MPI than they were compiled with, so they do not include mpi.h.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <numeric>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/comm/transport/breaker.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/world.hpp"

// MPI's profiling interface: a program may define any function of MPI and call
// the library's by its other name. The argument, MPI_Comm*, is a pointer in
// every MPI.
extern "C" int PMPI_Comm_free(void* comm);
static int freed_comms = 0;
extern "C" int MPI_Comm_free(void* comm) {
  ++freed_comms;
  return PMPI_Comm_free(comm);
}

namespace sheaf::comm {
namespace {

using Method = LibraryAllReduce::Method;
using MpiBytes = std::vector<unsigned char>;

MpiBytes mpi_pattern(std::size_t bytes, int seed) {
  MpiBytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    result[i] = static_cast<unsigned char>(i * 31 + i / 251 +
                                           static_cast<std::size_t>(seed));
  return result;
}

// Every rank sends to the next one, and the last rank to the first.
class MpiTransportRanks : public testing::Test {
 protected:
  void TearDown() override { mpi_->finalize(/*clean=*/true); }

  void wait(Request& request) {
    while (!mpi_->test(request)) {
    }
  }
  // Sends to the next rank and receives from the previous one.
  void shift(Tag tag, const MpiBytes& sent, MpiBytes& received) {
    Request receive =
        mpi_->receive(previous_, tag, received.data(), received.size());
    Request send = mpi_->send(next_, tag, sent.data(), sent.size());
    wait(receive);
    wait(send);
  }

  const std::unique_ptr<Transport> mpi_ = make_mpi_transport(nullptr, nullptr);
  const int rank_ = mpi_->rank();
  const int size_ = mpi_->size();
  const int next_ = (rank_ + 1) % size_;
  const int previous_ = (rank_ + size_ - 1) % size_;
};

TEST_F(MpiTransportRanks, KnowTheirPlaces) {
  EXPECT_EQ(rank_, test::world().rank());
  EXPECT_EQ(size_, test::world().size());
  EXPECT_EQ(mpi_->name(), "mpi");
  EXPECT_NE(mpi_->library_all_reduce(), nullptr);
  EXPECT_NE(mpi_->breakable(), nullptr);
}

// Around the size of a part: 60 KiB with Open MPI, 14 KiB with MPICH.
TEST_F(MpiTransportRanks, MessagesOfEverySizeArrive) {
  constexpr std::size_t kKiB = 1024;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, 14 * kKiB - 1, 14 * kKiB, 14 * kKiB + 1,
        60 * kKiB - 1, 60 * kKiB, 60 * kKiB + 1, 1000 * kKiB + 7}) {
    MpiBytes received(bytes);
    shift(5, mpi_pattern(bytes, rank_), received);
    EXPECT_TRUE(received == mpi_pattern(bytes, previous_)) << bytes;
  }
}

TEST_F(MpiTransportRanks, MessagesOfATagArriveInTheirOrder) {
  constexpr int kCount = 300;
  constexpr int kTags = 3;
  std::vector<int> sent(kCount);
  std::iota(sent.begin(), sent.end(), 1000 * rank_);
  std::vector<Request> sends;
  for (int i = 0; i < kCount; ++i)
    sends.push_back(mpi_->send(next_, static_cast<Tag>(i % kTags),
                               &sent[static_cast<std::size_t>(i)],
                               sizeof(int)));
  for (int tag = kTags - 1; tag >= 0; --tag)
    for (int i = tag; i < kCount; i += kTags) {
      int value = -1;
      Request request =
          mpi_->receive(previous_, static_cast<Tag>(tag), &value, sizeof value);
      wait(request);
      EXPECT_EQ(value, 1000 * previous_ + i);
    }
  for (Request& request : sends) wait(request);
}

TEST_F(MpiTransportRanks, AnotherSizeIsAnErrorThatNamesBoth) {
  const MpiBytes sent(3);
  MpiBytes received(5);
  Request receive =
      mpi_->receive(previous_, 1, received.data(), received.size());
  Request send = mpi_->send(next_, 1, sent.data(), sent.size());
  expect_throws<TransportError>(
      [&] { wait(receive); },
      {concat("a message of rank ", previous_, " has 3 bytes, expected 5")});
  EXPECT_FALSE(receive);
  wait(send);
  shift(1, mpi_pattern(5, rank_), received);  // still usable
  EXPECT_EQ(received, mpi_pattern(5, previous_));
}

TEST_F(MpiTransportRanks, ProbeReportsSenderAndSize) {
  const MpiBytes sent = mpi_pattern(7, rank_);
  Request send = mpi_->send(next_, 9, sent.data(), sent.size());
  std::optional<Transport::Arrived> arrived;
  while (!arrived) arrived = mpi_->probe(9);
  EXPECT_EQ(arrived->peer, previous_);
  ASSERT_EQ(arrived->bytes, 7u);
  EXPECT_FALSE(mpi_->probe(8));
  MpiBytes received(7);
  Request receive = mpi_->receive(arrived->peer, 9, received.data(), 7);
  wait(receive);
  wait(send);
  EXPECT_EQ(received, mpi_pattern(7, previous_));
  EXPECT_FALSE(mpi_->probe(9));
}

TEST_F(MpiTransportRanks, AnAbandonedReceiveTakesNoMessage) {
  MpiBytes unused(1, 77);
  Request request = mpi_->receive(previous_, 3, unused.data(), 1);
  mpi_->abandon(request);
  EXPECT_FALSE(request);
  EXPECT_TRUE(mpi_->test(request));
  mpi_->abandon(request);
  barrier(test::world()).wait();  // no rank sends before all have abandoned
  MpiBytes received(1);
  shift(3, mpi_pattern(1, rank_), received);
  EXPECT_EQ(received, mpi_pattern(1, previous_));
  EXPECT_EQ(unused[0], 77);
}

TEST_F(MpiTransportRanks, NoProgressIsNeededBeforeTheFirstSend) {
  EXPECT_FALSE(mpi_->progress());
}

// With fewer elements than ranks, some ranks reduce none of them.
TEST_F(MpiTransportRanks, TheLibraryReducesEveryType) {
  for (const auto method :
       {Method::kAllReduce, Method::kReduceScatterAllGather})
    for (int type = 0; type < kDTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op)
        for (const std::size_t count : {1, 5, 1000}) {
          const auto dtype = static_cast<DType>(type);
          const auto how = static_cast<ReduceOp>(op);
          // MPI has no average.
          if (how == ReduceOp::kAvg || !is_defined(how, dtype)) continue;
          auto data = test::exact_data(dtype, how, rank_, count);
          mpi_->library_all_reduce()->run(method, data.data(), count, dtype,
                                          how);
          EXPECT_TRUE(data == test::exact_result(dtype, how, size_, count))
              << name_of(dtype) << " " << name_of(how) << ", " << count
              << " elements";
        }
}

// As after the death of a rank; see process/rescue.hpp.
TEST_F(MpiTransportRanks, AfterAnInterruptedCallEveryCallFails) {
  auto breaker = test::breaker_of(*mpi_->breakable(), "rank 1 has died");
  mpi_->breakable()->run([] {
    for (;;) pause();
  });
  breaker.join();
  int value = 0;
  const auto fails = [](const auto& call, const std::string& name) {
    expect_throws<TransportError>(call,
                                  {name + " did not return: rank 1 has died"});
  };
  fails([&] { mpi_->send(next_, 1, &value, sizeof value); }, "MPI_Isend");
  fails([&] { mpi_->receive(previous_, 1, &value, sizeof value); },
        "MPI_Irecv");
  fails([&] { mpi_->probe(1); }, "MPI_Iprobe");
  for (const auto& [method, name] :
       {std::pair(Method::kAllReduce, "MPI_Allreduce"),
        std::pair(Method::kReduceScatterAllGather, "MPI_Reduce_scatter")})
    fails(
        [&, method = method] {
          mpi_->library_all_reduce()->run(method, &value, 1, DType::kI32,
                                          ReduceOp::kSum);
        },
        name);
}

TEST(MpiTransportEnd, AnOrderlyEndFreesItsOwnCommunicatorOnly) {
  const auto mpi = make_mpi_transport(nullptr, nullptr);
  const int before = freed_comms;
  mpi->finalize(/*clean=*/true);
  EXPECT_EQ(freed_comms, before + 1);
  barrier(test::world()).wait();  // MPI has not ended
}

// A peer that has died would never take part.
TEST(MpiTransportEnd, AfterAFailureNothingIsFreed) {
  const auto mpi = make_mpi_transport(nullptr, nullptr);
  const int before = freed_comms;
  mpi->finalize(/*clean=*/false);
  EXPECT_EQ(freed_comms, before);
}

// The action for SIGPIPE, restored at the end.
class PipeAction {
 public:
  PipeAction() { ::sigaction(SIGPIPE, nullptr, &before_); }
  ~PipeAction() { ::sigaction(SIGPIPE, &before_, nullptr); }
  PipeAction(const PipeAction&) = delete;
  PipeAction& operator=(const PipeAction&) = delete;

  // The handler of a program that starts with `handler`, once it has the
  // transport.
  static sighandler_t after_start(sighandler_t handler) {
    ::signal(SIGPIPE, handler);
    make_mpi_transport(nullptr, nullptr)->finalize(/*clean=*/true);
    struct sigaction now {};
    ::sigaction(SIGPIPE, nullptr, &now);
    return now.sa_handler;
  }

 private:
  struct sigaction before_ {};
};

void handle_broken_pipe(int /*signal*/) {}

TEST(MpiTransportStart, IgnoresBrokenPipesUnlessTheProgramHandlesThem) {
  const PipeAction action;
  EXPECT_EQ(action.after_start(SIG_DFL), SIG_IGN);
  EXPECT_EQ(action.after_start(handle_broken_pipe), handle_broken_pipe);
}

}  // namespace
}  // namespace sheaf::comm

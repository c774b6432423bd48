#include "sheaf/tensor/groups/collectives.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/process/mailroom.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/tcp_ranks.hpp"

namespace sheaf::tensor {
namespace {

using comm::ReduceOp;
using comm::run_threads;

const std::vector<std::string> kHosts{"a", "a", "b"};

// Tensors of various shapes and strides, the same on all ranks.
std::vector<at::Tensor> shapes(at::ScalarType type) {
  const auto options = at::TensorOptions(type);
  return {at::arange(6, options).view({2, 3}),
          at::arange(6, options).view({2, 3}).t(),
          at::arange(20, options).slice(0, 1, 19, 3),
          at::ones({}, options),
          at::empty({0, 4}, options),
          at::arange(2000, options).remainder(7).to(type),
          at::ones({3, 1}, options).expand({3, 4}).clone()};
}

TEST(TensorCollectives, AllReduceEveryShapeAndType) {
  for (const auto type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
        at::kShort, at::kChar, at::kByte})
    run_threads(kHosts, [=](const Group& group) {
      for (const bool async : {false, true})
        for (const at::Tensor& data : shapes(type)) {
          const at::Tensor before = data.clone();
          all_reduce(group, data, {.async = async}).wait();
          EXPECT_TRUE(data.equal((before * 3).to(type))) << data;
        }
    });
}

// The memory of such a tensor holds the negated values.
TEST(TensorCollectives, TensorsWithTheNegativeBit) {
  run_threads(2, [](const Group& group) {
    const at::Tensor one = at::full({3}, group.rank() + 1.0);
    const at::Tensor negative = group.rank() == 0 ? at::_neg_view(one) : -one;
    all_reduce(group, negative).wait();
    EXPECT_TRUE(negative.equal(at::full({3}, -3.0))) << negative;
  });
}

// Autograd rejects a backward pass that needs the overwritten values.
TEST(TensorCollectives, WritesAreSeenByAutograd) {
  run_threads(2, [](const Group& group) {
    const at::Tensor weight = at::ones({2}).requires_grad_();
    const at::Tensor factor = at::full({2}, group.rank() + 1.0);
    const at::Tensor product = weight * factor;
    all_reduce(group, factor).wait();
    EXPECT_THROW(product.sum().backward(), c10::Error);
  });
}

TEST(TensorCollectives, Reductions) {
  run_threads(3, [](const Group& group) {
    const auto value = [&](ReduceOp op) {
      const auto data = at::full({5}, group.rank() + 2.0);
      all_reduce(group, data, {.op = op}).wait();
      return data[4].item<double>();
    };
    EXPECT_EQ(value(ReduceOp::kSum), 9);
    EXPECT_EQ(value(ReduceOp::kAvg), 3);
    EXPECT_EQ(value(ReduceOp::kProduct), 24);
    EXPECT_EQ(value(ReduceOp::kMin), 2);
    EXPECT_EQ(value(ReduceOp::kMax), 4);
  });
}

TEST(TensorCollectives, BoolAndSeveralAtOnce) {
  run_threads(2, [](const Group& group) {
    const auto flags = at::zeros({3}, at::kBool);
    flags[group.rank()] = true;
    all_reduce(group, flags, {.op = ReduceOp::kMax}).wait();
    EXPECT_EQ(flags.sum().item<int>(), 2);
    const Tensors many{at::ones({2, 2}).t(), at::ones({3}), at::ones({})};
    all_reduce_n(group, many).wait();
    for (const auto& tensor : many)
      EXPECT_TRUE((tensor == 2).all().item<bool>());
  });
}

TEST(TensorCollectives, BroadcastReduceGatherScatter) {
  run_threads(kHosts, [](const Group& group) {
    const int rank = group.rank();
    const auto data = at::full({2, 3}, rank).t();
    broadcast(group, data, {.root = 2}).wait();
    EXPECT_TRUE((data == 2).all().item<bool>());
    const auto sum = at::full({4}, rank + 1);
    reduce(group, sum, {.root = 1}).wait();
    if (rank == 1) {
      EXPECT_TRUE((sum == 6).all().item<bool>());
    }
    Tensors parts;
    if (rank == 1) parts = {at::zeros({2}), at::zeros({2}), at::zeros({2})};
    gather(group, at::full({2}, static_cast<float>(rank)), parts, {.root = 1})
        .wait();
    if (rank == 1) {
      EXPECT_EQ(at::stack(parts).sum().item<float>(), 6);
    }
    const auto mine = at::zeros({2});
    scatter(group, parts, mine, {.root = 1}).wait();
    EXPECT_TRUE((mine == rank).all().item<bool>());
  });
}

TEST(TensorCollectives, AllGatherOfUnequalSizes) {
  run_threads(kHosts, [](const Group& group) {
    const Tensors outputs{at::zeros({1}), at::zeros({2, 2}), at::zeros({0})};
    const auto index = static_cast<std::size_t>(group.rank());
    all_gather(group, at::full_like(outputs[index], group.rank() + 1), outputs)
        .wait();
    EXPECT_EQ(outputs[0].sum().item<float>(), 1);
    EXPECT_EQ(outputs[1].sum().item<float>(), 8);
    const auto whole = at::zeros({3, 2});
    all_gather(group, at::full({2}, static_cast<float>(index)), whole).wait();
    EXPECT_TRUE(whole.select(1, 0).equal(at::arange(3).to(at::kFloat)));
  });
}

TEST(TensorCollectives, ReduceScatterAndAllToAll) {
  run_threads(kHosts, [](const Group& group) {
    const auto rank = group.rank();
    const Tensors inputs{at::full({2}, 1), at::full({2}, 2), at::full({2}, 3)};
    const auto output = at::zeros({2}, at::kLong);
    reduce_scatter(group, inputs, output).wait();
    EXPECT_EQ(output[0].item<int>(), 3 * (rank + 1));
    reduce_scatter(group, at::cat(inputs), output).wait();
    EXPECT_EQ(output[1].item<int>(), 3 * (rank + 1));
    const Tensors outputs{at::zeros({rank + 1}), at::zeros({rank + 1}),
                          at::zeros({rank + 1})};
    Tensors sent;
    for (int to = 0; to < 3; ++to)
      sent.push_back(at::full({to + 1}, static_cast<float>(10 * rank + to)));
    all_to_all(group, sent, outputs).wait();
    for (int from = 0; from < 3; ++from)
      EXPECT_EQ(outputs[static_cast<std::size_t>(from)][0].item<float>(),
                10 * from + rank);
  });
}

TEST(TensorCollectives, Messages) {
  run_threads(kHosts, [](const Group& group) {
    if (group.rank() == 0) {
      send(group, at::arange(6).view({2, 3}).t(), 1);
      isend(group, at::full({3}, 7.0), 2, {.tag = 5}).wait();
    } else if (group.rank() == 1) {
      const auto data = at::zeros({2, 3}, at::kLong).t();
      EXPECT_EQ(recv(group, data, comm::kAnySource), 0);
      EXPECT_EQ(data[2][1].item<int>(), 5);
    } else {
      const auto data = at::zeros({3, 2}).select(1, 0);
      auto work = irecv(group, data, 0, {.tag = 5});
      work.wait();
      EXPECT_EQ(work.source(), 0);
      EXPECT_EQ(data.sum().item<float>(), 21);
    }
  });
}

TEST(TensorCollectives, ShapesMustAgree) {
  const sheaf::test::ExpectFailures failures;
  run_threads(2, [](const Group& group) {
    const auto data = at::zeros({6}).view({group.rank() + 2, -1});
    try {
      all_reduce(group, data).wait();
      ADD_FAILURE() << "no error";
    } catch (const MismatchError& error) {
      EXPECT_NE(std::string(error.what())
                    .find(group.rank() == 0 ? "[2, 3]" : "[3, 2]"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(TensorCollectives, ShapesOfSeveralMustAgree) {
  const sheaf::test::ExpectFailures failures;
  run_threads(2, [](const Group& group) {
    const auto data = at::zeros({6}).view({group.rank() + 2, -1});
    EXPECT_THROW(all_reduce_n(group, {at::zeros({2}), data}).wait(),
                 MismatchError);
  });
}

TEST(TensorCollectives, AnActionDoesNotReplaceTheOperationsOwn) {
  run_threads(kHosts, [](const Group& group) {
    const auto data = at::full({300, 200}, group.rank() + 1.0).t();
    Work work = all_reduce(group, data, {.async = true});
    int runs = 0;
    work.then([&] {
      EXPECT_TRUE((data == 6).all().item<bool>());
      ++runs;
    });
    work.then([&] { ++runs; });
    work.wait();
    work.wait();
    EXPECT_EQ(runs, 2);
    EXPECT_TRUE((data == 6).all().item<bool>());
  });
}

// A later operation completes after it, even if the result is copied back.
TEST(TensorCollectives, ADroppedWorkStillWritesItsResult) {
  run_threads(kHosts, [](const Group& group) {
    for (int i = 0; i < 20; ++i) {
      auto data = at::full({30, 200}, group.rank() + 1.0).t();
      std::ignore = all_reduce(group, data, {.async = true});
      const auto flag = at::ones({1});
      all_reduce(group, flag).wait();
      EXPECT_TRUE((data == 6).all().item<bool>());
    }
  });
}

// Ranks connected by TCP, each on a separate host.
void run_tcp_tensors(int ranks, const std::function<void(const Group&)>& body) {
  sheaf::test::run_transports(ranks, [&](auto& transport) {
    const std::string host = concat("h", transport->rank());
    const comm::World world(comm::make_world(std::make_shared<comm::Runtime>(
        std::move(transport),
        comm::RuntimeOptions{
            .options = {}, .host = host, .arena_bytes = 16ull << 30})));
    body(world);
  });
}

// A tensor that sets a flag when its memory is freed.
at::Tensor watched_tensor(std::int64_t count, std::atomic<bool>& is_freed) {
  auto memory = std::make_shared<std::vector<float>>(count);
  float* data = memory->data();
  return at::from_blob(
      data, {count},
      [memory, &is_freed](void*) mutable {
        memory.reset();
        is_freed = true;
      },
      at::kFloat);
}

TEST(TensorMessages, ADroppedSendKeepsItsTensorUntilItHasLeft) {
  constexpr std::int64_t kCount = 4 << 20;
  std::atomic<bool> is_freed{false};
  std::latch was_dropped(1);
  run_tcp_tensors(2, [&](const Group& group) {
    if (group.rank() == 0) {
      std::ignore = isend(group, watched_tensor(kCount, is_freed).fill_(5), 1);
      EXPECT_FALSE(is_freed);
      const auto other = at::full({kCount}, 6.0);  // reuses freed memory
      was_dropped.count_down();
    } else {
      was_dropped.wait();
      const auto data = at::zeros({kCount});
      recv(group, data, 0);
      EXPECT_TRUE((data == 5).all().item<bool>());
    }
    comm::barrier(group).wait();
    auto& mailroom = group.core().runtime().mailroom();
    while (mailroom.is_busy()) mailroom.progress();
    EXPECT_TRUE(is_freed || group.rank() == 1);
  });
}

// Whether or not it was matched when dropped: nothing is written to memory that
// has been reused, and the next message is received.
TEST(TensorMessages, ADroppedReceiveWritesNowhere) {
  constexpr std::int64_t kCount = 1 << 20;
  run_tcp_tensors(2, [&](const Group& world) {
    auto& mailroom = world.core().runtime().mailroom();
    for (int round = 0; round < 10; ++round) {
      Group group = world.split(0);
      const auto sent = at::full({kCount}, 1.0 + round);
      std::atomic<bool> is_freed{false};
      at::Tensor other;
      if (group.rank() == 0) {
        std::ignore = isend(group, sent, 1);
        send(group, sent, 1, {.tag = 1});
      } else {
        {
          const Work work = irecv(group, watched_tensor(kCount, is_freed), 0);
          for (int i = 0; i < round * 3; ++i) std::ignore = work.test();
        }
        other = at::full({kCount}, 77.0);
        const auto next = at::zeros({kCount});
        recv(group, next, 0, {.tag = 1});
        EXPECT_TRUE((next == 1.0 + round).all().item<bool>());
      }
      group = {};  // discards messages that were not received
      while (mailroom.is_busy()) mailroom.progress();
      EXPECT_TRUE(is_freed || world.rank() == 0);
      EXPECT_TRUE(!other.defined() || (other == 77).all().item<bool>());
    }
  });
}

TEST(TensorCollectives, GatherAndScatterOfUnequalShapes) {
  run_threads(kHosts, [](const Group& group) {
    const auto shaped = [](int rank) {
      return at::arange(rank * 6, at::kFloat).view({rank * 2, 3}).t();
    };
    for (const bool async : {false, true})
      for (int root = 0; root < 3; ++root) {
        const int rank = group.rank();
        Tensors parts;
        for (int r = 0; rank == root && r < 3; ++r)
          parts.push_back(at::zeros({3, r * 2}));
        gather(group, shaped(rank), parts, {.root = root, .async = async})
            .wait();
        for (int r = 0; rank == root && r < 3; ++r)
          EXPECT_TRUE(parts[static_cast<std::size_t>(r)].equal(shaped(r)));
        const auto mine = at::zeros({rank * 2, 3}).t();
        scatter(group, parts, mine, {.root = root, .async = async}).wait();
        EXPECT_TRUE(mine.equal(shaped(rank)));
      }
  });
}

TEST(TensorCollectives, BadArguments) {
  run_threads(1, [](const Group& group) {
    EXPECT_THROW(all_reduce(group, at::Tensor()).wait(), UsageError);
    EXPECT_THROW(all_reduce(group, at::zeros({2}, at::kComplexFloat)).wait(),
                 UsageError);
    EXPECT_THROW(all_reduce(group, at::zeros({2}).to_sparse()).wait(),
                 UsageError);
    EXPECT_THROW(all_gather(group, at::zeros({2}), Tensors{}).wait(),
                 UsageError);
    EXPECT_THROW(
        all_gather(group, at::zeros({2}), Tensors{at::zeros({2}, at::kLong)})
            .wait(),
        UsageError);
  });
}

}  // namespace
}  // namespace sheaf::tensor

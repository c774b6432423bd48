#include "sheaf/tensor/collectives.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/world.hpp"
#include "sheaf/tensor/dtype.hpp"
#include "sheaf/tensor/memory.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::tensor {
namespace {

using comm::ReduceOp;
using comm::run_threads;

const std::vector<std::string> kHosts{"a", "a", "b"};

// Tensors of every shape and stride; all ranks see the same values, scaled.
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

TEST(TensorCollectives, Reductions) {
  run_threads(3, [](const Group& group) {
    const auto value = [&](ReduceOp op) {
      const auto data = at::full({5}, group.rank() + 2.0);
      all_reduce(group, data, {.op = op});
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
    all_reduce(group, flags, {.op = ReduceOp::kMax});
    EXPECT_EQ(flags.sum().item<int>(), 2);
    const Tensors many{at::ones({2, 2}).t(), at::ones({3}), at::ones({})};
    all_reduce_n(group, many);
    for (const auto& tensor : many)
      EXPECT_TRUE((tensor == 2).all().item<bool>());
  });
}

TEST(TensorCollectives, BroadcastReduceGatherScatter) {
  run_threads(kHosts, [](const Group& group) {
    const int rank = group.rank();
    const auto data = at::full({2, 3}, rank).t();
    broadcast(group, data, {.root = 2});
    EXPECT_TRUE((data == 2).all().item<bool>());
    const auto sum = at::full({4}, rank + 1);
    reduce(group, sum, {.root = 1});
    if (rank == 1) {
      EXPECT_TRUE((sum == 6).all().item<bool>());
    }
    Tensors parts;
    if (rank == 1) parts = {at::zeros({2}), at::zeros({2}), at::zeros({2})};
    gather(group, at::full({2}, static_cast<float>(rank)), parts, {.root = 1});
    if (rank == 1) {
      EXPECT_EQ(at::stack(parts).sum().item<float>(), 6);
    }
    const auto mine = at::zeros({2});
    scatter(group, parts, mine, {.root = 1});
    EXPECT_TRUE((mine == rank).all().item<bool>());
  });
}

TEST(TensorCollectives, AllGatherOfUnequalSizes) {
  run_threads(kHosts, [](const Group& group) {
    const Tensors outputs{at::zeros({1}), at::zeros({2, 2}), at::zeros({0})};
    const auto index = static_cast<std::size_t>(group.rank());
    all_gather(group, at::full_like(outputs[index], group.rank() + 1), outputs);
    EXPECT_EQ(outputs[0].sum().item<float>(), 1);
    EXPECT_EQ(outputs[1].sum().item<float>(), 8);
    const auto whole = at::zeros({3, 2});
    all_gather(group, at::full({2}, static_cast<float>(index)), whole);
    EXPECT_TRUE(whole.select(1, 0).equal(at::arange(3).to(at::kFloat)));
  });
}

TEST(TensorCollectives, ReduceScatterAndAllToAll) {
  run_threads(kHosts, [](const Group& group) {
    const auto rank = group.rank();
    const Tensors inputs{at::full({2}, 1), at::full({2}, 2), at::full({2}, 3)};
    const auto output = at::zeros({2}, at::kLong);
    reduce_scatter(group, inputs, output);
    EXPECT_EQ(output[0].item<int>(), 3 * (rank + 1));
    reduce_scatter(group, at::cat(inputs), output);
    EXPECT_EQ(output[1].item<int>(), 3 * (rank + 1));
    const Tensors outputs{at::zeros({rank + 1}), at::zeros({rank + 1}),
                          at::zeros({rank + 1})};
    Tensors sent;
    for (int to = 0; to < 3; ++to)
      sent.push_back(at::full({to + 1}, static_cast<float>(10 * rank + to)));
    all_to_all(group, sent, outputs);
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
      all_reduce(group, data);
      ADD_FAILURE() << "no error";
    } catch (const MismatchError& error) {
      EXPECT_NE(std::string(error.what())
                    .find(group.rank() == 0 ? "[2, 3]" : "[3, 2]"),
                std::string::npos)
          << error.what();
    }
  });
}

TEST(TensorCollectives, BadArguments) {
  run_threads(1, [](const Group& group) {
    EXPECT_THROW(all_reduce(group, at::Tensor()), UsageError);
    EXPECT_THROW(all_reduce(group, at::zeros({2}, at::kComplexFloat)),
                 UsageError);
    EXPECT_THROW(all_reduce(group, at::zeros({2}).to_sparse()), UsageError);
    EXPECT_THROW(all_gather(group, at::zeros({2}), Tensors{}), UsageError);
    EXPECT_THROW(
        all_gather(group, at::zeros({2}), Tensors{at::zeros({2}, at::kLong)}),
        UsageError);
  });
}

TEST(TensorMemory, SharedTensorsAreOrdinaryTensors) {
  run_threads(2, [](const Group& group) {
    at::Tensor data;
    {
      const at::Tensor whole = empty_shared(group, {4, 3});
      whole.fill_(group.rank() + 1);
      data = whole.view({12}).slice(0, 3);
    }
    all_reduce(group, data);
    EXPECT_TRUE((data == 3).all().item<bool>());
    EXPECT_EQ(empty_shared(group, {0, 3}).numel(), 0);
  });
}

}  // namespace
}  // namespace sheaf::tensor

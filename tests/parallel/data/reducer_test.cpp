#include "sheaf/parallel/data/reducer.hpp"

#include <gtest/gtest.h>

#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/parallel/data/many_parameters.hpp"

// Unusual graphs: parameters that are unused, shared, sparse, or used in
// several backward passes.
namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

TEST(Reducer, NamesParametersThatWereForgotten) {
  run_threads(2, [](const Group& group) {
    Many net(3);
    DataParallel model(net, group);
    const std::vector<int> used =
        group.rank() == 0 ? std::vector{0, 1, 2} : std::vector{0, 2};
    try {
      model.forward(used, 1.0).backward();
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("\n  w1"), std::string::npos) << text;
      EXPECT_EQ(text.find("\n  w0"), std::string::npos) << text;
      EXPECT_NE(text.find("find_unused_parameters"), std::string::npos);
    }
    model.forward(std::vector{0, 1, 2}, 1.0).backward();  // later passes work
  });
}

TEST(Reducer, FindsUnusedParameters) {
  run_threads(3, [](const Group& group) {
    for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
      Many net(4);
      DataParallel model(net, group,
                         {.first_bucket_mb = 1e-5,
                          .find_unused_parameters = true,
                          .overlap = overlap});
      for (int step = 1; step <= 3; ++step) {
        forget_gradients(*net);
        // 0 is used by all ranks, 1 by rank 1 only, 2 by none, 3 by ranks 0 and
        // 2.
        std::vector<int> used{0};
        if (group.rank() == 1) used.push_back(1);
        if (group.rank() != 1) used.push_back(3);
        model.forward(used, 3.0 * step).backward();
        expect_value(net->gradient(0), 3.0 * step);
        expect_value(net->gradient(1), 1.0 * step);
        EXPECT_FALSE(net->gradient(2).defined());
        expect_value(net->gradient(3), 2.0 * step);
      }
    }
  });
}

TEST(Reducer, LeavesOldGradientsOfUnusedParametersAlone) {
  run_threads(3, [](const Group& group) {
    Many net(2);
    DataParallel model(net, group, {.find_unused_parameters = true});
    model.forward(std::vector{0, 1}, 0.1).backward();
    const at::Tensor before = net->gradient(1).clone();
    model.forward(std::vector{0}, 0.1).backward();
    EXPECT_TRUE(net->gradient(1).equal(before));
    model.forward(std::vector{0, 1}, group.rank()).backward();
    EXPECT_TRUE(torch::allclose(net->gradient(1), before + 1));
  });
}

TEST(Reducer, StaticGraphKnowsUnusedParameters) {
  run_threads(2, [](const Group& group) {
    Many net(3);
    DataParallel model(net, group, {.static_graph = true});
    for (int step = 1; step <= 3; ++step) {
      forget_gradients(*net);
      model.forward(std::vector{0, 2}, step + group.rank()).backward();
      expect_value(net->gradient(0), step + 0.5);
      EXPECT_FALSE(net->gradient(1).defined());
    }
    EXPECT_THROW(model.forward(std::vector{0, 1, 2}, 1.0).backward(),
                 UsageError);
  });
}

TEST(Reducer, SeveralBackwardPassesAddUp) {
  run_threads(2, [](const Group& group) {
    Many net(2);
    DataParallel model(net, group);
    const at::Tensor loss =
        model.forward(std::vector{0, 1}, 2.0 * group.rank());
    loss.backward({}, /*retain_graph=*/true);
    expect_value(net->gradient(0), 1);
    loss.backward();
    expect_value(net->gradient(0), 2);
  });
}

TEST(Reducer, SharedParametersAreReducedOnce) {
  struct TwiceImpl : torch::nn::Module {
    TwiceImpl() : layer(2, 2) {
      register_module("a", layer);
      register_module("b", layer);
    }
    at::Tensor forward(const at::Tensor& x) { return layer(layer(x)); }
    torch::nn::Linear layer;
  };
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<TwiceImpl>();
    net->to(torch::kDouble);
    DataParallel model(net, group);
    const auto x = torch::ones({2, 2}, torch::kDouble);
    model.forward(x * (group.rank() + 1)).sum().backward();
    const at::Tensor got = net->layer->weight.grad().clone();
    at::Tensor expected = torch::zeros_like(got);
    for (const double scale : {1.0, 2.0}) {
      net->layer->weight.mutable_grad().reset();
      auto guard = model.no_sync();
      net->forward(x * scale).sum().backward();
      expected += net->layer->weight.grad() / 2;
    }
    EXPECT_TRUE(torch::allclose(got, expected, 1e-14));
  });
}

TEST(Reducer, SparseEmbeddings) {
  struct WordsImpl : torch::nn::Module {
    explicit WordsImpl(bool sparse)
        : table(torch::nn::EmbeddingOptions(10, 4).sparse(sparse)), last(4, 1) {
      register_module("table", table);
      register_module("last", last);
    }
    at::Tensor forward(const at::Tensor& x) { return last(table(x)); }
    torch::nn::Embedding table;
    torch::nn::Linear last;
  };
  run_threads(3, [](const Group& group) {
    auto sparse = std::make_shared<WordsImpl>(true);
    auto dense = std::make_shared<WordsImpl>(false);
    DataParallel model(sparse, group);
    DataParallel twin(dense, group);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 3; ++i)
        dense->parameters()[i].copy_(sparse->parameters()[i]);
    }
    for (int step = 0; step < 2; ++step) {
      forget_gradients(*sparse);
      forget_gradients(*dense);
      const auto words = torch::tensor({group.rank(), 5, 5 + step});
      model.forward(words).sum().backward();
      twin.forward(words).sum().backward();
      ASSERT_TRUE(sparse->table->weight.grad().is_sparse());
      EXPECT_TRUE(torch::allclose(sparse->table->weight.grad().to_dense(),
                                  dense->table->weight.grad(), 1e-6));
    }
  });
}

// A rank that does not reach the table in a later pass still has its share of
// the first average.
TEST(Reducer, SparseEmbeddingsThatALaterPassReachesOnSomeRanksOnly) {
  struct WordsImpl : torch::nn::Module {
    explicit WordsImpl(bool sparse)
        : table(torch::nn::EmbeddingOptions(5, 3).sparse(sparse)), last(3, 1) {
      register_module("table", table);
      register_module("last", last);
      const torch::NoGradGuard no_grad;
      for (at::Tensor& one : parameters()) one.fill_(0.5);
    }
    at::Tensor forward(const at::Tensor& words, bool uses_table) {
      return last(uses_table ? table(words) : torch::ones({1, 3}));
    }
    torch::nn::Embedding table;
    torch::nn::Linear last;
  };
  for (const bool is_local : {false, true})
    run_threads(3, [&](const Group& group) {
      auto sparse = std::make_shared<WordsImpl>(true);
      auto dense = std::make_shared<WordsImpl>(false);
      DataParallel model(sparse, group, {.find_unused_parameters = true});
      DataParallel twin(dense, group, {.find_unused_parameters = true});
      const auto words = torch::tensor({group.rank(), 4});
      const auto pass = [&](bool uses_table) {
        model.forward(words, uses_table).sum().backward();
        twin.forward(words, uses_table).sum().backward();
      };
      pass(true);
      if (is_local) {
        auto guard = model.no_sync();
        auto other = twin.no_sync();
        pass(group.rank() == 1);
      }
      pass(group.rank() == 0);
      EXPECT_TRUE(torch::allclose(sparse->table->weight.grad().to_dense(),
                                  dense->table->weight.grad(), 1e-6));
      pass(false);  // no rank uses it: it stays
      EXPECT_TRUE(torch::allclose(sparse->table->weight.grad().to_dense(),
                                  dense->table->weight.grad(), 1e-6));
    });
}

// Produced by a function, for a parameter that is not declared sparse.
TEST(Reducer, SparseGradientsOfOrdinaryParameters) {
  struct TableImpl : torch::nn::Module {
    TableImpl() : last(3, 1) {
      table = register_parameter("table", torch::ones({5, 3}));
      register_module("last", last);
    }
    at::Tensor forward(bool uses_table) {
      const auto words = torch::tensor({1, 4});
      return last(uses_table ? torch::embedding(table, words, -1, false, true)
                             : torch::ones({1, 3}));
    }
    at::Tensor table;
    torch::nn::Linear last;
  };
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<TableImpl>();
    DataParallel model(net, group, {.find_unused_parameters = true});
    {
      auto guard = model.no_sync();
      model.forward(true).sum().backward();
    }
    model.forward(false).sum().backward();
    EXPECT_TRUE(torch::allclose(net->table.grad()[4], net->last->weight[0]));
    EXPECT_EQ(net->table.grad()[0].abs().sum().item<float>(), 0);
  });
}

TEST(Reducer, BuffersFollowRankZero) {
  run_threads(2, [](const Group& group) {
    auto net = std::make_shared<CountedImpl>();
    DataParallel model(net, group);
    net->count.fill_(group.rank() + 5);
    model.forward(torch::ones({1})).sum().backward();
    EXPECT_EQ(net->count.item<float>(), 5);
  });
}

// Unless a gradient is kept, the gradients of all steps use the same memory.
TEST(Reducer, GradientsKeepTheirPlaces) {
  run_threads(2, [](const Group& group) {
    Many net(3);
    DataParallel model(net, group);
    std::set<const void*> places;
    for (int step = 0; step < 6; ++step) {
      forget_gradients(*net);
      model.forward(std::vector{0, 1, 2}, 1.0).backward();
      // Buckets are rebuilt after the first step.
      if (step > 0) places.insert(net->gradient(0).data_ptr());
    }
    EXPECT_EQ(places.size(), 1U);
  });
}

// A gradient that the program keeps, as in multi-task methods, belongs to the
// program.
TEST(Reducer, KeptGradientsAreNotWrittenTo) {
  for (const bool keeps_view : {false, true})
    run_threads(2, [&](const Group& group) {
      Many net(3);
      DataParallel model(net, group, {.find_unused_parameters = true});
      const auto gradient_of = [&](double scale) {
        forget_gradients(*net);
        model.forward(std::vector{0, 1, 2}, scale * (group.rank() + 1))
            .backward();
        const at::Tensor& gradient = net->parameters()[0].grad();
        return keeps_view ? gradient.view({-1}) : gradient;
      };
      for (int step = 0; step < 3; ++step) {
        const at::Tensor first = gradient_of(1);
        const at::Tensor copy = first.clone();
        const at::Tensor second = gradient_of(7);
        EXPECT_TRUE(first.equal(copy));
        EXPECT_TRUE(second.allclose(7 * copy));
      }
    });
}

}  // namespace
}  // namespace sheaf::parallel

#include "sheaf/comm/host/fingerprint.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sheaf::comm {
namespace {

using enum Operation;

constexpr Operation kOperations[] = {
    kNone,       kBarrier, kBroadcast, kReduce,  kAllReduce,
    kAllReduceN, kGather,  kAllGather, kScatter, kReduceScatter,
    kAllToAll,   kSend,    kReceive,   kSplit,   kHalo};

std::set<Operation> those(bool (*has)(Operation)) {
  std::set<Operation> found;
  for (const Operation operation : kOperations)
    if (has(operation)) found.insert(operation);
  return found;
}

TEST(Fingerprint, OperationsHaveDistinctNames) {
  std::set<std::string_view> names;
  for (const Operation operation : kOperations)
    names.insert(name_of(operation));
  EXPECT_EQ(names.size(), std::size(kOperations));
  EXPECT_EQ(name_of(kNone), "nothing");
  EXPECT_EQ(name_of(kAllReduce), "all_reduce");
  EXPECT_EQ(name_of(kReceive), "recv");
  EXPECT_EQ(name_of(kHalo), "halo");
}

TEST(Fingerprint, OperationsHaveWhatTheyNeed) {
  EXPECT_EQ(those([](Operation one) { return is_reducing(one); }),
            (std::set{kReduce, kAllReduce, kAllReduceN, kReduceScatter}));
  EXPECT_EQ(those([](Operation one) { return has_root(one); }),
            (std::set{kBroadcast, kReduce, kGather, kScatter}));
  EXPECT_EQ(
      those([](Operation one) { return has_blocks(one); }),
      (std::set{kGather, kAllGather, kScatter, kReduceScatter, kAllToAll}));
}

// FNV-1a with 32 bits.
TEST(Fingerprint, HashesAreThoseOfTheStandard) {
  EXPECT_EQ(hash_name(""), 0u);  // no name
  EXPECT_EQ(hash_name("a"), 0xe40c292cu);
  EXPECT_EQ(hash_name("foobar"), 0xbf9cf968u);
  EXPECT_EQ(hash_name("\xff"), (2166136261u ^ 0xffu) * 16777619u);
}

TEST(Fingerprint, OnlyANamedBarrierEndsTheProgram) {
  Fingerprint call{.operation = kBarrier};
  EXPECT_FALSE(is_end_of_program(call));
  call.name_hash = hash_name(kEndOfProgram);
  EXPECT_TRUE(is_end_of_program(call));
  call.sequence = 3;
  EXPECT_EQ(describe(call), "end of program #3");
  call.operation = kAllReduce;
  EXPECT_FALSE(is_end_of_program(call));
}

TEST(Fingerprint, DescriptionsOmitWhatDoesNotApply) {
  Fingerprint call{.operation = kAllReduce,
                   .dtype = DType::kF32,
                   .op = ReduceOp::kSum,
                   .root = 2,
                   .count = 1024,
                   .sequence = 12};
  EXPECT_EQ(describe(call), "all_reduce #12 (f32 sum, 1024 elements)");
  call.operation = kReduce;
  EXPECT_EQ(describe(call), "reduce #12 (f32 sum, 1024 elements, root 2)");
  call.operation = kBroadcast;
  EXPECT_EQ(describe(call), "broadcast #12 (f32, 1024 elements, root 2)");
  call.count = 0;  // ranks may differ
  call.operation = kAllToAll;
  EXPECT_EQ(describe(call), "all_to_all #12 (f32)");
  call.operation = kSend;
  EXPECT_EQ(describe(call), "send #12 (f32 to 2)");
  call.operation = kReceive;
  EXPECT_EQ(describe(call), "recv #12 (f32 from 2)");
  call.root = -1;
  EXPECT_EQ(describe(call), "recv #12 (f32 from any rank)");
  for (const Operation operation : {kBarrier, kNone, kSplit}) {
    call.operation = operation;
    EXPECT_EQ(describe(call), std::string(name_of(operation)) + " #12");
  }
}

TEST(Fingerprint, TextListsWhatApplies) {
  EXPECT_EQ(describe({.operation = kBarrier, .sequence = 3}), "barrier #3");
  EXPECT_EQ(describe({.operation = kBroadcast,
                      .dtype = DType::kI8,
                      .root = 2,
                      .count = 5,
                      .sequence = 1}),
            "broadcast #1 (i8, 5 elements, root 2)");
  EXPECT_EQ(describe({.operation = kReceive,
                      .dtype = DType::kF64,
                      .root = -1,
                      .count = 5}),
            "recv #0 (f64, 5 elements from any rank)");
}

TEST(Fingerprint, DescriptionsHaveNamesThatAreKnownHere) {
  Fingerprint call{.operation = kAllGather,
                   .dtype = DType::kI64,
                   .flags = 5,
                   .name_hash = hash_name("fingerprint_test weights")};
  EXPECT_EQ(describe(call), "all_gather #0 (i64, name hash " +
                                std::to_string(call.name_hash) + ", mode 5)");
  remember_name("fingerprint_test weights");
  call.flags = 0;
  EXPECT_EQ(describe(call),
            "all_gather #0 (i64, \"fingerprint_test weights\")");
}

}  // namespace
}  // namespace sheaf::comm

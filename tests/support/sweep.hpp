#pragma once
// Every operation on a group, checked bit by bit. The same code serves ranks
// as threads and ranks as processes.

#include "sheaf/comm/collectives.hpp"

namespace sheaf::test {

enum class Memory { kPlain, kArena };

struct Case {
  DType dtype = DType::kF32;
  comm::ReduceOp op = comm::ReduceOp::kSum;
  std::size_t count = 0;
  Memory memory = Memory::kPlain;
  comm::CollectiveOptions options{};  // algorithm, async, reproducible ...
};

// A buffer of elements in plain memory or in the arena.
class Elements {
 public:
  Elements(const comm::Group& group, const Case& test, std::size_t count);
  Elements(const comm::Group& group, const Case& test,
           const std::vector<std::byte>& contents);
  comm::Buffer buffer() const;
  std::vector<std::byte> contents() const;

 private:
  DType dtype_;
  std::size_t count_;
  std::shared_ptr<std::byte> memory_;
};

void check_all_reduce(const comm::Group& group, const Case& test);
void check_reduce(const comm::Group& group, const Case& test);
void check_reduce_scatter(const comm::Group& group, const Case& test);
void check_broadcast(const comm::Group& group, const Case& test);
void check_gather(const comm::Group& group, const Case& test);
void check_all_gather(const comm::Group& group, const Case& test);
void check_scatter(const comm::Group& group, const Case& test);
void check_all_to_all(const comm::Group& group, const Case& test);
void check_all_reduce_n(const comm::Group& group, const Case& test);

// All of the above; those without a reduction only for ReduceOp::kSum.
void check_everything(const comm::Group& group, const Case& test);

}  // namespace sheaf::test

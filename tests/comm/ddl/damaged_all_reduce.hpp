#pragma once
// A checked all-reduce whose result is damaged on one rank.

#include <mutex>
#include <string>
#include <vector>

#include "sheaf/comm/ddl/checked_all_reduce.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::test {

inline const std::vector<std::string> kTwoHosts{"a", "a", "b"};

// Reduces correctly, then damages one element on one rank, like a faulty link
// or memory.
inline void reduce_with_damage(const comm::Group& group,
                               std::vector<float>& data, int rank,
                               std::size_t element, float damage) {
  comm::all_reduce(group, data).wait();
  if (group.rank() == rank) data[element] += damage;
}

// The errors of the ranks that hear of the damage to the middle element of
// rank 1; its dumps are in the folder of a DumpFolder.
inline std::vector<std::string> errors_of_damage(
    const std::vector<std::string>& hosts, std::size_t count, float damage) {
  std::mutex mutex;
  std::vector<std::string> errors;
  comm::run_threads(hosts, [&](const comm::Group& group) {
    std::vector<float> data(count, static_cast<float>(group.rank() + 1));
    const comm::Buffer buffer(data);
    try {
      comm::checked(group, {&buffer, 1}, {}, [&] {
        reduce_with_damage(group, data, /*rank=*/1, count / 2, damage);
      });
    } catch (const CheckError& error) {
      const std::lock_guard lock(mutex);
      errors.emplace_back(error.what());
    }
    comm::barrier(group).wait();  // the group still works
  });
  return errors;
}

}  // namespace sheaf::test

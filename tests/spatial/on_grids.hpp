#pragma once
// Runs cases on grids whose ranks are threads.

#include "sheaf/comm/group/world.hpp"
#include "tests/spatial/same_as_alone.hpp"

namespace sheaf::spatial::test {

inline const std::vector<std::string> kFlatGrids{"1x1", "1x2", "2x1", "2x2",
                                                 "1x3", "3x2", "3x3"};

inline int ranks_of(const std::string& grid) {
  return halo::Grid::parse(grid).ranks();
}

// Expects that each case gives the same result on each grid as in a single
// process.
inline void expect_on_grids(
    const std::vector<Case>& cases, const std::vector<std::string>& grids,
    at::ScalarType type = at::kDouble, double tolerance = 1e-12,
    parallel::Overlap overlap = parallel::Overlap::kAuto) {
  std::vector<Results> wanted;
  for (const Case& one : cases) wanted.push_back(alone(one, type));
  for (const std::string& grid : grids)
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid), overlap);
      for (std::size_t i = 0; i < cases.size(); ++i) try {
          expect_same(cases[i], wanted[i], tiles, type, tolerance);
        } catch (const std::exception&) {
          ADD_FAILURE() << cases[i].name << " on " << grid;
          throw;
        }
    });
}

}  // namespace sheaf::spatial::test

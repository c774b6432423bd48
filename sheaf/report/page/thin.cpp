#include "sheaf/report/page/thin.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sheaf::report {

std::size_t thinning(std::size_t count, std::size_t points) {
  return count <= points ? 1 : (count + points - 1) / points;
}

std::vector<double> thinned(std::span<const double> values, std::size_t every) {
  std::vector<double> means;
  for (std::size_t from = 0; from < values.size(); from += every) {
    double sum = 0;
    std::size_t count = 0;
    for (double value :
         values.subspan(from, std::min(every, values.size() - from))) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    means.push_back(count > 0 ? sum / static_cast<double>(count)
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

}  // namespace sheaf::report

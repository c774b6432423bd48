#pragma once
// The settings derived from the options of DadParallel.

#include <vector>

#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"
#include "sheaf/parallel/dad/factor_reducer.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// Throws UsageError for invalid values or combinations.
void check(const DadOptions& options);

// The options that determine what ranks exchange and how it is decoded.
std::vector<NamedOption> named(const DadOptions& options);

// Whether omitting zeros saves time on this link, unless the user has decided.
bool skips_zeros(const DadOptions& options, const LinkModel& link);
RouteSettings route_settings(const DadOptions& options, bool skips_zeros);
FactorOptions factor_options(const DadOptions& options, bool skips_zeros);
ReducerOptions reducer_options(const DadOptions& options);

}  // namespace sheaf::parallel

// Data parallelism of a module under a precision plan.

#include "sheaf/parallel/precision/precision.hpp"
#include "under_test.hpp"

namespace differential {
namespace {

namespace parallel = sheaf::parallel;

sheaf::plan::PrecisionPlan plan_of(const Case& one) {
  sheaf::plan::PrecisionPlan plan;
  for (std::size_t i = 0; i < one.blocks.size(); ++i)
    if (one.blocks[i].has("bf16"))
      plan.layers["l" + std::to_string(i)] = sheaf::plan::Precision::kBf16;
  return plan;
}

class WrappedPlan : public Wrapped {
 public:
  WrappedPlan(const Case& one, const std::shared_ptr<Net>& net,
              const sheaf::comm::Group& group)
      : data_(wrap_data(one, net, group)), precision_(*net, plan_of(one)) {}
  Session::Outputs forward(const Input& input) override {
    const auto scope = precision_.forward_scope();
    return data_->forward(input);
  }
  parallel::Strategy& strategy() override { return data_->strategy(); }

 private:
  std::unique_ptr<Wrapped> data_;
  parallel::MixedPrecision precision_;
};

}  // namespace

std::unique_ptr<Wrapped> wrap_plan(const Case& one, std::shared_ptr<Net> net,
                                   const sheaf::comm::Group& group) {
  return std::make_unique<WrappedPlan>(one, net, group);
}

}  // namespace differential

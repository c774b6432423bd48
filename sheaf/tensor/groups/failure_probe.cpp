#include "sheaf/tensor/groups/failure_probe.hpp"

#include <exception>
#include <string_view>

namespace sheaf::tensor {
namespace {

thread_local FailureProbe* active_probe = nullptr;

struct StartedCall : at::ObserverContext {
  OperatorCall call;
  int exceptions = 0;  // uncaught exceptions when the call began
};

void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorList()) tensors.push_back(one);
  }
}

std::unique_ptr<at::ObserverContext> on_probe_start(
    const at::RecordFunction& function) {
  if (!active_probe) return nullptr;
  auto started = std::make_unique<StartedCall>();
  const std::string_view name = function.name();
  started->call.name = name.substr(name.rfind(':') + 1);
  for (const c10::IValue& input : function.inputs())
    add_tensors(input, started->call.tensors);
  started->exceptions = std::uncaught_exceptions();
  active_probe->start();
  return started;
}

void on_probe_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (!active_probe || !context) return;
  auto& started = *static_cast<StartedCall*>(context);
  active_probe->end(std::move(started.call),
                    std::uncaught_exceptions() > started.exceptions);
}

}  // namespace

FailureProbe::FailureProbe(std::function<void(const OperatorCall&)> on_success)
    : on_success_(std::move(on_success)) {
  if (active_probe) return;
  active_probe = this;
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(on_probe_start, on_probe_end)
          .needsInputs(true)
          .scopes({at::RecordScope::FUNCTION}));
}

FailureProbe::~FailureProbe() {
  if (!handle_) return;
  at::removeCallback(*handle_);
  active_probe = nullptr;
}

void FailureProbe::end(OperatorCall call, bool has_failed) {
  --depth_;
  if (has_failed)
    failed_.insert(failed_.begin(), std::move(call));
  else if (depth_ == 0)
    on_success_(call);
}

}  // namespace sheaf::tensor

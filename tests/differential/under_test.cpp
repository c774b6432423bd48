#include "under_test.hpp"

#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"

namespace differential {
namespace {

using sheaf::parallel::Strategy;

std::unique_ptr<Wrapped> wrap(const Case& one, std::shared_ptr<Net> net,
                              const sheaf::comm::Group& group) {
  const std::string& kind = one.setting.kind;
  if (kind == "data") return wrap_data(one, std::move(net), group);
  if (kind == "spatial") return wrap_spatial(one, std::move(net), group);
  if (kind == "plan") return wrap_plan(one, std::move(net), group);
  return wrap_dad(one, std::move(net), group);
}

class Program {
 public:
  Program(const Case& one, const sheaf::comm::Group& group)
      : case_(one),
        session_(one, unit_of(one, group.rank()),
                 /*weights_of=*/unit_of(one, group.rank())) {
    for (std::size_t i = 0; i < session_.models(); ++i) {
      if (one.setting.has("sync_batch_norm"))
        sheaf::parallel::use_sync_batch_norm(*session_.net(i), group);
      models_.push_back(wrap(one, session_.net(i), group));
    }
    session_.set_forward([this](std::size_t model, const Input& input) {
      return models_[model]->forward(input);
    });
    session_.set_whole(
        [this](const at::Tensor& x) { return models_[0]->whole(x); });
    session_.make_optimizers();
  }
  ~Program() {
    if (case_.setting.has("sync_batch_norm"))
      for (std::size_t i = 0; i < session_.models(); ++i)
        sheaf::parallel::use_local_batch_norm(*session_.net(i));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run() {
    if (!case_.setting.has("join")) return take_steps();
    std::vector<sheaf::parallel::DataParallelCore*> all;
    for (const auto& model : models_) all.push_back(model->data());
    auto join = sheaf::parallel::join_models(
        all, {.divide_by_active_ranks = case_.setting.has("active_only")});
    take_steps();
    join.finish();
    session_.finish_all();
  }
  Record take_record() { return std::move(session_.record()); }

 private:
  void take_steps() {
    for (std::size_t i = 0; i < steps_of(case_, session_.unit()); ++i)
      take_step(i);
  }

  void take_step(std::size_t step) {
    const Item& item = case_.steps[step];
    session_.prepare(step);
    bool is_broken = false;
    for (int pass = 0; pass < pass_count(item) && !is_broken; ++pass) {
      std::vector<std::unique_ptr<Strategy::NoSync>> guards;
      if (!is_synced(item, pass))
        for (const auto& model : models_)
          guards.push_back(
              std::make_unique<Strategy::NoSync>(model->strategy()));
      is_broken = !session_.pass(step, pass);
    }
    session_.finish(step, is_broken);
  }

  Case case_;
  Session session_;
  std::vector<std::unique_ptr<Wrapped>> models_;
};

// As in docs/reference/errors.md.
std::string kind_of(const std::exception& error) {
  const auto is = [&](auto* kind) {
    return dynamic_cast<const std::remove_pointer_t<decltype(kind)>*>(&error) !=
           nullptr;
  };
  if (is((sheaf::MismatchError*)nullptr)) return "MismatchError";
  if (is((sheaf::UsageError*)nullptr)) return "UsageError";
  if (is((sheaf::TimeoutError*)nullptr)) return "TimeoutError";
  if (is((sheaf::CommError*)nullptr)) return "CommError";
  if (is((sheaf::IoError*)nullptr)) return "IoError";
  if (is((sheaf::CheckError*)nullptr)) return "CheckError";
  if (is((sheaf::InternalError*)nullptr)) return "InternalError";
  return "an error of another kind";
}

}  // namespace

RankResult run_rank(const Case& one, const sheaf::comm::Group& group) {
  RankResult result;
  try {
    Program program(one, group);
    try {
      program.run();
    } catch (...) {
      result.record = program.take_record();
      throw;
    }
    result.record = program.take_record();
  } catch (const std::exception& error) {
    result.kind = kind_of(error);
    result.error = error.what();
  }
  return result;
}

}  // namespace differential

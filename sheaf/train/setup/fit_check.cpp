#include "sheaf/train/setup/fit_check.hpp"

#include "sheaf/base/error.hpp"
#include "sheaf/data/load/loader.hpp"

namespace sheaf::train {
namespace {

bool takes_classes(const std::string& loss) { return loss != "mse"; }

// For images that are split, reading one pixel is enough to get the target.
at::Tensor first_target(const data::Dataset& set, bool is_cut) {
  data::Random random(0);
  const std::vector<std::int64_t> first{0};
  if (!is_cut) return set.get(first, random).target;
  const auto axes = set.example_shape().size();
  const data::Boxes pixel{data::Sizes(axes > 0 ? axes - 1 : 0, 1), {{}}};
  return set.get_boxes(first, pixel, random).target;
}

void check_type(const std::string& loss, const at::Tensor& target,
                const std::string& owner) {
  if (!takes_classes(loss) || !target.is_floating_point()) return;
  SHEAF_CHECK(target.dim() > 1 && loss == "cross_entropy", "the loss is ", loss,
              ", which takes class indices, but the targets", owner,
              " are floating-point numbers (", target.scalar_type(),
              "); store them as integers, such as int64, or set loss=mse",
              loss == "nll" && target.dim() > 1
                  ? ", or loss=cross_entropy for probabilities"
                  : "");
}

std::string shape_of_row(const at::Tensor& rows) {
  return concat(rows.sizes().slice(1));
}

// Whether the output of a row has the target's shape plus an axis of classes in
// front.
bool has_class_shape(const at::Tensor& output, const at::Tensor& target) {
  return output.dim() == target.dim() + 1 && output.dim() > 1 &&
         output.sizes().slice(2) == target.sizes().slice(1);
}

// Output of the network in evaluation mode; restores its mode. Undefined if
// forward() fails.
at::Tensor output_for(const Model& model, const at::Tensor& input) {
  const torch::NoGradGuard no_grad;
  const bool was_training = model.module->is_training();
  model.module->eval();
  at::Tensor output;
  try {
    output = model.forward(input);
  } catch (const std::exception&) {
    output.reset();
  }
  model.module->train(was_training);
  return output;
}

data::Batch first_batch(const DataSets& sets) {
  data::LoaderOptions options;
  options.global_batch = 1;
  options.workers = 0;
  options.shuffle = false;
  options.transform = sets.transform;
  data::Loader loader(std::make_shared<Slice>(sets.train, 0, 1), 0, 1, options);
  return *loader.begin();
}

}  // namespace

void check_targets(const RunConfig& config, const DataSets& sets,
                   const std::string& source) {
  const bool is_cut = splits_images(config.parallel.strategy);
  const auto check = [&](const char* name, const data::Dataset* set) {
    if (set && set->size() > 0)
      check_type(config.loss, first_target(*set, is_cut),
                 concat(" of the ", name, " set", source));
  };
  check("training", sets.train.get());
  check("validation", sets.validation.get());
  check("test", sets.test.get());
}

void check_shapes(const std::string& loss, const at::Tensor& output,
                  const at::Tensor& target) {
  if (!takes_classes(loss)) {
    SHEAF_CHECK(output.numel() == target.numel(), "the loss is mse, but the ",
                "network's output for an example has shape ",
                shape_of_row(output), " and the target ", shape_of_row(target),
                target.dim() == 1 && !target.is_floating_point()
                    ? ", one integer; set loss=cross_entropy if it is a "
                      "class, or"
                    : ";",
                " give the network as many outputs as a target has elements");
    return;
  }
  check_type(loss, target, "");
  if (target.is_floating_point())
    SHEAF_CHECK(output.sizes() == target.sizes(),
                "floating-point targets are class probabilities, one for each "
                "output; the network's output for an example has shape ",
                shape_of_row(output), " and the target ", shape_of_row(target),
                "; make both shapes equal, or store class indices as integers");
  else
    SHEAF_CHECK(has_class_shape(output, target), "the loss is ", loss,
                ", but the network's output for an example has shape ",
                shape_of_row(output), " and the target ", shape_of_row(target),
                "; the output's shape must be the number of classes followed "
                "by the target's shape");
}

std::int64_t check_outputs(const RunConfig& config, const Model& model,
                           const DataSets& sets, const std::string& source) {
  const data::Batch batch = first_batch(sets);
  const at::Tensor output = output_for(model, batch.data);
  if (!output.defined() || output.dim() == 0 || output.size(0) != 1) return 0;
  const std::string where = config.where("network");
  try {
    check_shapes(config.loss, output, batch.target);
  } catch (const UsageError& error) {
    throw UsageError(concat(where, "network and training set", source,
                            " do not match: ", error.what()));
  }
  const std::int64_t classes = sets.train->classes();
  if (!takes_classes(config.loss) || classes == 0 || output.dim() != 2)
    return 0;
  const std::int64_t outputs = output.size(1);
  SHEAF_CHECK(outputs >= classes, where, "the training set", source, " has ",
              classes, " classes (labels 0 to ", classes - 1,
              "), but the network has only ", outputs,
              " outputs; give its last layer at least ", classes);
  return outputs;
}

}  // namespace sheaf::train

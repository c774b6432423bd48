"""Compiles programs that use the public interface in wrong ways, and checks that
the first error of the compiler names the mistake. A correct program is compiled
first, to show that the errors are those of the mistakes.

usage: wrong_programs.py COMPILE_COMMANDS [--all]
"""
import json
import shlex
import subprocess
import sys
import tempfile

HEAD = """
#include <torch/torch.h>
#include <sheaf/sheaf.hpp>

struct NetImpl : torch::nn::Module {
  NetImpl() { line = register_module("line", torch::nn::Linear(2, 1)); }
  torch::Tensor forward(const torch::Tensor& x) { return line->forward(x); }
  torch::nn::Linear line{nullptr};
};
TORCH_MODULE(Net);
struct Silent : torch::nn::Module {
  void forward(const torch::Tensor&) {}
};
struct Counting : torch::nn::Module {
  int forward(const torch::Tensor& x) { return static_cast<int>(x.dim()); }
};

void use(const sheaf::World& world) {
  auto net = std::make_shared<NetImpl>();
  const auto x = torch::ones({4, 2});
  %s
}
"""

CORRECT = """
  Net holder;
  sheaf::DataParallel a(net, world);
  sheaf::DataParallel b(holder, world.group(), {.bucket_mb = 1});
  sheaf::DataParallel<NetImpl> c(net, world, sheaf::DataParallelOptions());
  sheaf::DadParallel d(net, world, {.mode = sheaf::DadMode::kEdad});
  sheaf::DadParallel e(holder, world, {.average = sheaf::Average::kRanks,
                                       .bucket_mb = 1});
  sheaf::SpatialParallel f(net, world);
  sheaf::SpatialParallel g(holder, world, {.grid = "1x1", .bucket_mb = 1});
  sheaf::DataParallel h(torch::nn::Linear(2, 1), world, {});
  for (const auto& tensor : {a(x), b.forward(x), c(x), d(x), e(x), f(x), g(x)})
    tensor.sum().backward();
  torch::optim::SGD optimizer(d.parameters(), 0.1);
  f.train();
  g.eval();
  f.named_parameters();
  auto guard = e.no_sync();
  auto join = a.join();
  h->weight.zero_();
  (*f).line->reset_parameters();
  g.module()->zero_grad();
"""

# Name, program, text in the first error.
WRONG = [
    ("object instead of a pointer",
     "NetImpl plain; sheaf::DataParallel model(plain, world);",
     "not as an object"),
    ("raw pointer",
     "sheaf::DadParallel model(net.get(), world, {.rank = 2});",
     "not as a raw pointer"),
    ("unknown option",
     "sheaf::DataParallel model(net, world, {.bucket = 1});",
     "bucket"),
    ("no group", "sheaf::SpatialParallel model(net);", "the group is missing"),
    ("arguments that forward() does not take",
     "sheaf::DataParallel model(net, world); model(x, 3);",
     "no forward() that takes these arguments"),
]
# Further ones, with the option --all: each takes several seconds.
MORE = [
    ("options of another wrapper",
     "sheaf::DadParallel model(net, world, sheaf::DataParallelOptions());",
     "must be the options of this wrapper"),
    ("something else than a group",
     "sheaf::DataParallel model(net, &world);",
     "the second argument must be a group"),
    ("const module",
     "std::shared_ptr<const NetImpl> fixed = net;"
     "sheaf::DataParallel model(fixed, world);",
     "the module is const"),
    ("holder as the type of the module",
     "Net holder; sheaf::DadParallel<Net> model(holder, world);",
     "derived from torch::nn::Module"),
    ("forward() without a result",
     "sheaf::DataParallel model(std::make_shared<Silent>(), world); model(x);",
     "forward() returns nothing"),
    ("unknown option of a holder's wrapper",
     "Net holder; sheaf::SpatialParallel model(holder, world, {.tiles = 2});",
     "tiles"),
    ("not a module",
     "sheaf::DataParallel model(std::make_shared<int>(1), world);",
     "derived from torch::nn::Module"),
    ("forward() without tensors",
     "sheaf::DadParallel model(std::make_shared<Counting>(), world); model(x);",
     "forward() must return a tensor"),
    ("join() of DadParallel",
     "sheaf::DadParallel model(net, world); model.join();",
     "DadParallel has no join()"),
]


def command_of(path):
    """The compiler's command line for the target torch_header."""
    with open(path) as file:
        entries = json.load(file)
    entry = next(one for one in entries if "/torch_header." in one["command"]
                 and "c++-header" not in one["command"])
    words = shlex.split(entry["command"])
    words = words[:words.index("-o")]
    return words + ["-fsyntax-only", "-fdiagnostics-color=never"], \
        entry["directory"]


def errors_of(command, folder, body):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(HEAD % body)
        source.flush()
        result = subprocess.run(command + [source.name], cwd=folder,
                                capture_output=True, text=True)
    lines = result.stderr.splitlines()
    return result.returncode, [one for one in lines if "error:" in one], lines


def check(path, programs):
    command, folder = command_of(path)
    faults = []
    code, _, lines = errors_of(command, folder, CORRECT)
    if code:
        faults.append("the correct program: " + "\n".join(lines[:40]))
    for name, body, expected in programs:
        code, errors, lines = errors_of(command, folder, body)
        first = errors[0] if errors else "no error"
        print(f"{name}: {first.split('error: ')[-1]}", flush=True)
        if code == 0 or expected not in first:
            faults.append(f"{name}: '{expected}' is not in the first error:\n"
                          + "\n".join(lines[:20]))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    wanted = WRONG + MORE if "--all" in sys.argv[2:] else WRONG
    sys.exit(check(sys.argv[1], wanted))

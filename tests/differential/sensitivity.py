"""Checks that the differential tester detects faults: inserts one known fault
at a time into a copy of the sources, builds the tester and counts the cases
that it needs to find the fault.

usage: sensitivity.py ROOT FOLDER [--cases N] [--jobs N] [FAULT]...
       sensitivity.py ROOT --check

FOLDER holds the copy and its build. Exit code 1 if a fault is not found.
--check: checks that the edits below still fit the sources; nothing is built.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

# By name: the fault, and the edits (file, text, replacement) that insert it.
FAULTS = {
    "type": ("a parameter's new type is not noticed", [
        ("sheaf/parallel/common/wrapped_parameters.cpp",
         "(!accumulator || torch::autograd::impl::try_get_grad_accumulator(\n"
         "                              now) == accumulator)",
         "true")]),
    "frozen": ("freezing and unfreezing is not noticed", [
        ("sheaf/parallel/common/wrapped_parameters.cpp",
         "now.requires_grad() == (accumulator != nullptr) &&", "")]),
    "shared memory": ("gradients are averaged in memory that others read", [
        ("sheaf/parallel/common/gradient_hooks.cpp",
         "const bool owns_memory = sharers.are_all();",
         "const bool owns_memory = true;")]),
    "hooks": ("deltas are taken before the user's hooks", [
        ("sheaf/parallel/products/product_tap.cpp",
         "    at_end_of_backward([cut] {});\n",
         "    at_end_of_backward([cut] {});\n"
         "    handlers_.on_gradient(gradient.detach());\n"),
        ("sheaf/parallel/products/product_tap.cpp",
         "  cut->restore();\n  handlers_.on_gradient(gradient.detach());\n",
         "  cut->restore();\n")]),
    "broken pass": ("a backward() that threw is continued", [
        ("sheaf/parallel/common/backward_pass.cpp",
         "if (open_ && !open_->end.expired()) return;\n"
         "  if (open_) discard_locked();",
         "if (open_) return;"),
        ("sheaf/parallel/common/backward_pass.cpp",
         "if (open_ && (open_->end.expired() || !current_backward())) "
         "discard_locked();", "")]),
    "not finite": ("PowerSGD remembers what is not finite", [
        ("sheaf/parallel/data/power_sgd.cpp",
         "if (!layout.first.is_finite()) return false;", ""),
        ("sheaf/parallel/data/power_sgd.cpp",
         "return has_finite_product(matrix); });",
         "return has_finite_product(matrix) || true; });")]),
    "derived deltas": ("edad derives deltas whatever was added to them", [
        ("sheaf/parallel/products/delta_chain.cpp",
         "gradient._version() != version_)\n    is_whole_ = false;",
         "gradient._version() != version_)\n    return;")]),
    "repeated rows": ("rank-dad takes rounding for a direction", [
        ("sheaf/parallel/matrix/small_matrix_loops.hpp",
         "  make_other_columns(problem, block, /*least=*/0.5);\n", "")]),
    "nearest": ("nearest places are rounded in double", [
        ("sheaf/spatial/ops/resampling.cpp",
         "  rule.low = places_of_outputs(probe);\n",
         "  const ResampledAxis& axis = probe.axis();\n"
         "  for (std::int64_t o = 0; o < axis.outputs; ++o)\n"
         "    rule.low.push_back(static_cast<std::int64_t>(\n"
         "        static_cast<double>(o) * static_cast<double>(axis.inputs) /\n"
         "        static_cast<double>(axis.outputs)));\n  return rule;\n")]),
    "flattened": ("operations take flattened images for ordinary ones", [
        ("sheaf/spatial/split/dispatch.cpp",
         "if (rule.flat == Flat::kRefused)", "if (false)")]),
    "out": ("operations with `out` fill one tile only", [
        ("sheaf/spatial/split/dispatch.cpp", "if (has_out(call))",
         "if (false)")]),
    "create_graph": ("gradients of gradients lack the other tiles' part", [
        ("sheaf/spatial/split/dispatch.cpp",
         "if (const std::string reason = why_unusable(given); "
         "!reason.empty())",
         "if (const std::string reason = why_unusable(given); false)")]),
}

FIRST_SEED = 1


def copy_sources(root, tree):
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = os.path.join(root, name), os.path.join(tree, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    continue  # unchanged: its object files stay valid
        shutil.copy(source, target)


def edited(tree, edits):
    """By path: the original and the edited content."""
    files = {}
    for name, text, replacement in edits:
        path = os.path.join(tree, name)
        if path not in files:
            with open(path, encoding="utf-8") as file:
                files[path] = 2 * [file.read()]
        content = files[path][1]
        if content.count(text) != 1:
            raise SystemExit(f"{name} no longer has one place with\n{text}\n"
                             "adapt FAULTS in sensitivity.py")
        files[path][1] = content.replace(text, replacement)
    return files


def write(files, which):
    for path, contents in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(contents[which])


def build(tree, jobs):
    subprocess.run(["cmake", "--build", os.path.join(tree, "build"), "-j",
                    str(jobs), "--target", "differential"],
                   check=True, stdout=subprocess.DEVNULL)


def cases_until_found(tree, cases):
    """The number of the first case that fails; None if all pass."""
    program = os.path.join(tree, "build/tests/differential/differential")
    done = subprocess.run(
        [program, "--cases", str(cases), "--seed", str(FIRST_SEED),
         "--no-shrink", "--verbose"],
        capture_output=True, text=True, errors="replace",
        env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode == 0:
        return None, ""
    seeds = re.findall(r"^seed (\d+)", done.stdout, re.MULTILINE)
    reason = re.search(r"^seed \d+ fails: (.*)$", done.stdout, re.MULTILINE)
    return (int(seeds[-1]) - FIRST_SEED + 1 if seeds else 0,
            reason[1] if reason else f"exit code {done.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("faults", nargs="*", metavar="FAULT",
                        help=", ".join(FAULTS))
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check", action="store_true")
    options = parser.parse_intermixed_args()
    if options.check:
        for _, edits in FAULTS.values():
            edited(options.root, edits)
        return 0
    if options.folder is None:
        parser.error("give a folder for the copy and its build")
    unknown = set(options.faults) - set(FAULTS)
    if unknown:
        parser.error(f"no fault is called {sorted(unknown)[0]!r}; there are "
                     + ", ".join(FAULTS))
    tree = os.path.abspath(options.folder)
    copy_sources(os.path.abspath(options.root), tree)
    if not os.path.exists(os.path.join(tree, "build", "build.ninja")):
        subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)
    missed = 0
    for name in options.faults or FAULTS:
        what, edits = FAULTS[name]
        files = edited(tree, edits)
        write(files, 1)
        try:
            build(tree, options.jobs)
            start = time.monotonic()
            cases, reason = cases_until_found(tree, options.cases)
        finally:
            write(files, 0)
        missed += cases is None
        print(json.dumps({"fault": name, "what": what, "cases": cases,
                          "seconds": round(time.monotonic() - start, 1),
                          "reason": reason[:200]}), flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

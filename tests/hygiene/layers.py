"""Includes go one way: a layer includes itself and the layers below it.

usage: layers.py ROOT
"""
import re
import sys

import tree

# Each layer and those directly below it; see docs/architecture.md.
BELOW = {
    "base": [],
    "topo": ["base"],
    "comm": ["topo"],
    "halo": ["comm"],
    "tensor": ["comm"],
    "nn": ["tensor"],
    "parallel": ["tensor", "plan"],
    "spatial": ["parallel", "nn", "halo"],
    "data": ["tensor"],
    "train": ["spatial", "parallel", "nn", "data"],
    "plan": ["topo"],
    "report": ["base"],
    "cli": ["train", "plan", "report", "comm"],
}
# Of plan these may read the plain structs only.
PLAN_READERS = ("parallel", "train")
PLAN_STRUCTS = ("sheaf/plan/precision_plan.hpp", "sheaf/plan/exchange_plan.hpp")
WITH_TORCH = ("tensor", "nn", "parallel", "spatial", "data", "train", "cli")
# Known by their names: the second MPI of the tests compiles them again.
WITH_MPI = re.compile(r"(sheaf/comm|tests/\w+)/mpi_\w+\.(c|cpp)$|bench/")
# Theirs alone: it includes mpi.h for them and is not installed.
MPI_HEADER = "sheaf/comm/mpi_types.hpp"
# The user's one header stands above the layers that a program links.
TOP_HEADERS = ("sheaf/sheaf.hpp", "sheaf/sheaf.h")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = (".hpp", ".cpp", ".h", ".c", ".cu", ".cuh")


def reachable(layer):
    result = {layer}
    for lower in BELOW[layer]:
        result |= reachable(lower)
    return result


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "sheaf" else None


def fault_of(name, quote, included):
    """What is wrong with `name` including `included`, or None."""
    layer, target = layer_of(name), layer_of(included)
    knows_mpi = WITH_MPI.match(name) or name == MPI_HEADER
    if included in ("mpi.h", MPI_HEADER) and not knows_mpi:
        return "MPI belongs to sheaf/comm/mpi_*.cpp, tests and bench/"
    if layer is None:
        return None
    if re.match(r"(torch|ATen|c10)/", included) and layer not in WITH_TORCH:
        return "torch is known from the layer tensor upward only"
    if included in TOP_HEADERS:
        return "a layer does not include the user's header"
    is_generated = included.endswith(".inc")
    if quote == '"' and not included.startswith("sheaf/") and not is_generated:
        return 'write the whole path: "sheaf/<layer>/<file>"'
    if target is None:
        return None
    if target not in BELOW:
        return f"unknown layer {target}; add it to tests/hygiene/layers.py"
    if target == "plan" and layer in PLAN_READERS:
        allowed = included in PLAN_STRUCTS
        return None if allowed else "only plan's plain structs may be read"
    if target not in reachable(layer):
        return (f"{layer} may include "
                + ", ".join(sorted(reachable(layer))) + " only")
    return None


def check(root):
    names = tree.files_of(root, *SUFFIXES)
    findings = []
    for name in names:
        layer = layer_of(name)
        if layer is not None and layer not in BELOW:
            findings.append(f"{name}: the layer {layer} is not in layers.py")
            continue
        for number, line in enumerate(tree.text_of(root, name).splitlines(), 1):
            match = INCLUDE.match(line)
            fault = match and fault_of(name, match[1], match[2])
            if fault:
                findings.append(f"{name}:{number}: {match[2]}: {fault}")
    return tree.report(findings, f"includes of {len(names)} files")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

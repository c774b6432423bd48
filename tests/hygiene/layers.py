"""Includes go one way: a layer includes itself and the layers below it, and a
room of a layer includes itself and the rooms below it. A folder has at most
MOST_FILES sources, and folders of tests are named as the rooms.

usage: layers.py ROOT
"""
import collections
import re
import sys

import tree

# Each layer and those directly below it; see docs/architecture.md.
BELOW = {
    "base": [],
    "topo": ["base"],
    "formats": ["base"],
    "comm": ["topo"],
    "halo": ["comm"],
    "tensor": ["comm", "formats"],
    "nn": ["tensor"],
    "parallel": ["tensor", "plan"],
    "spatial": ["parallel", "nn", "halo"],
    "data": ["tensor"],
    "train": ["spatial", "parallel", "nn", "data"],
    "plan": ["topo"],
    "report": ["formats", "base"],
    "cli": ["train", "plan", "report", "comm"],
}
# Rooms are the folders of a layer. Each includes those before it in the list;
# what lies in the layer's own folder includes all of them.
ROOMS = {
    "formats": ["bytes", "arrays", "archives", "images", "texts"],
    "comm": ["kernels", "network", "transport", "host", "process", "group", "choice",
             "report", "rivals", "algorithms", "ddl"],
    "tensor": ["groups", "start", "files", "record"],
    "parallel": ["common", "precision", "matrix", "products", "data", "dad"],
    "spatial": ["split", "ops"],
    "data": ["dataset", "transform", "formats", "catalog", "load"],
    "train": ["config", "files", "setup", "log", "checkpoint", "strategy",
              "step", "loop", "trace"],
    "plan": ["format", "trace", "graph", "predict", "choose"],
    "report": ["runs", "draw", "page"],
    "cli": ["command", "launch", "bench", "sweep", "plan", "torch"],
}
MOST_FILES = 40
# Of plan these may read plain structs and shared rules only.
PLAN_READERS = ("parallel", "train")
PLAN_STRUCTS = "sheaf/plan/format/"
WITH_TORCH = ("tensor", "nn", "parallel", "spatial", "data", "train", "cli")
# Known by their names: the second MPI of the tests compiles them again.
WITH_MPI = re.compile(
    r"(sheaf/comm|tests/\w+)/(\w+/)?mpi_\w+\.(c|cpp)$|bench/")
# Theirs alone: it includes mpi.h for them and is not installed.
MPI_HEADER = "sheaf/comm/transport/mpi_types.hpp"
# The user's headers stand above the layers that a program links.
TOP_HEADERS = ("sheaf/sheaf.hpp", "sheaf/sheaf.h")
# It implements the second.
C_INTERFACE = "sheaf/comm/ddl/c_api.cpp"

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


def room_of(path):
    parts = path.split("/")
    return parts[2] if len(parts) > 3 else ""


def room_fault(layer, name, included):
    """What is wrong between two files of a layer, or None."""
    rooms = ROOMS.get(layer, [])
    room, target = room_of(name), room_of(included)
    for one in (room, target):
        if one and one not in rooms:
            return f"unknown room {one}; add it to tests/hygiene/layers.py"
    if room == target or not room:
        return None
    if target in rooms[:rooms.index(room)]:
        return None
    return (f"the room {room} of {layer} may include "
            + (", ".join(rooms[:rooms.index(room)]) or "no other") + " only")


def folder_faults(names):
    """Folders with too many sources, and tests in folders that are no room."""
    count = collections.Counter(
        name.rsplit("/", 1)[0] for name in names if name.startswith("sheaf/"))
    faults = [f"{folder}: {number} sources, at most {MOST_FILES}; divide it"
              for folder, number in sorted(count.items())
              if number > MOST_FILES]
    for name in names:
        parts = name.split("/")
        if parts[0] != "tests" or len(parts) < 4 or parts[1] not in ROOMS:
            continue
        if parts[2] not in ROOMS[parts[1]]:
            faults.append(f"{name}: {parts[1]} has no room {parts[2]}")
    return faults


def manual_faults(root):
    """Layers and rooms that docs/architecture.md does not name."""
    path = "docs/architecture.md"
    try:
        text = tree.text_of(root, path)
    except FileNotFoundError:
        return []
    wanted = [(layer, f"`{layer}`") for layer in BELOW]
    faults = [f"{path}: the layer {layer} is not named"
              for layer, word in wanted if word not in text]
    for layer, rooms in ROOMS.items():
        start = text.find(f"| `{layer}/` |")
        table = text[start:text.find("\n\n", start)] if start >= 0 else ""
        faults += [f"{path}: the room {room} of {layer} is not named"
                   for room in rooms if f"| `{room}` |" not in table]
    return faults


def fault_of(name, quote, included):
    """What is wrong with `name` including `included`, or None."""
    layer, target = layer_of(name), layer_of(included)
    knows_mpi = WITH_MPI.match(name) or name == MPI_HEADER
    if included in ("mpi.h", MPI_HEADER) and not knows_mpi:
        return "MPI belongs to sheaf/comm/*/mpi_*.cpp, tests and bench/"
    if layer is None:
        return None
    if re.match(r"(torch|ATen|c10)/", included) and layer not in WITH_TORCH:
        return "torch is known from the layer tensor upward only"
    if included in TOP_HEADERS and name != C_INTERFACE:
        return "a layer does not include the user's header"
    is_generated = included.endswith(".inc")
    if quote == '"' and not included.startswith("sheaf/") and not is_generated:
        return 'write the whole path: "sheaf/<layer>/<file>"'
    if target is None:
        return None
    if target not in BELOW:
        return f"unknown layer {target}; add it to tests/hygiene/layers.py"
    if target == "plan" and layer in PLAN_READERS:
        allowed = included.startswith(PLAN_STRUCTS)
        return None if allowed else "only plan/format may be included"
    if target == layer:
        return room_fault(layer, name, included)
    if target not in reachable(layer):
        return (f"{layer} may include "
                + ", ".join(sorted(reachable(layer))) + " only")
    return None


def check(root):
    names = tree.files_of(root, *SUFFIXES)
    findings = folder_faults(names) + manual_faults(root)
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

"""Measures how many small faults the tests detect: a changed comparison, a
number that is off by one, a dropped call, two swapped arguments. The faults of
each layer are listed in lists/LAYER.jsonl. All of them are compiled into a copy
of the sources at once, each selected at run time (mutants.hpp), so that a layer
is built once and then tested once per fault, N faults at the same time (--jobs).

usage: mutation.py ROOT FOLDER [--jobs N] [--only N,N] [LAYER]...
       mutation.py ROOT --choose LAYER [--seed N] [--count N]
       mutation.py ROOT --check | --table

FOLDER holds the copy and its build. A layer's tests run until one fails; only
tests that reach a fault's place run, quick ones first, then those on real ranks.
Tests that use ten times as much processor time as without a fault, or almost
none for a minute, count as failed: on a busy machine their time says nothing.
The results replace the layer's rows in results/mutations.jsonl. Exit code 1 if
less than 85 % of a layer's faults are detected.
--choose: keeps the faults of a list that still fit the sources, and adds others
at random. A fault that changes no behavior stays in the list with the key
"equivalent" and the reason, and does not count.
--check: checks that the lists still fit the sources. --table: prints the
results as a table in Markdown.
"""
import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import sites

LAYERS = ("base", "topo", "formats", "comm", "halo", "plan", "report",
          "tensor", "nn", "data", "parallel", "spatial", "train", "cli")
COUNT = 30
SHARE = 0.85
IDLE = 60    # seconds
BUSY = 0.05  # of a core; ranks that hang use less, to watch each other
HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = "results/mutations.jsonl"
# No test can run them everywhere.
EXCLUDED = re.compile(r"/(?:no_\w+|\w*nccl\w*|\w*cuda\w*|cast_kernels\w*|slurm"
                      r"|host_lock|\w*gloo_rival\w*|\w*mpi_rival\w*)\.[ch]pp$")
INCLUDE = '#include "tests/mutation/mutants.hpp"\n'


# --- The lists ---

def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def list_path(layer):
    return os.path.join(HERE, "lists", f"{layer}.jsonl")


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def sources_of(root, layer):
    result = []
    for folder, _, names in os.walk(os.path.join(root, "sheaf", layer)):
        result += [os.path.relpath(os.path.join(folder, name), root)
                   for name in names if name.endswith((".cpp", ".hpp"))]
    return sorted(name for name in result if not EXCLUDED.search(name))


def squeeze(text):
    return " ".join(text.split())


def described(text):
    """The sites of a source with their descriptions, which stay valid when
    lines move: the line, the code and the count of equal ones before it."""
    seen = Counter()
    for site in sites.sites_of(text):
        start = text.rfind("\n", 0, site.start) + 1
        end = text.find("\n", site.start)
        key = (site.kind, squeeze(text[start:end]), squeeze(site.text))
        yield site, {"kind": site.kind, "line": key[1], "code": key[2],
                     "fault": squeeze(site.mutant), "index": seen[key]}
        seen[key] += 1


def same_place(fault, description):
    return all(fault[key] == value for key, value in description.items())


def located(root, layer, faults):
    """By file: pairs of a site and its fault. Also the faults without one. A
    file that moved to another room is found by its name."""
    by_name = defaultdict(list)
    for name in sources_of(root, layer):
        by_name[os.path.basename(name)].append(name)
    found, missing = defaultdict(list), []
    for fault in faults:
        names = [fault["file"], *by_name[os.path.basename(fault["file"])]]
        for name in names:
            if not os.path.exists(os.path.join(root, name)):
                continue
            site = next((site for site, description in
                         described(read(root, name))
                         if same_place(fault, description)), None)
            if site:
                found[name].append((site, fault))
                break
        else:
            missing.append(fault)
    return found, missing


def overlaps(site, others):
    return any(site.start < other.end and other.start < site.end
               for other, _ in others)


def choose(root, layer, seed, count):
    old = read_rows(list_path(layer))
    found, _ = located(root, layer, old)
    kept = [{**fault, "file": name}
            for name, pairs in found.items() for _, fault in pairs]
    numbers = {fault["number"] for fault in old}
    number = max(numbers, default=100 * LAYERS.index(layer) - 1) + 1
    generator = random.Random(seed)
    candidates = defaultdict(list)
    for name in sources_of(root, layer):
        for site, description in described(read(root, name)):
            candidates[site.kind].append((name, site, description))
    for kind in sites.KINDS:
        generator.shuffle(candidates[kind])
    used = sum("equivalent" not in fault for fault in kept)
    turn = 0
    while used < count and any(candidates.values()):
        kind = sites.KINDS[turn % len(sites.KINDS)]
        turn += 1
        if not candidates[kind]:
            continue
        name, site, description = candidates[kind].pop()
        if overlaps(site, found[name]):
            continue
        fault = {"number": number, "file": name, **description}
        found[name].append((site, fault))
        kept.append(fault)
        number += 1
        used += 1
    write_rows(list_path(layer), sorted(kept, key=lambda f: f["number"]))
    print(f"{layer}: {len(kept)} faults, {used} count; candidates: "
          + ", ".join(f"{kind} {len(candidates[kind])}"
                      for kind in sites.KINDS))


def check(root):
    lost = 0
    for layer in LAYERS:
        _, missing = located(root, layer, read_rows(list_path(layer)))
        for fault in missing:
            print(f"{fault['file']}: fault {fault['number']} no longer fits: "
                  f"{fault['line']}; run mutation.py . --choose {layer}")
        lost += len(missing)
    return 1 if lost else 0


# --- The copy with the faults ---

def with_faults(text, pairs):
    for site, fault in sorted(pairs, key=lambda pair: -pair[0].start):
        text = (text[:site.start]
                + site.inserted.replace(sites.NUMBER, str(fault["number"]))
                + text[site.end:])
    if "#pragma once\n" in text:
        return text.replace("#pragma once\n", "#pragma once\n" + INCLUDE, 1)
    return INCLUDE + text


def faulty_sources(root):
    result = {}
    for layer in LAYERS:
        found, _ = located(root, layer, read_rows(list_path(layer)))
        for name, pairs in found.items():
            result[name] = with_faults(read(root, name), pairs).encode()
    return result


def make_copy(root, tree):
    """Writes only the files that changed, so that object files stay valid."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached",
         "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True).stdout
    faulty = faulty_sources(root)
    names = [name for name in listing.split("\0")
             if name and os.path.isfile(os.path.join(root, name))]
    for name in names:
        source, target = os.path.join(root, name), os.path.join(tree, name)
        with open(source, "rb") as file:
            content = faulty.get(name, file.read())
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(content)
        shutil.copymode(source, target)
    for layer in LAYERS:
        for suffix in ("test", "ranks"):
            add_record(tree, layer, suffix)


def add_record(tree, layer, suffix):
    target = os.path.join(tree, "tests", layer, f"zz_record_{suffix}.cpp")
    if not os.path.exists(target):
        shutil.copy(os.path.join(HERE, "record.cpp"), target)


def build(tree, targets, jobs):
    folder = os.path.join(tree, "build")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)
    done = subprocess.run(["cmake", "--build", folder, "-j", str(jobs),
                           "--target", *targets], capture_output=True,
                          text=True, errors="replace")
    if done.returncode:
        errors = [line for line in done.stdout.splitlines()
                  if "error:" in line or "FAILED" in line]
        raise SystemExit("\n".join(errors[:40]) or done.stdout[-4000:])


def targets_of(tree, layer):
    listing = subprocess.run(
        ["ninja", "-C", os.path.join(tree, "build"), "-t", "targets", "all"],
        capture_output=True, text=True).stdout
    ranks = f"ranks_{layer}"
    return [f"test_{layer}"], ([ranks] if re.search(
        rf"^{ranks}: phony", listing, re.MULTILINE) else [])


# --- The tests ---

def run(command, tree, seconds, **variables):
    """Exit code and output; code None if it used more processor time than
    `seconds`, or almost none for IDLE seconds."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=os.path.join(tree, "build"), stdout=output,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **variables})
        code = wait(process, seconds)
        output.seek(0)
        return code, output.read()


def wait(process, seconds):
    used, seen, since = 0, time.monotonic(), time.monotonic()
    while True:
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass
        now = processor_seconds(process.pid)
        if now > used + BUSY * (time.monotonic() - seen):
            since = time.monotonic()
        used, seen = now, time.monotonic()
        if now > seconds or time.monotonic() > since + IDLE:
            for number, _ in processes_of(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            process.wait()
            return None


def processes_of(session):
    """The processes of a session, with the ticks of processor time that they
    and their ended children used."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[3]) == session:
            yield int(name), sum(map(int, fields[11:15]))


def processor_seconds(session):
    return (sum(ticks for _, ticks in processes_of(session))
            / os.sysconf("SC_CLK_TCK"))


class Tests:
    """The tests of a layer: how long each takes, and what it reaches."""

    def __init__(self, tree, layer):
        self.tree, self.layer = tree, layer
        self.program = os.path.join(tree, "build/tests", f"test_{layer}")
        record = os.path.join(tree, f"record_{layer}.txt")
        if os.path.exists(record):
            os.remove(record)
        _, output = run([self.program, "--gtest_color=no"], tree, 3600,
                        SHEAF_MUTANT_RECORD=record)
        self.seconds = {name: int(ms) / 1000 for name, ms in re.findall(
            r"^\[       OK \] (\S+) \((\d+) ms\)", output, re.MULTILINE)}
        self.failed = set(re.findall(r"^\[  FAILED  \] ([^\s,]+).*\(\d+ ms\)",
                                     output, re.MULTILINE))
        self.reached = defaultdict(set)
        if os.path.exists(record):
            with open(record, encoding="utf-8") as file:
                for number, _, test in (line.rstrip().partition(" ")
                                        for line in file):
                    self.reached[int(number)].add(test)
        self.ranks_seconds = None

    def detect(self, number):
        """The test that fails with the fault; None if all pass."""
        names = sorted(self.reached[number] & set(self.seconds),
                       key=self.seconds.get)
        parts, total = defaultdict(list), 0
        for name in names:
            total += self.seconds[name]
            parts[min(int(math.log10(max(total, 1))), 2)].append(name)
        return next(filter(None, (self.detect_in(number, part)
                                  for part in parts.values())), None)

    def detect_in(self, number, names):
        usual = sum(self.seconds[name] for name in names)
        code, output = run(
            [self.program, "--gtest_color=no", "--gtest_fail_fast",
             "--gtest_filter=" + filter_of(names)],
            self.tree, 10 * usual + 20, SHEAF_MUTANT=str(number))
        if code == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.MULTILINE)
        if failed:
            return failed[0]
        started = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        how = "does not end" if code is None else "crash"
        return f"{started[-1] if started else 'start'} ({how})"

    def detect_on_ranks(self, number):
        command = ["ctest", "--stop-on-failure", "-L", f"^{self.layer}$",
                   "-R", ": ranks np=[0-9]$"]
        if self.ranks_seconds is None:
            code, output = run(command, self.tree, 1800)
            if code != 0:
                print(output[-3000:])
                raise SystemExit("the tests on ranks fail without a fault")
            self.ranks_seconds = sum(map(float, re.findall(
                r"Passed +([\d.]+) sec", output)))
        code, output = run(command, self.tree, 10 * self.ranks_seconds + 20,
                           SHEAF_MUTANT=str(number))
        failed = re.findall(r"^\s*\d+ - (.*) \(", output, re.MULTILINE)
        return None if code == 0 else (failed or ["ranks"])[0]


def filter_of(names):
    text = ":".join(names)
    if len(text) < 100000:
        return text
    return ":".join(sorted({name.split(".")[0] + ".*" for name in names}))


def unlike(program):
    """Faults that swap arguments of different types: they do nothing."""
    listing = subprocess.run(["nm", program], capture_output=True,
                             text=True).stdout
    return {int(number) for number in
            re.findall(r"sheaf_unlike_argumentsILi(\d+)E", listing)}


# --- The campaign ---

def measure(root, tree, layer, options):
    tests_targets, rank_targets = targets_of(tree, layer)
    build(tree, tests_targets, options.jobs)
    tests = Tests(tree, layer)
    if tests.failed:
        print(f"{layer}: these fail without a fault and are left out:",
              *sorted(tests.failed))
    faults = read_rows(list_path(layer))
    invalid = unlike(tests.program)
    for fault in faults:
        if fault["number"] in invalid:
            fault["equivalent"] = "the arguments have different types"
    write_rows(list_path(layer), faults)
    found, _ = located(root, layer, faults)
    chosen = [{**fault, "file": name}
              for name, pairs in found.items() for _, fault in pairs
              if not options.only or str(fault["number"]) in options.only]
    with ThreadPoolExecutor(options.jobs) as threads:
        rows = list(threads.map(lambda fault: row_of(tests, fault), chosen))
    survivors = [row for row in rows if row["result"] == "survived"]
    if survivors and rank_targets and not options.no_ranks:
        build(tree, rank_targets + ["sheaf"], options.jobs)
        for row in survivors:
            row["test"] = tests.detect_on_ranks(row["number"])
            row["result"] = "caught" if row["test"] else "survived"
            print_row(row)
    return sorted(rows, key=lambda row: row["number"])


def row_of(tests, fault):
    row = {"benchmark": "mutations", "layer": tests.layer, **{
        key: fault[key] for key in ("number", "kind", "file", "line", "code",
                                    "fault")}}
    if "equivalent" in fault:
        return {**row, "result": "equivalent", "reason": fault["equivalent"]}
    start = time.monotonic()
    test = tests.detect(fault["number"])
    row.update(result="caught" if test else "survived", test=test,
               tests=len(tests.reached[fault["number"]]),
               seconds=round(time.monotonic() - start, 1))
    print_row(row)
    return row


def print_row(row):
    print(f"{row['number']} {row['result']}: {row['file']}: {row['line']}\n"
          f"    {row['code']} -> {row['fault'] or 'dropped'}; "
          f"{row['tests']} tests reach it, {row['test']} fails", flush=True)


def counted(rows):
    """The first COUNT faults of a layer that are not equivalent."""
    return [row for row in rows if row["result"] != "equivalent"][:COUNT]


def commit_of(root):
    return subprocess.run(
        ["git", "-c", f"safe.directory={root}", "rev-parse", "--short", "HEAD"],
        cwd=root, capture_output=True, text=True).stdout.strip()


def save(root, layer, rows, only):
    path = os.path.join(root, RESULTS)
    origin = {"command": f"tests/mutation/mutation.py . build-mutations {layer}",
              "commit": commit_of(root)}
    rows = [{**row, **origin} for row in rows]
    numbers = {row["number"] for row in rows}
    others = [row for row in read_rows(path) if row["layer"] != layer
              or (only and row["number"] not in numbers)]
    write_rows(path, sorted(others + rows, key=lambda row: row["number"]))


def results_by_layer(root):
    result = defaultdict(list)
    for row in read_rows(os.path.join(root, RESULTS)):
        result[row["layer"]].append(row)
    return result


def print_table(root):
    print("| layer | faults | caught | survived | equivalent | survivors |\n"
          "|---|---|---|---|---|---|")
    for layer, rows in results_by_layer(root).items():
        counts = Counter(row["result"] for row in counted(rows))
        names = ", ".join(f"`{os.path.basename(row['file'])}` ({row['number']})"
                          for row in counted(rows)
                          if row["result"] == "survived")
        equivalent = sum(row["result"] == "equivalent" for row in rows)
        print(f"| `{layer}` | {sum(counts.values())} | {counts['caught']} | "
              f"{counts['survived']} | {equivalent} | {names} |")


def share_caught(rows):
    results = [row["result"] for row in counted(rows)]
    return results.count("caught") / max(len(results), 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("layers", nargs="*", metavar="LAYER")
    parser.add_argument("--choose", metavar="LAYER", choices=LAYERS)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", type=lambda text: text.split(","))
    parser.add_argument("--no-ranks", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_intermixed_args()
    root = os.path.abspath(options.root)
    if options.choose:
        return choose(root, options.choose, options.seed, options.count)
    if options.check:
        return check(root)
    if options.table:
        return print_table(root)
    if options.folder is None:
        parser.error("give a folder for the copy and its build")
    tree = os.path.abspath(options.folder)
    make_copy(root, tree)
    low = []
    for layer in options.layers or LAYERS:
        rows = measure(root, tree, layer, options)
        save(root, layer, rows, options.only)
        if share_caught(results_by_layer(root)[layer]) < SHARE:
            low.append(layer)
    print_table(root)
    if low:
        print("fewer than 85 % caught:", *low)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())

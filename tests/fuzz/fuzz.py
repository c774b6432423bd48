"""Runs fuzz targets with libFuzzer, under the address and undefined-behavior
sanitizers, and reports how many lines of the parsers the inputs reach.

usage: fuzz.py ROOT [--seconds N] [--jobs N] [--no-coverage] [--results]
               [TARGET]...

Builds ROOT/build-fuzz with clang (presets fuzz and fuzz-coverage) and runs each
target for N seconds (default: 60), JOBS at a time. The inputs that a target has
generated are kept in build-fuzz/corpus, so that the next run continues there.
The files of a target's parser are listed on its line "// parser:"; without one,
they are the sources of the headers that it includes. --results replaces the
targets' rows in results/fuzz.jsonl.
Exit code 1 if a target does not build or an input is a finding: a crash, an
uncaught exception, a leak, a report of a sanitizer, more than 10 s or 1 GB.
"""
import argparse
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LEAST_COVERAGE = 80.0  # percent of the lines of a parser's file
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=512"]
TOOLS = "19"  # version of clang and LLVM, as in CMakePresets.json
RESULTS = "results/fuzz.jsonl"
# Stack frames that say nothing about a finding.
INTERNAL = re.compile(r"^ *#\d+ .*( in fuzzer::|libc.so|__libc_start| in _start"
                      r"| in main |__sanitizer_)")


def text_of(path):
    return path.read_text(encoding="utf-8")


class Tree:
    """The folders of a checkout."""

    def __init__(self, root):
        self.root = Path(root).resolve()
        self.tests = self.root / "tests/fuzz"
        self.build = self.root / "build-fuzz"

    def targets(self):
        return sorted(path.stem for path in self.tests.glob("targets/*.cpp"))

    def parser_of(self, name):
        """The source files of a target's parser, relative to the root."""
        text = text_of(self.tests / f"targets/{name}.cpp")
        lines = re.findall(r"^// parser: (.+)$", text, re.MULTILINE)
        if lines:
            return " ".join(lines).split()
        headers = re.findall(r'^#include "(sheaf/.+)\.hpp"', text, re.MULTILINE)
        return [f"{header}.cpp" for header in headers
                if not header.startswith("sheaf/base/")
                and (self.root / f"{header}.cpp").exists()]

    def seeds(self, name):
        return self.tests / "corpus" / name

    def corpus(self, name):
        return self.build / "corpus" / name


def call(command, **options):
    """Runs a command; on failure prints its output and returns False."""
    done = subprocess.run([str(word) for word in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **options)
    if done.returncode:
        print(shlex.join(map(str, command)) + "\n" + done.stdout)
    return done.returncode == 0


def build(tree, preset, folder, goals):
    return call(["cmake", "--preset", preset], cwd=tree.root) and call(
        ["cmake", "--build", folder, "-j", str(os.cpu_count()), "--target",
         *goals], cwd=tree.root)


# --- Fuzzing ---

def fuzz_command(tree, name, seconds):
    dictionary = tree.tests / f"dictionaries/{name}.dict"
    return [tree.build / f"tests/fuzz/fuzz_{name}", *LIMITS,
            f"-max_total_time={seconds}", "-print_final_stats=1",
            f"-artifact_prefix={tree.build}/findings/{name}/",
            *([f"-dict={dictionary}"] if dictionary.exists() else []),
            tree.corpus(name),
            *([tree.seeds(name)] if tree.seeds(name).exists() else [])]


def fuzz(tree, name, seconds):
    """Runs one target; returns its row."""
    findings = tree.build / "findings" / name
    for folder in (findings, tree.corpus(name), tree.build / "logs"):
        folder.mkdir(parents=True, exist_ok=True)
    for path in findings.iterdir():
        path.unlink()
    log = tree.build / f"logs/{name}.log"
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [str(word) for word in fuzz_command(tree, name, seconds)],
            stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    busy = max(usage.ru_utime + usage.ru_stime, 0.01)
    output = log.read_text(encoding="utf-8", errors="replace")
    stats = dict(re.findall(r"stat::(\w+):\s+(\d+)", output))
    executed = int(stats.get("number_of_executed_units", 0))
    return {"target": name, "seconds": seconds, "executions": executed,
            "executions_per_processor_second": round(executed / busy),
            "corpus": sum(1 for _ in tree.corpus(name).iterdir()),
            "findings": len(list(findings.iterdir())) or int(code != 0)}


def explain_finding(tree, name):
    print(f"\n{name}: the end of build-fuzz/logs/{name}.log:")
    log = tree.build / f"logs/{name}.log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    starts = [i for i, line in enumerate(lines) if "ERROR:" in line
              or "runtime error" in line or "terminate called" in line
              or "does not hold" in line]
    start = starts[0] if starts else -20
    shown = [f"  {line}" for line in lines[start:]
             if not INTERNAL.search(line)]
    print("\n".join(shown[:25]))
    for path in sorted((tree.build / "findings" / name).iterdir()):
        program = f"build-fuzz/tests/fuzz/fuzz_{name}"
        found = path.relative_to(tree.root)
        print(f"""\
to reproduce:  {program} {found}
to shorten:    {program} -minimize_crash=1 -max_total_time=60 {found}
to keep it as a regression test:
               cp {found} tests/fuzz/corpus/{name}/regression-<what>""")


# --- Coverage ---

def coverage_of(tree, name):
    """Percent of lines by source file of the target's parser."""
    folder = tree.build / "coverage"
    program = folder / "tests/fuzz/fuzz_replay"
    profiles = folder / "profiles"
    profiles.mkdir(exist_ok=True)
    for path in profiles.glob(f"{name}@*"):
        path.unlink()
    inputs = [path for path in (tree.seeds(name), tree.corpus(name))
              if path.exists()]
    # %1m: processes add to one file. An input that ends its process is
    # reported by the run of the target.
    subprocess.run([program, name, *inputs], check=False,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env={**os.environ,
                        "LLVM_PROFILE_FILE": f"{profiles}/{name}@%1m.raw"})
    merged = profiles / f"{name}@.data"
    if not call([f"llvm-profdata-{TOOLS}", "merge", "-sparse", "-o", merged,
                 *profiles.glob(f"{name}@*.raw")]):
        return {}
    sources = [str(tree.root / source) for source in tree.parser_of(name)]
    listing = subprocess.run(
        [f"llvm-cov-{TOOLS}", "export", "-summary-only",
         f"-instr-profile={merged}", program, *sources],
        check=True, capture_output=True, text=True).stdout
    return {os.path.relpath(file["filename"], tree.root):
            round(file["summary"]["lines"]["percent"], 1)
            for file in json.loads(listing)["data"][0]["files"]}


def add_coverage(tree, rows):
    if not build(tree, "fuzz-coverage", tree.build / "coverage",
                 ["fuzz_replay"]):
        return
    for row in rows:
        row["coverage"] = coverage_of(tree, row["target"])


# --- Report ---

def least_coverage(row):
    return min(row.get("coverage", {}).values(), default=None)


def print_table(rows):
    print(f"\n{'target':16} {'runs':>11} {'runs/s':>8} {'corpus':>7} "
          f"{'findings':>8} {'lines':>7}  (of the parser's file with fewest)")
    for row in rows:
        least = least_coverage(row)
        print(f"{row['target']:16} {row['executions']:11,} "
              f"{row['executions_per_processor_second']:8,} {row['corpus']:7,} "
              f"{row['findings']:8} "
              + (f"{least:6.1f}%" if least is not None else "      -"))
    for row in rows:
        for name, percent in row.get("coverage", {}).items():
            if percent < LEAST_COVERAGE:
                print(f"{row['target']}: the inputs reach only {percent} % of "
                      f"the lines of {name}")


def processor():
    try:
        match = re.search(r"model name\s*:\s*(.+)",
                          text_of(Path("/proc/cpuinfo")))
    except OSError:
        match = None
    return match[1] if match else platform.machine()


def store(tree, rows):
    path = tree.root / RESULTS
    old = [json.loads(line) for line in text_of(path).splitlines()] \
        if path.exists() else []
    commit = subprocess.run(
        ["git", "-C", str(tree.root), "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=False).stdout.strip()
    extra = {"machine": f"{processor()}, {os.cpu_count()} cores",
             "command": "make fuzz", "commit": commit}
    new = {row["target"]: {"benchmark": "fuzz", **row, **extra}
           for row in rows}
    kept = {row["target"]: row for row in old}
    with open(path, "w", encoding="utf-8") as file:
        for _, row in sorted({**kept, **new}.items()):
            file.write(json.dumps(row) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("root")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--no-coverage", action="store_true")
    parser.add_argument("--results", action="store_true")
    parser.add_argument("targets", nargs="*")
    return parser.parse_intermixed_args()


def main():
    options = arguments()
    tree = Tree(options.root)
    names = options.targets or tree.targets()
    unknown = sorted(set(names) - set(tree.targets()))
    if unknown:
        print(f"no such target: {', '.join(unknown)}; targets are "
              + ", ".join(tree.targets()))
        return 2
    if not build(tree, "fuzz", tree.build, [f"fuzz_{name}" for name in names]):
        return 1
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(
            lambda name: fuzz(tree, name, options.seconds), names))
    for row in rows:
        if row["findings"]:
            explain_finding(tree, row["target"])
    if not options.no_coverage:
        add_coverage(tree, rows)
    print_table(rows)
    if options.results:
        store(tree, rows)
    return int(any(row["findings"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

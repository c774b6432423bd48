"""Every header compiles alone, without a header before it.

A build of each source alone (the preset dev) proves it for a header that some
source of sheaf/ includes first; the others are compiled here.

usage: headers.py ROOT [--cxx g++] [--cc gcc] [--flag=-I...]...
                  [--skip=sheaf/tensor/]...
"""
import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tree


FIRST_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def proven_by_the_build(root):
    """C++ headers that are the first include of a source."""
    sources = [name for name in tree.files_of(root, ".cpp")
               if name.startswith("sheaf/") and "/no_" not in name]
    firsts = (FIRST_INCLUDE.search(tree.text_of(root, name))
              for name in sources)
    return {first[1] for first in firsts if first and first[1].endswith(".hpp")}


def compile_line(name, options):
    if name.endswith(".h"):  # C programs include these
        return [options.cc, "-std=c11", "-x", "c"]
    return [options.cxx, "-std=c++20", "-x", "c++"]


def fault_of(root, name, options):
    line = compile_line(name, options)
    done = subprocess.run(
        [*line, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", ".",
         *options.flag, "-"],
        input=f'#include "{name}"\n', cwd=root, capture_output=True, text=True)
    return None if done.returncode == 0 else f"{name}:\n{done.stderr.strip()}"


def check(root, arguments=()):
    parser = argparse.ArgumentParser()
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--flag", action="append", default=[])
    parser.add_argument("--skip", action="append", default=[])
    options = parser.parse_args(arguments)
    proven = proven_by_the_build(root)
    names = [name for name in tree.files_of(root, ".hpp", ".h")
             if name.startswith("sheaf/") and name not in proven
             and not name.startswith(tuple(options.skip))]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        faults = pool.map(lambda name: fault_of(root, name, options), names)
        findings = [fault for fault in faults if fault]
    return tree.report(findings, f"{len(names)} headers")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1], sys.argv[2:]))

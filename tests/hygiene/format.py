"""C and C++ files are as clang-format 14 leaves them.

usage: format.py ROOT [--fix]
"""
import re
import shutil
import subprocess
import sys

import tree

VERSION = "14"  # Others break lines in other places.
SUFFIXES = (".hpp", ".cpp", ".h", ".c", ".cu", ".cuh")


def clang_format():
    """The program of the right version, or a reason why there is none."""
    seen = []
    for name in (f"clang-format-{VERSION}", "clang-format"):
        program = shutil.which(name)
        if program is None:
            continue
        text = subprocess.run([program, "--version"], check=True,
                              capture_output=True, text=True).stdout
        match = re.search(r"version (\d+)", text)
        if match and match[1] == VERSION:
            return program, None
        seen.append(text.strip())
    return None, f"clang-format {VERSION} is needed, found: {seen or 'none'}"


def check(root, fix=False):
    program, reason = clang_format()
    if program is None:
        tree.skip(reason)
    names = tree.files_of(root, *SUFFIXES)
    if not names:
        return tree.report([], "no files")
    mode = ["-i"] if fix else ["--dry-run", "-Werror"]
    done = subprocess.run([program, "--style=file", *mode, *names], cwd=root,
                          capture_output=True, text=True)
    findings = []
    if done.returncode:
        findings = [done.stderr.strip(), "to put it right: make format"]
    return tree.report(findings, f"formatting of {len(names)} files")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1], "--fix" in sys.argv[2:]))

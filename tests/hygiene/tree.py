"""Shared by the checks: the files of a tree, and the report of findings."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def files_of(root, *suffixes):
    """Paths relative to root: what git tracks or would track; without git,
    all files outside of hidden and build folders."""
    root = Path(root)
    if (root / ".git").exists() and shutil.which("git"):
        listing = subprocess.run(
            ["git", "-c", f"safe.directory={root.resolve()}", "-C", str(root),
             "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True).stdout
        names = [name for name in listing.split("\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if not is_skipped(path.relative_to(root))]
    return sorted(name for name in set(names) if (root / name).is_file()
                  and (not suffixes or name.endswith(suffixes)))


def is_skipped(path):
    return (path.parts[0].startswith("build")
            or any(part in (".git", "node_modules") for part in path.parts))


def text_of(root, name):
    """The file's text, or None for a binary file."""
    data = (Path(root) / name).read_bytes()
    return None if b"\0" in data else data.decode(errors="replace")


def report(findings, checked):
    """Prints the findings, or what was checked; returns the exit code."""
    for finding in findings:
        print(finding)
    if not findings:
        print(f"{checked}: nothing found")
    return 1 if findings else 0


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("SHEAF_CI") else SKIPPED)

"""Links and file paths in README.md and docs/ lead somewhere.

Looked at: Markdown links (with the heading after #), and, inside backticks
and code blocks, words that begin with a folder of the tree or end in .md.

usage: links.py ROOT
"""
import re
import sys
from pathlib import Path

import tree

FENCE = re.compile(r"^\s*(```|~~~)")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)")
CODE = re.compile(r"`([^`]+)`")
WORD = re.compile(r"[\w.*][\w./*-]*")
FOLDERS = ("sheaf", "tests", "bench", "examples", "docs", "cmake", "scripts",
           "results", ".ci")


def anchor_of(heading):
    """The name that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors_in(text):
    return {anchor_of(line.lstrip("#")) for line in text.splitlines()
            if line.startswith("#")}


def link_fault(root, name, target):
    if re.match(r"[a-z]+:", target):  # words.py sees to hosts
        return None
    path, _, anchor = target.partition("#")
    file = (root / name).parent / path if path else root / name
    if not file.exists():
        return f"link to {target}: no such file"
    if anchor and file.is_file() and anchor not in anchors_in(file.read_text()):
        return f"link to {target}: no such heading"
    return None


def is_path(word):
    first = word.split("/")[0]
    return ("/" in word and first in FOLDERS) or word.endswith(".md")


def path_fault(root, name, word):
    word = word.rstrip(".")
    places = (root, (root / name).parent)
    if any(list(place.glob(word)) for place in places):
        return None
    return f"{word}: no such file"


def words_of(span):
    # <name> and {a,b} stand for something else.
    if "#include" not in span:
        span = re.sub(r"\S*[<{]\w[^\s>}]*[>}]\S*", " ", span)
    return WORD.findall(span)


def faults_in_line(root, name, line, is_code):
    for span in [line] if is_code else CODE.findall(line):
        for word in filter(is_path, words_of(span)):
            yield path_fault(root, name, word)
    if not is_code:
        for target in LINK.findall(CODE.sub("", line)):
            yield link_fault(root, name, target)


def faults_in(root, name):
    is_code = False
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        if FENCE.match(line):
            is_code = not is_code
            continue
        for fault in dict.fromkeys(faults_in_line(root, name, line, is_code)):
            if fault:
                yield f"{name}:{number}: {fault}"


def check(root):
    root = Path(root)
    names = [name for name in tree.files_of(root, ".md")
             if "/" not in name or name.startswith("docs/")]
    findings = [fault for name in names for fault in faults_in(root, name)]
    return tree.report(findings, f"links and paths of {len(names)} files")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

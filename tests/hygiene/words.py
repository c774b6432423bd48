"""Checks the words of all files: no path of one person's machine, no address of
a foreign server, no idioms that readers stumble over, American spelling.

Paths under a home folder work on one machine only; an address in a script or
a page makes the tree depend on a server. Papers are cited by authors, title and
year. CONTRIBUTING.md has the rules for prose.

usage: words.py ROOT
"""
import re
import sys

import tree

# The brackets keep each pattern from matching its own line.
PRIVATE = re.compile(
    r"(?<![\w.$}])/(?:hom[e]|User[s])/\w|(?<![\w.$}])/roo[t]/"
    r"|(?<![\w.$}])/wor[k](?:/|\b)")
IDIOMS = {re.compile(r"(?i)\b" + idiom): better for idiom, better in (
    (r"(?:is|are|was|were|been|be) tol[d]\b", "report, specify, record"),
    (r"foretol[d]\b", "predicted"),
    (r"goes befor[e] the\b", "overrides"),
    (r"what ther[e] is\b", "a noun, such as features"),
    (r"draws? (?:no )?lot[s]\b", "random, deterministic"),
    (r"in turn[s]\b", "interleaved"),
    (r"unlike device[s]\b", "mixed devices"),
    (r"the doo[r] to\b", "the interface of"),
    (r"passed ove[r]\b", "skipped"),
    (r"out of a trac[e]\b", "from a trace"),
    (r"for eve[r]\b", "forever"),
    (r"\w*(?:Is|Are)Tol[d]\b", "Reported or AreErrors in names of tests"),
)}
BRITISH = re.compile(
    r"(?i)\b(?:behaviou[r]|colou[r]|neighbou[r]|favou[r]|(?:optimi|initiali"
    r"|synchroni|recogni|seriali|summari|minimi|maximi)s[ei](?!s))\w*")
URL = re.compile(r"\b(?:https?|ftp|git|ssh)://([\w-]+(?:\.[\w-]+)+)")
# Reserved for examples, this machine, and names that nobody fetches.
OURS = re.compile(r"^(?:127\.[\d.]+|(?:[\w-]+\.)*(?:example|invalid|test)"
                  r"|(?:[\w-]+\.)*example\.(?:com|net|org)|www\.w3\.org)$")
# Bytes for parsers, many of which no person has written.
GENERATED = "tests/fuzz/corpus/"


def faults_in(line):
    match = PRIVATE.search(line)
    if match:
        yield f"'{match[0]}' is a path of one machine"
    for pattern, better in IDIOMS.items():
        match = pattern.search(line)
        if match:
            yield f"'{match[0]}' is not plain English; write {better}"
    match = BRITISH.search(line)
    if match:
        yield f"'{match[0]}' is British spelling"
    for host in URL.findall(line):
        if not OURS.match(host):
            yield f"the host '{host}' is not ours"


def check(root):
    names = [name for name in tree.files_of(root)
             if not name.startswith(GENERATED)]
    findings = []
    for name in names:
        text = tree.text_of(root, name)
        for number, line in enumerate((text or "").splitlines(), 1):
            findings += [f"{name}:{number}: {fault}"
                         for fault in faults_in(line)]
    return tree.report(findings, f"{len(names)} files")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

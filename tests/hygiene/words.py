"""No file speaks of one person's machine, nor of hosts that are not ours.

A path under a home folder works on one machine only; an address in a script
or a page makes the tree depend on somebody's server. Papers are cited by
authors, title and year.

usage: words.py ROOT
"""
import re
import sys

import tree

# Written so that no pattern matches its own line.
PRIVATE = [re.compile(text) for text in (
    r"(?<![\w.$}])/(?:hom[e]|User[s])/\w",
    r"(?<![\w.$}])/roo[t]/",
    r"(?<![\w.$}])/wor[k](?:/|\b)",
    r"(?i)\bdevic[e] machine\b",
    r"(?i)\b(?:this|another|the next|a previous|an earlier) sessio[n]\b",
    r"(?i)\bhelper sessio[n]",
    r"(?i)\bshared/(?:design|style|reference)",
)]
URL = re.compile(r"\b(?:https?|ftp|git|ssh)://([\w-]+(?:\.[\w-]+)+)")
# Reserved for examples, this machine, and names that nobody fetches.
OURS = re.compile(r"^(?:127\.[\d.]+|(?:[\w-]+\.)*(?:example|invalid|test)"
                  r"|(?:[\w-]+\.)*example\.(?:com|net|org)|www\.w3\.org)$")


def faults_in(line):
    for pattern in PRIVATE:
        match = pattern.search(line)
        if match:
            yield f"'{match[0]}' means one machine only"
    for host in URL.findall(line):
        if not OURS.match(host):
            yield f"the host '{host}' is not ours"


def check(root):
    names = tree.files_of(root)
    findings = []
    for name in names:
        text = tree.text_of(root, name)
        for number, line in enumerate((text or "").splitlines(), 1):
            findings += [f"{name}:{number}: {fault}"
                         for fault in faults_in(line)]
    return tree.report(findings, f"{len(names)} files")


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

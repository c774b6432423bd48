"""The pictures are what scripts/draw-results draws from results/.

usage: pictures.py ROOT
"""
import runpy
import sys
from pathlib import Path

import tree

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "draw-results"


def check(root):
    drawing = runpy.run_path(str(SCRIPT))
    name = drawing["PICTURE"]
    file = Path(root) / name
    there = file.read_text() if file.exists() else None
    findings = []
    if there != drawing["draw"](root):
        findings.append(f"{name}: not what results/ say; run "
                        "scripts/draw-results and commit the picture")
    return tree.report(findings, name)


if __name__ == "__main__":
    sys.exit(check(sys.argv[1]))

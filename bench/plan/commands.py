"""Commands that the benches of plans run, and the tables that they print."""
import json
import os
import subprocess


def run(command, core=None):
    """What it printed; ends the bench where it fails. Bound to a core, or not."""
    bind = None if core is None else lambda: os.sched_setaffinity(0, {core})
    done = subprocess.run(command, capture_output=True, text=True,
                          preexec_fn=bind)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def rows(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

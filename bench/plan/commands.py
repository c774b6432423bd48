"""Runs the commands of the plan benchmarks and parses the tables they print."""
import json
import os
import subprocess


def run(command, core=None):
    """Returns the output; exits on failure. Optionally binds to a core."""
    bind = None if core is None else lambda: os.sched_setaffinity(0, {core})
    done = subprocess.run(command, capture_output=True, text=True,
                          preexec_fn=bind)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def rows(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

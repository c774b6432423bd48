"""Checks that no rank of a busy host is taken for dead: jobs of two hosts with
two ranks each, over TCP and over MPI, run for some time while every core has
more processes than it can run. Their ranks compute without calling Sheaf, at
times for longer than 40 s, while messages to them wait. The jobs must end with
right results and without an error.

usage: busy.py TESTBED SHEAF PROGRAM [--seconds N] [--processes N]

--processes  busy processes per core besides the jobs (8); 0 if other programs
             keep the cores busy

Prints how many processes were ready to run. Exit code 77: simulated hosts
cannot be created here.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from faults import RANKS, Job, Testbed

ROUNDS_PER_SECOND = 1 / 2.5  # 29 rounds of 1 s, then one of 45 s


def ready_processes():
    with open("/proc/loadavg", encoding="utf-8") as file:
        return int(file.read().split()[3].split("/")[0]) - 1


def run_jobs(testbed, args, folder):
    """Returns the jobs and the numbers of processes that were ready to run."""
    until = time.monotonic() + 3 * args.seconds + 120
    jobs = [Job(testbed, ("busy", "busy", transport), args.program, args.sheaf,
                folder, rounds=max(2, int(args.seconds * ROUNDS_PER_SECOND)))
            for transport in ("tcp", "mpi")]
    ready = []
    while not all(job.has_ended() for job in jobs):
        if time.monotonic() > until:
            break
        time.sleep(0.5)
        ready.append(ready_processes())
    for job in jobs:
        job.finish(0)
    return jobs, ready


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("testbed")
    parser.add_argument("sheaf")
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--processes", type=int, default=8)
    args = parser.parse_args()
    spinners = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
                for _ in range(args.processes * os.cpu_count())]
    began = time.monotonic()
    try:
        with Testbed(args.testbed) as testbed, \
                tempfile.TemporaryDirectory() as folder:
            jobs, ready = run_jobs(testbed, args, folder)
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()
    print(f"{time.monotonic() - began:.0f} s on {os.cpu_count()} cores; "
          f"ready to run: at least {min(ready)}, median "
          f"{statistics.median(ready):.0f} processes")
    failed = 0
    for job in jobs:
        done = len(job.texts(r"rank \d+ done"))
        if done != RANKS:
            failed = 1
            print(f"FAILED: {done} of {RANKS} ranks ended well over "
                  f"{job.cell[2]}:\n{job.output()}")
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Ranks in containers that share the host's network and name: each container
has process ids of its own, so that the ranks of all containers have the same
ids, and sees only its own processes. The ranks must not take the memory of a
process with the same id for that of another rank, must add up correctly, and
must report the death of a rank in another container.

usage: containers.py PROGRAM

Exit code 77: namespaces cannot be created here.
"""
import argparse
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile

CONTAINER = ["unshare", "--pid", "--mount", "--fork", "--kill-child",
             "--mount-proc"]
SKIPPED = 77


class Rank:
    def __init__(self, program, rank, ranks, meeting, operation, rounds):
        folder = meeting["folder"]
        environment = dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(ranks),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(meeting["port"]),
            SHEAF_SECRET=meeting["secret"], SHEAF_DUMP_DIR=folder,
            SHEAF_LOG="off")
        self.process = subprocess.Popen(
            [*CONTAINER, program, operation, str(rounds), folder],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)

    def wait_for_start(self):
        """Returns the process id of the rank in its container."""
        for line in self.process.stdout:
            if match := re.search(r"runs as (\d+)", line):
                return int(match[1])
        raise SystemExit("FAILED: a rank did not start")

    def finish(self):
        try:
            return self.process.communicate(timeout=60)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0] + "(did not end)"


def start(program, ranks, operation, rounds):
    meeting = {"port": 20000 + secrets.randbelow(9000),
               "secret": secrets.token_hex(16), "folder": tempfile.gettempdir()}
    return [Rank(program, rank, ranks, meeting, operation, rounds)
            for rank in range(ranks)]


def check_results(program):
    faults = []
    for operation in ("all_reduce", "all_to_all", "send"):
        ranks = start(program, 3, operation, 30)
        ids = [rank.wait_for_start() for rank in ranks]
        if set(ids) != {1}:
            faults.append(f"the process ids in the containers are {ids}, not 1")
        for rank, one in enumerate(ranks):
            output = one.finish()
            if f"rank {rank} done" not in output:
                faults.append(f"{operation}, rank {rank}: {output}")
    return faults


def check_death(program):
    ranks = start(program, 3, "all_reduce", 10**9)
    for one in ranks:
        one.wait_for_start()
    ranks[2].process.send_signal(signal.SIGKILL)  # ends its container too
    outputs = [one.finish() for one in ranks[:2]]
    ranks[2].process.wait()
    return [f"rank {rank} did not name rank 2: {output}"
            for rank, output in enumerate(outputs)
            if not re.search(r"error .*rank 2", output)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    args = parser.parse_args()
    attempt = subprocess.run([*CONTAINER, "true"], capture_output=True,
                             text=True, check=False)
    if attempt.returncode:
        print("cannot create namespaces: " + attempt.stderr)
        return SKIPPED
    faults = check_results(args.program) + check_death(args.program)
    for fault in faults:
        print("FAILED:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

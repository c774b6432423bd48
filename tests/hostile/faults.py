"""Injects faults into jobs on simulated hosts and measures how long the other
ranks take to report them. A job has two hosts of two ranks each; rank 1 or its
host is the victim, while the job is in a given phase.

usage: faults.py TESTBED SHEAF PROGRAM [--quick] [--only TEXT] [--most SECONDS]
                 [--results FILE]

kill  rank 3 is killed: all others report it
cut   the network between the hosts drops all packets: all ranks report it
lost  the second host loses its network and power: the ranks of the first
      report it
stop  rank 3 is stopped for some seconds: the job goes on, with right results

--results replaces the rows of these cells in FILE, which is in JSON lines.
Exit code 77: simulated hosts cannot be created here.
"""
import argparse
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

OPERATIONS = ["barrier", "broadcast", "reduce", "all_reduce", "all_reduce_n",
              "gather", "all_gather", "scatter", "reduce_scatter",
              "all_to_all", "send"]
PHASES = ["rendezvous", "start", "between", *OPERATIONS, "checkpoint", "end"]
FAULTS = ["kill", "cut", "lost", "stop"]
QUICK = [("kill", "rendezvous", "tcp"), ("cut", "rendezvous", "tcp"),
         ("kill", "end", "tcp"), ("cut", "all_reduce", "tcp"),
         ("lost", "between", "tcp"), ("stop", "all_reduce", "tcp"),
         ("cut", "all_reduce", "mpi"), ("lost", "send", "mpi")]
RANKS = 4
VICTIM = 3
SKIPPED = 77
# What a busy machine may need. The wanted time is printed with the result.
MOST_SECONDS = 10
STOP_SECONDS = 3
END = 10**9
LINE = re.compile(r"at (\d+) (.*)")
# Of the launcher, or of a rank that Sheaf has ended.
REPORT = re.compile(r"^(?:\[\d+\] )?sheaf(?: run)?: (rank \d.*)")
START_TIMEOUT_SECONDS = 4  # of MPI's own start, 5 minutes by default


class Testbed:
    def __init__(self, script):
        self.script = script
        self.name = f"faults-{os.getpid()}"
        self.bridge = f"sheaf-{self.name}-ctl"

    def __enter__(self):
        up = self.call("up", "2")
        if up.returncode:
            print(up.stdout + up.stderr, end="")
            sys.exit(up.returncode)
        return self

    def __exit__(self, *_):
        self.call("down")

    def call(self, *words):
        return subprocess.run([self.script, *words, "--name", self.name],
                              capture_output=True, text=True)

    def command(self, host, *words):
        return [self.script, "exec", "--name", self.name, host, "--", *words]

    def bridge_link(self, *words):
        subprocess.run(["ip", "netns", "exec", self.bridge, *words],
                       check=True)

    # Packets between the hosts are dropped; both still reach the launcher.
    def cut(self, is_cut):
        for port in ("port0", "port1"):
            self.bridge_link("bridge", "link", "set", "dev", port, "isolated",
                             "on" if is_cut else "off")

    def unplug(self, is_unplugged):
        self.bridge_link("ip", "link", "set", "port1",
                         "down" if is_unplugged else "up")

    def processes(self, program, host="h1"):
        """Those of the program on a host."""
        pids = subprocess.run(
            ["ip", "netns", "pids", f"sheaf-{self.name}-{host}"],
            capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in pids if runs(pid, program)]


def runs(pid, program):
    try:
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program)
    except OSError:
        return False


def rounds_of(fault, phase):
    if fault != "stop":
        return END
    return {"start": 2000, "between": 15, "barrier": 30000}.get(phase, 150)


class Rank:
    """A process whose output is a rank's, or that of several."""

    def __init__(self, command, ranks):
        self.ranks = ranks
        self.lines = []
        self.arrivals = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.arrivals.append(time.monotonic_ns())
            self.lines.append(line.rstrip())

    def events(self):
        """(nanoseconds, text) of each report of the program."""
        found = []
        for line, arrival in zip(list(self.lines), self.arrivals):
            if hit := LINE.search(line):
                found.append((int(hit[1]), hit[2]))
            elif hit := REPORT.search(line):
                found.append((arrival, "error " + hit[1]))
        return found


class Job:
    def __init__(self, testbed, cell, program, sheaf, folder, late=(),
                 rounds=None):
        self.testbed = testbed
        self.program = program
        self.cell = cell
        fault, phase, transport = cell
        if rounds is None:
            rounds = rounds_of(fault, phase)
        what = "start" if phase == "rendezvous" else phase
        words = [program, what, str(rounds), folder]
        common = ["SHEAF_LOG=off", f"SHEAF_DUMP_DIR={folder}",
                  f"SHEAF_SECRET={secrets.token_hex(16)}"]
        self.late = list(late)
        if transport == "mpi":
            if phase == "start":
                common.append(
                    f"SHEAF_OPTIONS=-timeout {START_TIMEOUT_SECONDS}s")
            command = ["env", *common, sheaf, "run", "--hosts", "h0:2,h1:2",
                       "--", *words]
            self.outputs = [Rank(testbed.command("ctl", *command), RANKS)]
            return
        port = 20000 + secrets.randbelow(9000)
        self.outputs = []
        for rank in range(RANKS):
            if rank in late:
                continue
            mine = [f"RANK={rank}", f"WORLD_SIZE={RANKS}", "MASTER_ADDR=h0",
                    f"MASTER_PORT={port}"]
            host = f"h{rank * 2 // RANKS}"
            self.outputs.append(Rank(
                testbed.command(host, "env", *common, *mine, *words), 1))

    def texts(self, pattern):
        return [(when, re.search(pattern, text)) for output in self.outputs
                for when, text in output.events() if re.search(pattern, text)]

    def wait_for_runs(self, count, seconds=30):
        until = time.monotonic() + seconds
        while len(self.texts(r"rank \d+ runs")) < count:
            if time.monotonic() > until or self.has_ended():
                raise RuntimeError("the job did not start:\n" + self.output())
            time.sleep(0.01)

    def has_ended(self):
        return all(one.process.poll() is not None for one in self.outputs)

    def output(self):
        return "\n".join(line for one in self.outputs for line in one.lines)

    def victim(self):
        """Its process, outside of the namespace of its host."""
        pids = sorted(self.testbed.processes(self.program))
        ranks = {}
        for pid in pids:
            with open(f"/proc/{pid}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    name, _, value = entry.partition(b"=")
                    if name in (b"RANK", b"OMPI_COMM_WORLD_RANK"):
                        ranks[int(value)] = pid
        if VICTIM not in ranks:
            raise RuntimeError("no victim:\n" + self.output())
        return ranks[VICTIM]

    def finish(self, seconds):
        until = time.monotonic() + seconds
        for one in self.outputs:
            try:
                one.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(one.process.pid, signal.SIGKILL)
        for pid in self.testbed.processes(self.program):
            os.kill(pid, signal.SIGKILL)
        for one in self.outputs:
            one.process.wait()
            one.reader.join(5)


def inject(testbed, job, fault):
    """Returns the time of the fault."""
    victim = job.victim()
    began = time.monotonic_ns()
    if fault == "kill":
        os.kill(victim, signal.SIGKILL)
    elif fault == "cut":
        testbed.cut(True)
    elif fault == "lost":
        testbed.unplug(True)
        for pid in testbed.processes(job.program):
            os.kill(pid, signal.SIGKILL)
    else:
        os.kill(victim, signal.SIGSTOP)
        time.sleep(STOP_SECONDS)
        os.kill(victim, signal.SIGCONT)
        for one in job.outputs:  # nsenter stops itself together with its child
            one.process.send_signal(signal.SIGCONT)
    return began


def survivors(cell):
    fault, phase, transport = cell
    if phase == "start" and transport == "mpi":
        return 1  # MPI ends the others, or they wait in its start
    if fault == "kill":
        count = RANKS - 1
    else:
        count = 2 if fault == "lost" else RANKS
    # One rank has not come, or is on the second host and has left main.
    absent = phase == "rendezvous" or (phase == "end" and fault == "cut")
    return count - absent


def verdict(cell, job, began):
    """(seconds until the last survivor's error, what is wrong)"""
    fault, phase, _ = cell
    if fault == "stop":
        done = len(job.texts(r"rank \d+ done"))
        return None, "" if done == RANKS else "not all ranks were right"
    errors = [(when, hit.group()) for when, hit in job.texts(r"error .*")
              if when >= began]
    wanted = survivors(cell)
    if len(errors) < wanted:
        return None, f"{len(errors)} of {wanted} ranks reported an error"
    unnamed = [text for _, text in errors if not re.search(r"rank \d", text)]
    if unnamed:
        return None, f"names no rank: {unnamed[0]}"
    times = sorted(when for when, _ in errors)[:wanted]
    return (times[-1] - began) / 1e9, ""


def run_cell(testbed, cell, args):
    fault, phase, transport = cell
    folder = tempfile.mkdtemp()
    late = (2,) if phase == "rendezvous" else ()
    job = Job(testbed, cell, args.program, args.sheaf, folder, late)
    try:
        if phase == "rendezvous":
            time.sleep(2)  # all but the late rank have come
        elif phase == "start":
            wait_for_connections(job)
            time.sleep(secrets.randbelow(100) / 1000)
        else:
            job.wait_for_runs(RANKS)
            time.sleep(0.3 + secrets.randbelow(100) / 1000)
        began = inject(testbed, job, fault)
        if fault == "stop" and late:
            return None, ""
        job.finish(60 if fault == "stop" else args.most + 5)
        seconds, wrong = verdict(cell, job, began)
        if wrong:
            wrong += "\n" + job.output()
        return seconds, wrong
    finally:
        job.finish(0)
        testbed.cut(False)
        testbed.unplug(False)
        shutil.rmtree(folder)


def has_socket(pid, state):
    """Whether a process has a TCP socket in this state of the kernel's."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[3] == state}
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(f"{folder}/{fd}") in sockets
               for fd in os.listdir(folder))


def wait_for_connections(job):
    """Until all ranks have begun to connect. The others know nothing of a
    process that ends before."""
    state = "0A" if job.cell[2] == "mpi" else "01"  # listens; is connected
    until = time.monotonic() + 20
    while time.monotonic() < until:
        pids = [pid for host in ("h0", "h1")
                for pid in job.testbed.processes(job.program, host)]
        try:
            if len(pids) == RANKS and all(has_socket(pid, state)
                                          for pid in pids):
                return
        except OSError:
            pass
    raise RuntimeError("the ranks did not start:\n" + job.output())


def store(path, rows):
    """Replaces the rows of the same cells."""
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = {cell_of(row): row for row in map(json.loads, file)}
    kept.update({cell_of(row): row for row in rows})
    with open(path, "w", encoding="utf-8") as file:
        for _, row in sorted(kept.items()):
            file.write(json.dumps(row) + "\n")


def cell_of(row):
    return row["transport"], row["phase"], row["fault"]


def row_of(cell, seconds):
    commit = subprocess.run(
        ["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse",
         "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    fault, phase, transport = cell
    return {"benchmark": "faults", "transport": transport, "phase": phase,
            "fault": fault,
            "result": "goes on" if seconds is None else "error",
            "seconds": seconds and round(seconds, 3),
            "load": round(os.getloadavg()[0], 1), "cores": os.cpu_count(),
            "command": "tests/hostile/faults.py", "commit": commit}


def cells_of(args):
    if args.quick:
        return QUICK
    cells = [(fault, phase, transport) for transport in ("tcp", "mpi")
             for phase in PHASES for fault in FAULTS]
    # MPI's own start-up does not return before all processes have come; its
    # launcher reports those that die.
    cells = [cell for cell in cells
             if not (cell[1] == "rendezvous" and
                     (cell[2] == "mpi" or cell[0] == "stop"))]
    return [cell for cell in cells if args.only in "-".join(cell)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("testbed")
    parser.add_argument("sheaf")
    parser.add_argument("program")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--most", type=float, default=MOST_SECONDS)
    parser.add_argument("--results")
    args = parser.parse_args()
    failures = 0
    rows = []
    with Testbed(args.testbed) as testbed:
        for cell in cells_of(args):
            try:
                seconds, wrong = run_cell(testbed, cell, args)
            except RuntimeError as error:
                seconds, wrong = None, str(error)
            result = wrong or ("goes on" if seconds is None
                               else f"reported after {seconds:.3f} s")
            if not wrong and seconds is not None and seconds > args.most:
                wrong = "late"
            failures += bool(wrong)
            if not wrong:
                rows.append(row_of(cell, seconds))
            print(f"{' '.join(cell)}: {result}", flush=True)
    if args.results:
        store(args.results, rows)
    print(f"{failures} of {len(cells_of(args))} cells failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

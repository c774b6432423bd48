"""Sends streams of bytes to every port on which the ranks of a job listen, on
loopback, while the ranks connect and while they train. The job must end with
the same weights as one that is left alone, in bounded memory, and its start
must not be delayed.

usage: strangers.py PROGRAM SHEAF [--streams N] [--steps N] [--rate N]
           [--starts N]

Each port gets N random streams and N that follow the protocol and break it at
some point. A rank with another secret, a rank of another job and a recorded
connection must be refused and reported. Under MPI, the port of rank 0's monitor
gets streams for as long as it is open.
"""
import argparse
import collections
import hashlib
import hmac
import os
import random
import re
import secrets
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

RANKS = 3
MAGIC = 0x5348454146544332
MOST_HELD = 300  # connections that strangers keep open
MOST_GROWTH_MIB = 48
MOST_DELAY = 2.0
JOB = "strangers"


def hash_of_job(job):
    # The name of the default group and the number of the start follow the job.
    return hmac.new(bytes(32), b"job" + job.encode(), hashlib.sha256
                    ).digest()[:16]


def hello(dice, **changes):
    values = dict(magic=MAGIC, version=1, purpose=dice.randint(1, 3),
                  job=dice.choice([hash_of_job(JOB), dice.randbytes(16)]),
                  rank=dice.randrange(RANKS), to=dice.randrange(RANKS),
                  size=RANKS, encrypts=0, key=dice.randbytes(32))
    values.update(changes)
    return struct.pack("<QII16siiiI32s", *values.values())


def random_stream(dice):
    return dice.randbytes(dice.choice([0, 1, 7, 79, 80, 81, 112, 500, 4000]))


def grammar_stream(dice):
    """A hello with one or more wrong fields, and what could follow it."""
    extreme = [-2**31, -1, 0, 1, RANKS, 2**31 - 1]
    fields = {"rank": extreme, "to": extreme, "size": extreme,
              "version": [0, 1, 2, 2**32 - 1], "purpose": range(5),
              "encrypts": [0, 1, 2**32 - 1], "magic": [MAGIC, 0, 2**64 - 1]}
    changes = {name: dice.choice(fields[name])
               for name in dice.sample(sorted(fields), dice.randrange(4))}
    stream = hello(dice, **changes)
    stream += dice.choice([
        b"", dice.randbytes(32), bytes(32), stream, dice.randbytes(31),
        bytes(32) + struct.pack("<II", 1, 2**32 - 1) + bytes(2000)])
    return stream[:dice.choice([len(stream), len(stream), dice.randrange(120)])]


class Strangers(threading.Thread):
    """Connects to ports in turn, at a limited rate, until each had its share
    or it is stopped."""

    def __init__(self, ports, streams, rate, seed):
        super().__init__()
        self.ports = ports
        self.streams = streams
        self.rate = rate
        self.dice = random.Random(seed)
        self.sent = collections.Counter()
        self.refused = 0
        self.held = collections.deque()
        self.is_stopped = False

    def run(self):
        began = time.monotonic()
        for i in range(2 * self.streams):
            for k, port in enumerate(self.ports):
                if self.is_stopped:
                    break
                self.visit(port, i % 2 == 0)
                due = began + (i * len(self.ports) + k + 1) / self.rate
                time.sleep(max(0, due - time.monotonic()))
        for one in self.held:
            one.close()

    def visit(self, port, is_random):
        stream = (random_stream if is_random else grammar_stream)(self.dice)
        one = socket.socket()
        one.settimeout(1)
        try:
            one.connect(("127.0.0.1", port))
            self.send(one, stream)
        except OSError as error:
            self.refused += isinstance(error, ConnectionRefusedError)
            if isinstance(error, ConnectionRefusedError):
                return one.close()
        self.sent[port] += 1
        self.leave(one)

    def send(self, one, stream):
        if stream and self.dice.random() < 0.2:
            at = self.dice.randrange(len(stream))
            one.sendall(stream[:at])
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = stream[at:]
        one.sendall(stream)

    # Closes the connection, resets it, or keeps it open for a while.
    def leave(self, one):
        how = self.dice.randrange(4)
        if how == 0:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                           struct.pack("ii", 1, 0))
        if how < 2:
            return one.close()
        if how == 2:
            try:
                one.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        self.held.append(one)
        if len(self.held) > MOST_HELD:
            self.held.popleft().close()

    def stop(self):
        self.is_stopped = True
        self.join()


class Rank:
    def __init__(self, program, rank, port, steps, timeout=30, **changes):
        environment = dict(
            os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
            SHEAF_JOB=JOB, OMP_NUM_THREADS="1",
            SHEAF_OPTIONS=f"-timeout {timeout}s",
            SHEAF_DUMP_DIR=tempfile.gettempdir())
        environment.update(changes)
        self.began = time.monotonic()
        self.runs_after = None
        self.lines = []
        self.process = subprocess.Popen(
            [program, "train", str(steps), tempfile.gettempdir()],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if re.search(r"rank \d+ runs", line):
                self.runs_after = time.monotonic() - self.began
            self.lines.append(line.rstrip())

    def output(self):
        return "\n".join(self.lines)

    def wait_for_run(self, seconds):
        until = time.monotonic() + seconds
        while self.runs_after is None:
            if time.monotonic() > until or self.process.poll() is not None:
                raise SystemExit("a rank did not start:\n" + self.output())
            time.sleep(0.01)

    def finish(self, seconds=60):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.reader.join()

    def weights(self):
        found = re.search(r"weights (\d+)", self.output())
        return found and found[1]

    def status(self, name):
        """In MiB, of a process that runs."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(name + r":\s+(\d+)", file.read())[1]) / 1024

    def ports(self):
        return ports_of(self.process.pid)


def ports_of(pid):
    """On which the process listens."""
    folder = f"/proc/{pid}/fd"
    mine = set()
    for fd in os.listdir(folder):
        try:
            mine.add(os.readlink(f"{folder}/{fd}"))
        except OSError:
            pass
    result = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        result |= {int(row[1].split(":")[1], 16) for row in rows
                   if row[3] == "0A" and f"socket:[{row[9]}]" in mine}
    return sorted(result)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for_ports(ranks, count):
    until = time.monotonic() + 30
    while any(len(rank.ports()) < wanted
              for rank, wanted in zip(ranks, count)):
        if time.monotonic() > until:
            raise SystemExit("no ports:\n" + ranks[0].output())
        time.sleep(0.02)
    return sorted({port for rank in ranks for port in rank.ports()})


def run_job(args, secret, streams, has_started=None):
    """(seconds from the last rank's start until it runs, weights, growth of
    memory in MiB, streams per phase)"""
    port = free_port()
    # The ranks wait for the last one while each of three ports gets its streams.
    own = dict(SHEAF_SECRET=secret,
               timeout=30 + int(3 * 2 * 2 * streams / args.rate))
    ranks = [Rank(args.program, rank, port, args.steps, **own)
             for rank in range(RANKS - 1)]
    # Each has the port of its transport, and rank 0 that of the meeting.
    ports = wait_for_ports(ranks, [2, 1])
    counts = []
    if streams:
        flood = Strangers(ports, streams, args.rate, seed=1)
        flood.start()
        flood.join()
        counts.append(dict(flood.sent))
        flood = Strangers(ports, 10**6, args.rate, seed=2)  # during the start
        flood.start()
    ranks.append(Rank(args.program, RANKS - 1, port, args.steps, **own))
    for rank in ranks:
        rank.wait_for_run(60)
    if has_started:
        has_started.set()
    if streams:
        flood.stop()
    memory = [rank.status("VmRSS") for rank in ranks]
    if streams:
        ports = sorted({port for rank in ranks for port in rank.ports()})
        flood = Strangers(ports, streams, args.rate, seed=3)
        flood.start()
        flood.join()
        counts.append(dict(flood.sent))
    most = [rank.status("VmHWM") for rank in ranks
            if rank.process.poll() is None]
    if len(most) < RANKS and streams:
        raise SystemExit("the training ended too early; raise --steps")
    for rank in ranks:
        rank.finish(1800)
        if rank.process.returncode:
            raise SystemExit("the job failed:\n" + rank.output())
    growth = max([b - a for a, b in zip(memory, most)], default=0)
    return (ranks[-1].runs_after, {rank.weights() for rank in ranks}, growth,
            counts)


def check_flood(args, secret):
    with ThreadPoolExecutor(1) as pool:
        has_started = threading.Event()
        alone = pool.submit(run_job, args, secret, 0, has_started)
        while not has_started.wait(0.1) and not alone.done():
            pass
        disturbed = run_job(args, secret, args.streams)
        calm = alone.result()
    print(f"start of the last rank: {calm[0]:.2f} s left alone, "
          f"{disturbed[0]:.2f} s among strangers")
    print(f"streams by port, while connecting: {disturbed[3][0]}, "
          f"in training: {disturbed[3][1]}")
    print(f"memory: grew by at most {disturbed[2]:.1f} MiB")
    faults = []
    if len(disturbed[1] | calm[1]) != 1:
        faults.append(f"weights {disturbed[1]}, left alone {calm[1]}")
    if disturbed[0] > calm[0] + MOST_DELAY:
        faults.append("the start was delayed")
    if disturbed[2] > MOST_GROWTH_MIB:
        faults.append("memory grew")
    for counts in disturbed[3]:
        if not counts or min(counts.values()) < 2 * args.streams:
            faults.append(f"a port did not get all streams: {counts}")
    return faults


class Recorder(threading.Thread):
    """Forwards one connection to `port` and records what its client sends."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.target = port
        self.recorded = b""

    def run(self):
        client, _ = self.listening.accept()
        server = self.connect()
        threading.Thread(target=self.copy, args=(server, client, False),
                         daemon=True).start()
        self.copy(client, server, True)

    def connect(self):
        for _ in range(500):
            try:
                return socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                time.sleep(0.02)
        raise SystemExit("rank 0 does not listen")

    def copy(self, source, target, is_recorded):
        try:
            while data := source.recv(4096):
                if is_recorded:
                    self.recorded += data
                target.sendall(data)
        except OSError:
            pass
        target.close()


def check_refusals(args, secret):
    """Strangers that speak the protocol are refused, and rank 0 says so."""
    port = free_port()
    own = dict(SHEAF_SECRET=secret)
    recorder = Recorder(port)
    recorder.start()
    ranks = [Rank(args.program, 0, port, 100, **own),
             Rank(args.program, 1, recorder.port, 100, **own)]
    faults = []
    for name, changes, wanted in (
            ("wrong secret", dict(SHEAF_SECRET=secrets.token_hex(16)),
             "secret"),
            ("wrong job", dict(own, SHEAF_JOB="other"), "job")):
        stranger = Rank(args.program, 2, port, 1, **changes)
        stranger.finish()
        print(f"{name}: {stranger.output()[-300:]}")
        if stranger.process.returncode == 0 or wanted not in stranger.output():
            faults.append(f"{name} was not refused: " + stranger.output())
    until = time.monotonic() + 20
    while len(recorder.recorded) < 200 and time.monotonic() < until:
        time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.settimeout(20)
        one.sendall(recorder.recorded)
        answer = b""
        try:
            while data := one.recv(4096):
                answer += data
        except ConnectionResetError:
            pass
    if len(answer) > 80:  # more than rank 0's own hello
        faults.append(f"a replayed connection got {len(answer)} bytes")
    ranks.append(Rank(args.program, 2, port, 100, **own))
    for rank in ranks:
        rank.finish()
        if rank.process.returncode:
            faults.append("the job failed:\n" + rank.output())
    for text in ("another secret", "another job", "repeats a recorded"):
        if text not in ranks[0].output():
            faults.append(f"rank 0 did not report '{text}':\n" +
                          ranks[0].output())
    return faults


def ranks_of_job(launcher, program):
    """{rank: process id} of the program below the launcher."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/exe") != os.path.realpath(program):
                continue
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = file.read()
        except OSError:
            continue
        rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)", variables)
        if rank and launcher.encode() in variables:
            found[int(rank[1])] = int(pid)
    return found


def wait(job):
    try:
        job.wait(40)
    except subprocess.TimeoutExpired:
        job.terminate()


def attack_monitor(job, launcher, args):
    """Sends streams to the port of rank 0 for as long as it is open; returns
    how many streams."""
    until = time.monotonic() + 20
    ranks = {}
    while len(ranks) < 2 and time.monotonic() < until:
        ranks = ranks_of_job(launcher, args.program)
    # Rank 1 is slowed down, because the port is open until it has connected.
    ports = []
    try:
        while job.poll() is None and time.monotonic() < until:
            os.kill(ranks[1], signal.SIGSTOP)
            if ports := ports_of(ranks[0]):
                break
            os.kill(ranks[1], signal.SIGCONT)
            time.sleep(0.003)
    except OSError:
        return 0
    held = []
    dice = random.Random(5)
    until = time.monotonic() + 3
    while ports and time.monotonic() < until:
        try:
            one = socket.create_connection(("127.0.0.1", ports[0]), 1)
            one.sendall(dice.choice([b"x", random_stream(dice),
                                     grammar_stream(dice)]))
            held.append(one)
        except OSError:
            break  # all hosts had connected before the rank was stopped
        time.sleep(1 / args.rate)
    os.kill(ranks[1], signal.SIGCONT)
    wait(job)
    for one in held:
        one.close()
    return len(held)


def check_monitor(args):
    """Each rank is a host of its own, and the hosts connect by TCP. The port is
    open for a moment only, which some starts miss."""
    launcher = f"SHEAF_JOB=monitor-{os.getpid()}"
    environment = dict(os.environ, SHEAF_HOSTS="2",
                       SHEAF_JOB=launcher.partition("=")[2])
    # Open MPI itself opens no ports in the ranks then.
    command = [args.sheaf, "run", "-n", "2",
               *(f"--mpi-arg={word}" for word in
                 ("--mca", "btl", "self,vader")),
               "--", args.program, "all_reduce", "20", tempfile.gettempdir()]
    sent = []
    most = 6 * args.starts
    while sum(count > 1 for count in sent) < args.starts and len(sent) < most:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.STDOUT, env=environment)
        sent.append(attack_monitor(job, launcher, args))
        wait(job)
        output = job.communicate()[0]
        if job.returncode or output.count(" done") != 2:
            return [f"the job ended with {job.returncode} after {sent} streams:\n"
                    + output]
    print(f"streams to the monitor's port in {len(sent)} starts: {sent}")
    return [] if any(sent) else ["no stream reached the monitor's port"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("sheaf")
    parser.add_argument("--streams", type=int, default=60)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--starts", type=int, default=1)
    parser.add_argument("--rate", type=float, default=190)
    args = parser.parse_args()
    secret = secrets.token_hex(16)
    faults = (check_refusals(args, secret) + check_monitor(args) +
              check_flood(args, secret))
    for fault in faults:
        print("FAILED:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

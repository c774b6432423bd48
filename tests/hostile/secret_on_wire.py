"""Reads all packets between simulated hosts while `sheaf run` starts ranks on
them: the secret of the job must not be among them. Another variable, which MPI
passes on, must be, so that the search is known to work.

usage: secret_on_wire.py TESTBED SHEAF PROGRAM

Exit code 77: simulated hosts cannot be created here.
"""
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile

from faults import Testbed

READER = "--read-packets"
ALL_PROTOCOLS = 3  # ETH_P_ALL
SO_RCVBUFFORCE = 33
MARKS = 8
MPIS = ("mpirun.openmpi", "mpiexec.mpich")


def read_packets(words):
    """Prints which words the packets of this network namespace contain, until
    the input ends."""
    seen = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                       socket.htons(ALL_PROTOCOLS)) as packets:
        packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        print("ready", flush=True)
        while True:
            ready = select.select([sys.stdin, packets], [], [])[0]
            if packets not in ready:
                break
            packet = packets.recv(1 << 17)
            seen |= {word for word in words if word.encode() in packet}
    print(" ".join(sorted(seen)))


def run(testbed, sheaf, program, mpi, options):
    """Returns the faults of one run."""
    secret = secrets.token_hex(16)
    # Several, because one may be divided between two packets.
    marks = [secrets.token_hex(16) for _ in range(MARKS)]
    reader = subprocess.Popen(
        ["ip", "netns", "exec", testbed.bridge, sys.executable, "-B", __file__,
         READER, secret, *marks],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    reader.stdout.readline()
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.run(
            testbed.command("ctl", "env", f"SHEAF_SECRET={secret}",
                            *(f"SHEAF_MARK{i}={mark}"
                              for i, mark in enumerate(marks)),
                            f"SHEAF_MPIEXEC={mpi}",
                            sheaf, "run", "--hosts", "h0:1,h1:1", *options,
                            "--", program, "all_reduce", "3", folder),
            capture_output=True, text=True, timeout=120)
    seen = reader.communicate()[0].split()
    name = " ".join([mpi, *options])
    faults = []
    if job.returncode or job.stdout.count(" done") != 2:
        faults.append(f"{name}: the run ended with {job.returncode}:\n"
                      + job.stdout + job.stderr)
    if not set(marks) & set(seen):
        faults.append(f"{name}: the packets were not read")
    if secret in seen:
        faults.append(f"{name}: the secret was sent in clear text")
    return faults


def main():
    testbed_script, sheaf, program = sys.argv[1:]
    faults = []
    with Testbed(testbed_script) as testbed:
        for mpi in filter(shutil.which, MPIS):
            for options in ([], ["--encrypt"]):
                # The program is built for one MPI, and needs none to encrypt.
                if options or mpi == MPIS[0]:
                    faults += run(testbed, sheaf, program, mpi, options)
    for fault in faults:
        print("FAILED:", fault)
    return 1 if faults else 0


if __name__ == "__main__":
    if sys.argv[1] == READER:
        read_packets(sys.argv[2:])
    else:
        sys.exit(main())

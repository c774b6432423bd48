"""Compares prediction and measurement for ranks on mixed devices under one plan.

usage: unlike.py SHEAF OUT CONFIG.yaml [--devices cuda,cpu] [--threads 2,7]
                 [--precisions f32,bf16,int8/f32,bf16] [--rounds 3]
                 [--shares 3,1] [--seconds 330] [--set key=value]...
Traces the config on each kind of device separately, with the rows and threads
of one rank and all layers in each precision; measures the links; creates one
plan for all ranks; then trains, interleaved, under the plan, with all layers in
the lowest precision of their device, and in f32. Prints predicted and measured
step times and indicators. All files are kept in OUT; OUT/NAME.results.json has
the numbers.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

from commands import rows

USUAL = {"cuda": "f32,bf16,int8", "cpu": "f32,bf16"}


class Failed(Exception):
    pass


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.start = time.monotonic()
        self.name = os.path.splitext(os.path.basename(arguments.config))[0]
        self.devices = arguments.devices.split(",")
        self.kinds = list(dict.fromkeys(self.devices))
        self.precisions = self.precisions_by_kind()
        self.machine = self.file("machine.json")
        self.traces = []  # of all kinds, those of a kind together
        self.names = {}  # of devices, as their makers call them
        self.global_batch = 0
        self.results = {"config": arguments.config, "devices": self.devices,
                        "threads": arguments.threads,
                        "shares": arguments.shares, "failures": [],
                        "alone": {}, "steps": {}}

    def precisions_by_kind(self):
        given = self.arguments.precisions
        if not given:
            return {kind: USUAL[kind].split(",") for kind in self.kinds}
        parts = given.split("/")
        return {kind: parts[min(i, len(parts) - 1)].split(",")
                for i, kind in enumerate(self.kinds)}

    def threads_of(self, kind):
        numbers = self.arguments.threads.split(",")
        return numbers[min(self.devices.index(kind), len(numbers) - 1)]

    # Rows per step of a rank on this kind of device.
    def rows_of(self, kind):
        if not self.arguments.shares:
            return self.global_batch // len(self.devices)
        shares = [int(one) for one in self.arguments.shares.split(",")]
        return (self.global_batch * shares[self.devices.index(kind)] //
                sum(shares))

    def file(self, name):
        return os.path.join(self.arguments.out, f"{self.name}.{name}")

    def seconds(self):
        return time.monotonic() - self.start

    def left(self):
        return self.arguments.seconds - self.seconds()

    def run(self, words, limit=120):
        command = [self.arguments.sheaf, *words]
        limit = max(10, min(limit, self.left() + 20))
        begin = time.monotonic()
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=limit, check=False)
        except subprocess.TimeoutExpired as error:
            raise self.failure(command, f"took more than {limit:.0f} s",
                               (error.stderr or b"").decode()) from error
        if done.returncode != 0:
            raise self.failure(command, f"ended with {done.returncode}",
                               done.stdout[-2000:] + done.stderr[-2000:])
        if self.arguments.verbose:
            print(f"[{self.seconds():5.0f} s] {time.monotonic() - begin:5.1f} s "
                  f"{' '.join(words)}", flush=True)
        return done.stdout

    def failure(self, command, what, text):
        line = f"{' '.join(command)}\n  {what}: {text.strip()}"
        print(line, flush=True)
        self.results["failures"].append(line)
        return Failed(line)

    def sets(self, **values):
        words = []
        given = [f"{key}={value}" for key, value in values.items()]
        for one in [*self.arguments.set, *given]:
            words += ["--set", one]
        return words

    def read_global_batch(self):
        text = self.run(["train", self.arguments.config, "--print-config",
                         *self.sets()])
        return next(int(line.split(":")[1]) for line in text.splitlines()
                    if line.startswith("global_batch:"))

    # Records a step of one rank with its rows, alone on its device.
    def record_alone(self, kind, precision):
        path = self.file(f"{kind}.{precision}.json.gz")
        self.run(["trace", self.arguments.config, "-n", "1", "-o", path,
                  "--precision", precision, "--warmup",
                  str(self.arguments.warmup), "--steps",
                  str(self.arguments.steps),
                  *self.sets(device=kind, threads=self.threads_of(kind),
                             global_batch=self.rows_of(kind))])
        replayed = rows(self.run(["predict", path, "--format", "json"]))
        median = statistics.median(row["measured_ms"] for row in replayed)
        self.results["alone"][f"{kind} {precision}"] = median
        print(f"{self.name} alone: {kind} {precision} {median:.2f} ms, replays "
              f"within {max(abs(r['error_percent']) for r in replayed):.2f} %",
              flush=True)
        self.traces.append(path)

    def record_kinds(self):
        self.global_batch = self.read_global_batch()
        for kind in self.kinds:
            made = []
            for precision in list(self.precisions[kind]):
                try:
                    self.record_alone(kind, precision)
                    made.append(precision)
                except Failed:
                    print(f"without {kind} {precision}", flush=True)
            if "f32" not in made:
                raise Failed(f"no trace of {kind} in f32")
            self.precisions[kind] = made

    def measure_machine(self):
        words = ["bench", "--fit", self.machine, "-n", str(len(self.devices))]
        try:
            self.run(words, limit=60)
        except Failed:
            print("links: defaults of the machine description", flush=True)
        for kind in self.kinds:
            try:
                self.run(["bench", "cast", "--device", kind, "--machine",
                          self.machine], limit=60)
            except Failed:
                print(f"casts of {kind}: from the traces", flush=True)

    def cluster(self):
        counts = [str(self.devices.count(kind)) for kind in self.kinds]
        words = [*self.traces, "--workers", ",".join(counts)]
        if os.path.exists(self.machine):
            words += ["--machine", self.machine]
        return words

    def plan(self):
        path = self.file("plan.json")
        text = self.run(["plan", *self.cluster(), "-o", path, "--slack",
                         str(self.arguments.slack)])
        print(text, flush=True)
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        for kind, one in zip(self.kinds, plan["devices"]):
            self.names[kind] = one["device"]
        lowest = list(plan["uniform"])[-1]
        low = self.write_uniform("low", lambda kind: self.precisions[kind][-1])
        f32 = self.write_uniform("f32", lambda kind: "f32")
        return [("plan", path, plan["predicted"]),
                ("all low", low, plan["uniform"][lowest]),
                ("all f32", f32, plan["uniform"]["f32"])]

    def write_uniform(self, name, precision_of):
        path = self.file(f"{name}.plan.json")
        devices = [{"device": self.names[kind],
                    "precision": {"other": precision_of(kind), "layers": {}}}
                   for kind in self.kinds]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"version": 1, "precision": devices[0]["precision"],
                       "devices": devices}, file)
        return path

    # Trains and returns the step time after the warm-up, as logged by the
    # trainer.
    def train(self, label, plan, number):
        folder = self.file(f"{label.replace(' ', '_')}.{number}")
        shutil.rmtree(folder, ignore_errors=True)
        examples = self.global_batch * (self.arguments.warmup +
                                        self.arguments.measured)
        self.run(["train", self.arguments.config, "-n", str(len(self.devices)),
                  "--plan", plan, "--output", folder,
                  *self.together(), "--set",
                  f"data.arguments.examples={examples}"])
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
            steps = [row["batch_duration"] for row in rows(file.read())
                     if row.get("kind") == "batch"]
        shutil.rmtree(os.path.join(folder, "checkpoints"), ignore_errors=True)
        return statistics.median(steps[self.arguments.warmup:])

    def together(self):
        threads = ",".join(self.threads_of(device) for device in self.devices)
        return self.sets(device=f"[{','.join(self.devices)}]",
                         threads=f"[{threads}]",
                         shares=f"[{self.arguments.shares or 1}]")

    def measure(self, variants):
        measured = {label: [] for label, _, _ in variants}
        longest = 0
        for number in range(self.arguments.rounds):
            for label, plan, _ in variants:
                if number > 0 and self.left() < 1.2 * longest:
                    print(f"no time for more than {number} rounds", flush=True)
                    return measured
                begin = time.monotonic()
                try:
                    measured[label].append(self.train(label, plan, number))
                except Failed:
                    continue
                longest = max(longest, time.monotonic() - begin)
        return measured

    # Traces all ranks of a run, for Perfetto and sheaf predict --together.
    def trace_plan(self, plan):
        path = self.file("together.json.gz")
        if self.left() < 30:
            return
        try:
            self.run(["trace", self.arguments.config, "-n",
                      str(len(self.devices)), "--plan", plan, "-o", path,
                      *self.together()])
            ranks = [path.replace(".json.gz", f".rank{rank}.json.gz")
                     for rank in range(len(self.devices))]
            print(self.run(["predict", "--together", *ranks]), flush=True)
        except Failed:
            pass

    def tell(self, variants, measured):
        print(f"{'':10}{'predicted':>12}{'measured':>12}{'of runs':>20}"
              f"{'off by':>10}{'indicator':>14}")
        for label, _, predicted in variants:
            times = measured[label]
            row = {"predicted_ms": predicted["step_ms"], "runs_ms": times,
                   "indicator": predicted["indicator"],
                   "kinds": predicted["kinds"]}
            text = f"{'no run':>12}{'':20}{'':10}"
            if times:
                row["measured_ms"] = statistics.median(times)
                row["error_percent"] = 100 * (row["predicted_ms"] /
                                              row["measured_ms"] - 1)
                text = (f"{row['measured_ms']:9.2f} ms"
                        f"{min(times):11.2f} to {max(times):.2f}"
                        f"{row['error_percent']:8.2f} %")
            print(f"{label:10}{row['predicted_ms']:9.2f} ms{text}"
                  f"{row['indicator']:14.4g}")
            self.results["steps"][label] = row

    def save(self):
        self.results["seconds"] = self.seconds()
        with open(self.file("results.json"), "w", encoding="utf-8") as file:
            json.dump(self.results, file, indent=1)
        print(f"{self.seconds():.0f} s; {self.file('results.json')}")

    def make(self):
        try:
            self.measure_machine()
            self.record_kinds()
            variants = self.plan()
            measured = self.measure(variants)
            self.tell(variants, measured)
            self.trace_plan(variants[0][1])
        finally:
            self.save()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("out")
    parser.add_argument("config")
    parser.add_argument("--devices", default="cuda,cpu",
                        help="device of each rank, in order")
    parser.add_argument("--threads", default="2,7",
                        help="compute threads of each rank")
    parser.add_argument("--precisions", default="",
                        help="highest first; separate kinds of devices with /")
    parser.add_argument("--shares", default="",
                        help="shares of the global batch, as 3,1 (default: equal)")
    parser.add_argument("--slack", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8,
                        help="steps to record")
    parser.add_argument("--measured", type=int, default=25,
                        help="steps per training run")
    parser.add_argument("--seconds", type=float, default=330)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    try:
        Bench(arguments).make()
    except Failed as error:
        raise SystemExit(f"stopped: {str(error).splitlines()[0]}") from error


if __name__ == "__main__":
    main()

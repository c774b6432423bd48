"""More ranks out of a trace of one: predicted against measured.

usage: ranks.py SHEAF OUT CONFIG.yaml... [--ranks 2,4] [--rounds 5]
                [--rows 64] [--set key=value]...
Each round traces one rank, then each number of ranks with gradients and with
dad, so that what else the machine does hits all alike. A prediction is made
out of that round's trace of one rank and OUT/machine.json, which is measured
first where it is missing. Prints a line for each; the medians count.
"""
import argparse
import json
import os
import statistics
import subprocess

WAYS = {"data": "gradients", "dad": "dad"}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def rows(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Model:
    def __init__(self, arguments, config):
        self.arguments = arguments
        self.config = config
        self.name = os.path.splitext(os.path.basename(config))[0]

    def trace(self, ranks, strategy):
        path = os.path.join(self.arguments.out,
                            f"{self.name}.{strategy}.{ranks}.json")
        command = [self.arguments.sheaf, "trace", self.config, "-n", str(ranks),
                   "--warmup", "10", "--steps", str(self.arguments.steps),
                   "-o", path]
        for one in [f"global_batch={self.arguments.rows * ranks}", "threads=1",
                    f"parallel.strategy={strategy}", *self.arguments.set]:
            command += ["--set", one]
        run(command)
        return path if ranks == 1 else path.replace(".json", ".rank0.json")

    def measured(self, path):
        steps = rows(run([self.arguments.sheaf, "predict", path, "--format",
                          "json"]))
        return statistics.median(step["measured_ms"] for step in steps)

    def predicted(self, path, ranks, strategy):
        steps = rows(run([self.arguments.sheaf, "predict", path, "--workers",
                          str(ranks), "--machine", self.arguments.machine,
                          "--exchange", WAYS[strategy], "--format", "json"]))
        return max(step["predicted_ms"] for step in steps)

    def round(self, cases):
        one = self.trace(1, "data")
        self.alone.append(self.measured(one))
        for ranks, strategy in cases:
            cases[ranks, strategy].append(
                (self.predicted(one, ranks, strategy),
                 self.measured(self.trace(ranks, strategy))))

    def compare(self):
        self.alone = []
        cases = {(int(ranks), strategy): []
                 for strategy in WAYS for ranks in self.arguments.ranks.split(",")}
        for _ in range(self.arguments.rounds):
            self.round(cases)
        print(f"{self.name}: one rank {statistics.median(self.alone):.2f} ms")
        for (ranks, strategy), pairs in cases.items():
            predicted, measured = map(statistics.median, zip(*pairs))
            each = " ".join(f"{100 * (a / b - 1):+.0f}" for a, b in pairs)
            print(f"  {ranks} ranks, {WAYS[strategy]:9} predicted "
                  f"{predicted:7.2f} measured {measured:7.2f} ms "
                  f"{100 * (predicted / measured - 1):+6.1f} %   ({each})",
                  flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("out")
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    arguments.machine = os.path.join(arguments.out, "machine.json")
    if not os.path.exists(arguments.machine):
        run([arguments.sheaf, "bench", "--fit", arguments.machine, "-n", "2"])
    for config in arguments.configs:
        Model(arguments, config).compare()


if __name__ == "__main__":
    main()

"""Compares predictions for several ranks, from a trace of one, with measurements.

usage: ranks.py SHEAF OUT CONFIG.yaml... [--ranks 2,4] [--rounds 5]
                [--rows 64] [--set key=value]...
Each round traces one rank, then each number of ranks with gradients and with
dad, so that other load on the machine affects all of them equally. One rank is
traced on each core separately, bound to it as ranks are, because the cores of a
shared machine may differ in speed; the trace of the slowest core is used,
because the slowest rank determines the step. A prediction uses that round's
trace of one rank and OUT/machine.json, which is measured first if it is
missing. Prints one line per case, with medians and the best of all rounds.
"""
import argparse
import os
import statistics

from commands import rows, run

ROUTES = {"data": "gradients", "dad": "dad"}


class Model:
    def __init__(self, arguments, config):
        self.arguments = arguments
        self.config = config
        self.name = os.path.splitext(os.path.basename(config))[0]

    def trace(self, ranks, strategy, core=None):
        on = "" if core is None else f".core{core}"
        path = os.path.join(self.arguments.out,
                            f"{self.name}.{strategy}.{ranks}{on}.json")
        command = [self.arguments.sheaf, "trace", self.config, "-n", str(ranks),
                   "--warmup", "10", "--steps", str(self.arguments.steps),
                   "-o", path]
        for one in [f"global_batch={self.arguments.rows * ranks}", "threads=1",
                    f"parallel.strategy={strategy}", *self.arguments.set]:
            command += ["--set", one]
        run(command, core)
        return path if ranks == 1 else path.replace(".json", ".rank0.json")

    def measured(self, path):
        steps = rows(run([self.arguments.sheaf, "predict", path, "--format",
                          "json"]))
        return statistics.median(step["measured_ms"] for step in steps)

    def predicted(self, path, ranks, strategy):
        steps = rows(run([self.arguments.sheaf, "predict", path, "--workers",
                          str(ranks), "--machine", self.arguments.machine,
                          "--exchange", ROUTES[strategy], "--format", "json"]))
        return max(step["predicted_ms"] for step in steps)

    def round(self, cases):
        alone = [self.trace(1, "data", core)
                 for core in sorted(os.sched_getaffinity(0))[:self.most_ranks]]
        times = [self.measured(path) for path in alone]
        self.alone.append(times)
        one = alone[times.index(max(times))]
        for ranks, strategy in cases:
            cases[ranks, strategy].append(
                (self.predicted(one, ranks, strategy),
                 self.measured(self.trace(ranks, strategy))))

    def compare(self):
        self.alone = []
        self.most_ranks = max(map(int, self.arguments.ranks.split(",")))
        cases = {(int(ranks), strategy): []
                 for strategy in ROUTES for ranks in self.arguments.ranks.split(",")}
        for _ in range(self.arguments.rounds):
            self.round(cases)
        cores = ", ".join(f"{statistics.median(times):.2f}"
                          for times in zip(*self.alone))
        print(f"{self.name}: one rank, on each core: {cores} ms")
        for (ranks, strategy), pairs in cases.items():
            predicted, measured = map(statistics.median, zip(*pairs))
            best = [min(times) for times in zip(*pairs)]
            each = " ".join(f"{100 * (a / b - 1):+.0f}" for a, b in pairs)
            print(f"  {ranks} ranks, {ROUTES[strategy]:9} predicted "
                  f"{predicted:7.2f} measured {measured:7.2f} ms "
                  f"{100 * (predicted / measured - 1):+6.1f} %; best of each "
                  f"{best[0]:7.2f} {best[1]:7.2f} ms "
                  f"{100 * (best[0] / best[1] - 1):+6.1f} %   ({each})",
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

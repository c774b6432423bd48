"""Compares prediction and measurement for plans that were never traced.

usage: mixed.py SHEAF OUT MODEL.yaml... [--precisions f32,bf16,int8]
                [--plans 5] [--device cuda] [--set key=value]...
Traces each model with all layers in each precision, generates plans, predicts
them, runs them, and prints a table. Traces and plans are kept in OUT.
"""
import argparse
import json
import os
import random

from commands import rows, run


class Model:
    def __init__(self, arguments, config):
        self.arguments = arguments
        self.config = config
        self.name = os.path.splitext(os.path.basename(config))[0]
        self.traces = []

    def file(self, name):
        return os.path.join(self.arguments.out, f"{self.name}.{name}")

    def trace(self, name, *options):
        path = self.file(f"{name}.json.gz")
        command = [self.arguments.sheaf, "trace", self.config, "-n", "1", "-o",
                   path, "--warmup", str(self.arguments.warmup), "--steps",
                   str(self.arguments.steps), *options]
        for one in [f"device={self.arguments.device}", *self.arguments.set]:
            command += ["--set", one]
        run(command)
        return path

    def trace_uniform(self):
        for precision in self.arguments.precisions.split(","):
            path = self.trace(precision, "--precision", precision)
            self.traces.append(path)
            steps = rows(run([self.arguments.sheaf, "predict", path, "--format",
                              "json"]))
            worst = max(steps, key=lambda row: abs(row["error_percent"]))
            self.compare(f"all {precision}", path,
                         {"other": precision, "layers": {}},
                         f"replays within {abs(worst['error_percent']):.2f} %")

    def layers(self):
        graph = json.loads(run([self.arguments.sheaf, "plan", "graph",
                                self.traces[0]]))
        return list(dict.fromkeys(one["layer"] for one in graph["operators"]
                                  if "layer" in one))

    def plans(self):
        high, *low = self.arguments.precisions.split(",")
        layers = self.layers()
        middle = len(layers) // 2
        yield "first half low", {name: low[0] for name in layers[:middle]}
        yield "second half low", {name: low[-1] for name in layers[middle:]}
        yield "every other", {name: low[i % len(low)]
                              for i, name in enumerate(layers) if i % 2}
        for seed in range(self.arguments.plans - 3):
            dice = random.Random(seed)
            yield f"random {seed}", {name: dice.choice([high, *low])
                                     for name in layers}

    def compare(self, label, measured, precision, note=""):
        plan = self.file("compared.json")
        with open(plan, "w", encoding="utf-8") as file:
            json.dump({"precision": precision}, file)
        table = rows(run([self.arguments.sheaf, "plan", "compare", "--plan",
                          plan, "--measured", measured, *self.traces,
                          "--machine", self.arguments.machine, "--format",
                          "json"]))
        step, memory = table[0], table[1]
        print(f"{self.name:9} {label:16} step {step['predicted']:9.2f} "
              f"{step['measured']:9.2f} ms {step['error_percent']:6.2f} %   "
              f"peak {memory['predicted']:9.1f} {memory['measured']:9.1f} MiB "
              f"{memory['error_percent']:6.2f} %   {note}", flush=True)
        return abs(step["error_percent"]), abs(memory["error_percent"])

    def mixed(self):
        high = self.arguments.precisions.split(",")[0]
        for label, layers in self.plans():
            name = label.replace(" ", "_")
            precision = {"other": high, "layers": layers}
            plan = self.file(f"{name}.plan.json")
            with open(plan, "w", encoding="utf-8") as file:
                json.dump({"precision": precision}, file)
            yield self.compare(label, self.trace(name, "--plan", plan),
                               precision)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sheaf")
    parser.add_argument("out")
    parser.add_argument("configs", nargs="+")
    parser.add_argument("--precisions", default="f32,bf16,int8")
    parser.add_argument("--plans", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", action="append", default=[])
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    arguments.machine = os.path.join(arguments.out, "machine.json")
    run([arguments.sheaf, "bench", "cast", "--device", arguments.device,
         "--machine", arguments.machine])
    errors = []
    for config in arguments.configs:
        model = Model(arguments, config)
        model.trace_uniform()
        errors += list(model.mixed())
    times = [one[0] for one in errors]
    bytes_ = [one[1] for one in errors]
    print(f"{len(errors)} mixed plans: step off by {sum(times)/len(times):.2f} "
          f"% on average, {max(times):.2f} % at most; peak memory "
          f"{sum(bytes_)/len(bytes_):.2f} % and {max(bytes_):.2f} %")


if __name__ == "__main__":
    main()

"""Trains a network with Python's DistributedDataParallel and with Sheaf's
DataParallel, from the same start on the same data, and compares the weights
after 50 steps in f64.

usage: python_ddp.py SHEAF PROGRAM FOLDER [CASE...]

PROGRAM is tests/parallel/data/ddp_twin.cpp. Two cases are compared with one
Python process that has all data: `sync_norm`, because SyncBatchNorm needs GPUs,
and `unfreeze`, where DDP does not average parameters that were frozen at first.
Exits with 77 if torch is missing, or with 1 if SHEAF_CI is also set.
"""
import os
import subprocess
import sys

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn as nn
    from torch.nn.parallel import DistributedDataParallel
except ImportError as error:
    print(f"no torch in {sys.executable}: {error}")
    sys.exit(1 if os.environ.get("SHEAF_CI") else 77)

RANKS, STEPS, ROWS = 2, 50, 6
ALONE = ("sync_norm", "unfreeze")
CASES = ("hooks", "unused", "join", "sync_norm", "two_models", "no_sync",
         "tied_clip", "unfreeze")


class Net(nn.Module):
    has_hook, uses_side = False, True

    def __init__(self, has_norm):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4) if has_norm else None
        self.first = nn.Linear(4 * 36, 20)
        self.tied = nn.Linear(20, 20)
        self.again = self.tied
        self.side = nn.Linear(20, 5)
        self.last = nn.Linear(20, 5)

    def forward(self, x):
        x = self.conv(x)
        if self.norm is not None:
            x = self.norm(x)
        hidden = torch.tanh(self.first(torch.relu(x).flatten(1)))
        if self.has_hook and hidden.requires_grad:
            hidden.register_hook(lambda g: g * 0.5)
        hidden = self.again(torch.tanh(self.tied(hidden)))
        y = self.last(hidden)
        return y + self.side(hidden) if self.uses_side else y


class Twin:
    """The cases, as ddp_twin.cpp has them."""

    def __init__(self, rank, ranks, folder, has_norm):
        self.rank, self.ranks, self.folder = rank, ranks, folder
        self.has_norm = has_norm
        examples = torch.load(f"{folder}/data.pt")
        self.data, self.target = examples["data"], examples["target"]
        self.net = self.make_net()
        self.optimizer = self.make_optimizer(self.net)
        self.before_step = lambda step: None
        self.after_backward = lambda: None

    def make_net(self):
        net = Net(self.has_norm).double()
        net.load_state_dict(torch.load(f"{self.folder}/start.pt"))
        return net

    def make_optimizer(self, net):
        return torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9,
                               weight_decay=1e-3)

    def wrap(self, net, **options):
        if self.ranks == 1:
            return net
        return DistributedDataParallel(net, **options)

    def mine(self, tensor, step):
        rows = tensor.shape[1] // self.ranks
        return tensor[step][self.rank * rows:(self.rank + 1) * rows]

    def loss(self, output, step):
        return nn.functional.cross_entropy(output,
                                           self.mine(self.target, step))

    def step(self, model, step):
        self.before_step(step)
        self.optimizer.zero_grad()
        self.loss(model(self.mine(self.data, step)), step).backward()
        self.after_backward()
        self.optimizer.step()

    def train(self, **options):
        model = self.wrap(self.net, **options)
        for step in range(STEPS):
            self.step(model, step)

    def hooks(self):
        self.net.has_hook = True
        self.net.first.weight.register_hook(lambda g: g * 2)
        self.train()

    def unused(self):
        def choose(step):
            self.net.uses_side = self.rank == 0 and step % 2 == 1
        self.before_step = choose
        self.train(find_unused_parameters=True)

    def join(self):
        model = self.wrap(self.net)
        with model.join():
            for step in range(STEPS - 7 * self.rank):
                self.step(model, step)

    def sync_norm(self):
        self.train()

    def two_models(self):
        other = self.make_net()
        model, twin = self.wrap(self.net), self.wrap(other)
        second = self.make_optimizer(other)
        for step in range(STEPS):
            self.optimizer.zero_grad()
            second.zero_grad()
            x = self.mine(self.data, step)
            a, b = model(x), twin(x * 0.5)
            (self.loss(a, step) + (a - b.detach()).square().mean()).backward()
            (self.loss(b, step) + (b - a.detach()).square().mean()).backward()
            self.optimizer.step()
            second.step()
        if self.rank == 0:
            torch.save(other.state_dict(), f"{self.folder}/python_other.pt")

    def no_sync(self):
        model = self.wrap(self.net)
        for step in range(0, STEPS, 2):
            self.optimizer.zero_grad()
            with model.no_sync():
                self.loss(model(self.mine(self.data, step)), step).backward()
            self.loss(model(self.mine(self.data, step + 1)),
                      step + 1).backward()
            self.optimizer.step()

    def tied_clip(self):
        self.after_backward = lambda: clip_by_norm(self.net, 0.25)
        self.train()

    def unfreeze(self):
        self.net.first.requires_grad_(False)

        def thaw(step):
            if step == STEPS // 2:
                self.net.first.requires_grad_(True)
        self.before_step = thaw
        self.train()


def clip_by_norm(net, most):
    """clip_grad_norm_ without the 1e-6 that it adds to the norm."""
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > most:
        for gradient in gradients:
            gradient.mul_(most / norm)


def prepare(folder, case):
    torch.manual_seed(3)
    torch.save(Net(case == "sync_norm").double().state_dict(), f"{folder}/start.pt")
    data = torch.randn(STEPS, RANKS * ROWS, 1, 6, 6, dtype=torch.float64)
    target = torch.randint(5, (STEPS, RANKS * ROWS))
    torch.save({"data": data, "target": target}, f"{folder}/data.pt")


def train(rank, ranks, folder, case):
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meet",
                                rank=rank, world_size=ranks)
    twin = Twin(rank, ranks, folder, case == "sync_norm")
    getattr(twin, case)()
    if rank == 0:
        torch.save(twin.net.state_dict(), f"{folder}/python.pt")


def compare(folder, case, suffix=""):
    python, ours, start = (
        torch.load(f"{folder}/{name}.pt")
        for name in (f"python{suffix}", f"sheaf{suffix}", "start"))
    assert set(ours) == set(python), set(ours) ^ set(python)
    most = 0
    for name, value in python.items():
        if name == "norm.num_batches_tracked":
            continue
        scale = value.abs().max().item()
        moved = (value - start[name]).abs().max().item()
        apart = (value - ours[name]).abs().max().item() / max(scale, 1e-30)
        assert moved > 1e-3, (case, name, moved)
        assert apart < 1e-10, (case, name, apart)
        most = max(most, apart)
    print(f"{case}{suffix}: apart by {most:.2g} at most, relative")


def run(sheaf, program, folder, case):
    for name in os.listdir(folder):
        os.remove(f"{folder}/{name}")
    prepare(folder, case)
    if case in ALONE:
        mp.spawn(train, args=(1, folder, case), nprocs=1)
    else:
        mp.spawn(train, args=(RANKS, folder, case), nprocs=RANKS)
    subprocess.run([sheaf, "run", "-n", str(RANKS), "--", program, folder,
                    case], check=True)
    compare(folder, case)
    if case == "two_models":
        compare(folder, case, "_other")


def main():
    sheaf, program, folder, *cases = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for case in cases or CASES:
        run(sheaf, program, folder, case)


if __name__ == "__main__":
    main()

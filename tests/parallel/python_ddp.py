"""Trains a network with Python's DistributedDataParallel and with Sheaf's
DataParallel, from the same start on the same data, and compares the weights.

usage: python_ddp.py SHEAF PROGRAM FOLDER

PROGRAM is tests/parallel/ddp_twin.cpp. Exits with 77 where torch is missing.
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
    sys.exit(77)

RANKS, STEPS, ROWS = 2, 20, 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.first = nn.Linear(4 * 36, 20)
        self.last = nn.Linear(20, 5)

    def forward(self, x):
        x = torch.relu(self.conv(x)).flatten(1)
        return self.last(torch.tanh(self.first(x)))


def prepare(folder):
    torch.manual_seed(3)
    net = Net().double()
    torch.save(net.state_dict(), f"{folder}/start.pt")
    data = torch.randn(STEPS, RANKS * ROWS, 1, 6, 6, dtype=torch.float64)
    target = torch.randint(5, (STEPS, RANKS * ROWS))
    torch.save({"data": data, "target": target}, f"{folder}/data.pt")


def train(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet",
                            rank=rank, world_size=RANKS)
    net = Net().double()
    net.load_state_dict(torch.load(f"{folder}/start.pt"))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9,
                                weight_decay=1e-3)
    examples = torch.load(f"{folder}/data.pt")
    mine = slice(rank * ROWS, (rank + 1) * ROWS)
    for data, target in zip(examples["data"], examples["target"]):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data[mine]), target[mine]).backward()
        optimizer.step()
    if rank == 0:
        torch.save(net.state_dict(), f"{folder}/python.pt")


def main():
    sheaf, program, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for name in ("meet", "python.pt", "sheaf.pt"):
        if os.path.exists(f"{folder}/{name}"):
            os.remove(f"{folder}/{name}")
    prepare(folder)
    mp.spawn(train, args=(folder,), nprocs=RANKS)
    subprocess.run([sheaf, "run", "-n", str(RANKS), "--", program, folder],
                   check=True)
    python, ours, start = (torch.load(f"{folder}/{name}.pt")
                           for name in ("python", "sheaf", "start"))
    assert list(python) == list(ours), (list(python), list(ours))
    for name, value in python.items():
        moved = (value - start[name]).abs().max().item()
        apart = (value - ours[name]).abs().max().item()
        print(f"{name}: moved by {moved:.3g}, apart by {apart:.3g}")
        assert moved > 1e-2 and apart < 1e-12, name


if __name__ == "__main__":
    main()

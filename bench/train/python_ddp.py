"""Time of a training step of the MLP under Python's DistributedDataParallel.

usage: sheaf run -n 2 -- python3 python_ddp.py ROWS STEPS

The same network, optimizer and data sizes as step.cpp; rank 0 prints one JSON
object.
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

SIZES = [784, 2048, 1024, 512, 256, 10]


def make_net():
    layers = []
    for n, m in zip(SIZES, SIZES[1:]):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def main():
    rows, steps = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK"))
    size = os.environ.get("OMPI_COMM_WORLD_SIZE", os.environ.get("PMI_SIZE"))
    port = os.environ.get("MASTER_PORT", "29517")
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}",
                            rank=int(rank), world_size=int(size))
    net = DistributedDataParallel(make_net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data, target = torch.randn(rows, 784), torch.randint(10, (rows,))
    times = []
    for step in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(data), target).backward()
        optimizer.step()
        if step >= 5:
            times.append((time.perf_counter() - start) * 1e3)
    if dist.get_rank() == 0:
        print(json.dumps({"rows": rows, "step_ms": statistics.median(times)}))


if __name__ == "__main__":
    main()

"""Training throughput of an image network in Python's eager mode, in images/s.

usage: python3 python_images.py [NETWORK] [DEVICE] [ROWS] [SIDE] [STEPS]

The network of torchvision, and the steps of images.cpp; prints one JSON object.
"""
import json
import sys
import time

import torch
import torchvision

WARMUP = 10


def main():
    given = dict(enumerate(sys.argv))
    network, device = given.get(1, "resnet50"), given.get(2, "cuda")
    rows, side, steps = (int(given.get(i, default))
                         for i, default in ((3, 64), (4, 224), (5, 30)))
    net = getattr(torchvision.models, network)().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    data = torch.randn(rows, 3, side, side, device=device)
    target = torch.randint(1000, (rows,), device=device)
    for step in range(-WARMUP, steps):
        if step == 0:
            start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(data), target)
        loss.backward()
        optimizer.step()
        if step in (-1, steps - 1):
            value = loss.item()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    print(json.dumps({
        "network": network, "device": device, "rows": rows,
        "images_per_s": round(rows * steps / seconds, 1),
        "step_ms": round(seconds * 1e3 / steps, 3), "loss": round(value, 4)}))


if __name__ == "__main__":
    main()

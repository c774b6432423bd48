"""Reads the weights that 05_weights_for_python.cpp wrote.

usage: python3 05_weights_for_python.py line.pt
"""
import sys

try:
    import torch
except ImportError:
    print(f"no torch in {sys.executable}")
    sys.exit(77)

net = torch.nn.Sequential(torch.nn.Linear(1, 1))
net.load_state_dict(torch.load(sys.argv[1]))
at_two = net(torch.tensor([[2.0]])).item()
print(f"3 * 2 + 1 is about {at_two:.2f}")
sys.exit(0 if abs(at_two - 7) < 0.05 else 1)

"""What the scripts of this folder share: checks, writing files, and judging how hard a case is for
float32."""

from pathlib import Path

import torch
from safetensors.torch import save_file

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

# A gradient flows through the position of a maximum. In float32 that position must not depend on
# rounding.
SMALLEST_GAP = 1e-5

# In float64 smaller gradients are rounding noise around an exact zero, mostly of the key bias.
NOISE = 1e-12


class Checks:
    """Prints a line a check and remembers failures."""

    def __init__(self):
        self.failed = False

    def __call__(self, holds, text):
        print(text if holds else f"FAILED: {text}", flush=True)
        self.failed |= not holds


def write_tensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    plain = {name: tensor.detach().contiguous().clone() for name, tensor in tensors.items()}
    save_file(plain, path, metadata={"format": "pt"})


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def worst_deviation(
    expected: dict[str, torch.Tensor], got: dict[str, torch.Tensor]
) -> tuple[float, float]:
    """The largest error of any output and of any gradient, relative to that tensor's largest
    entry."""
    outputs, gradients = 0.0, 0.0
    for name, tensor in expected.items():
        largest = tensor.abs().max().item()
        if largest < NOISE:
            continue
        error = (tensor - got[name].double()).abs().max().item() / largest
        if name.startswith("grad."):
            gradients = max(gradients, error)
        else:
            outputs = max(outputs, error)
    return outputs, gradients


def largest_gap(sums: torch.Tensor) -> float:
    """How far the largest entry stands out of the others, relative to itself."""
    top = torch.topk(sums.flatten(), 2).values
    return ((top[0] - top[1]) / top[0]).item()

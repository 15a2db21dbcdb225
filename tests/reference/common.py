"""What the scripts of this folder share: checks, writing files, and judging how hard a case is for
float32."""

import argparse
import warnings
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


def drawn_arguments(text: str, program: Path) -> argparse.Namespace:
    """Those of a script that draws models, whose docstring is `text`: program, models and seed.
    transformers says nothing from here on."""
    import transformers

    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", default=program)
    parser.add_argument("--models", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    return parser.parse_args()


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

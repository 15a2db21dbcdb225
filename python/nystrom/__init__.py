"""Trains, runs and exports Nyströmformer encoders, whose attention costs O(n).

    model = nystrom.load("runs/mine")
    model.fill_mask("The ship sailed on the [MASK].")

The package holds no logic of its own: it calls the libraries of the program `nystrom`, and its
results are the program's.
"""

from nystrom._extension import (
    NoGrad,
    Step,
    Tape,
    Tensor,
    checkpoint,
    num_threads,
    set_num_threads,
    version as __version__,
)
from nystrom import nn, ops, optim
from nystrom.commands import approximation, check, convert, evaluate, extend, info, search
from nystrom.errors import InputError, InternalError, Interrupted
from nystrom.model import Model, load
from nystrom.runs import Run, finetune, pretrain
from nystrom.tokenizer import Tokenizer

__all__ = [
    "InputError",
    "InternalError",
    "Interrupted",
    "Model",
    "NoGrad",
    "Run",
    "Step",
    "Tape",
    "Tensor",
    "Tokenizer",
    "__version__",
    "approximation",
    "check",
    "checkpoint",
    "convert",
    "evaluate",
    "extend",
    "finetune",
    "info",
    "load",
    "nn",
    "num_threads",
    "ops",
    "optim",
    "pretrain",
    "search",
    "set_num_threads",
]

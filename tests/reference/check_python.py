"""The Python package beside PyTorch: two OpenMP runtimes in one process, imported in either order.

    build/interop/bin/python tests/reference/check_python.py

Both compute in turns and at once. nystrom's results must have the bits that they have without
PyTorch, and PyTorch's those that it has alone. Tensors pass between them without a copy, bf16 too.
"""

import sys
import textwrap
from pathlib import Path

from common import ROOT, run, script

BUILD = ROOT / "build"

# The environment of PyTorch lacks nanobind-backend; its own packages come first.
PATHS = f"""
import glob, sys
sys.path.insert(0, {str(BUILD / "release" / "python")!r})
sys.path += glob.glob({str(BUILD / "python" / "lib" / "python3*" / "site-packages")!r})
"""

PREPARE = """
    import hashlib, sys
    import numpy as np

    def nystrom_result(model):
        ids = np.arange(4 * 24).reshape(4, 24) % 36
        logits = model(ids)["logits"]
        return hashlib.sha256(logits.tobytes()).hexdigest()

    def torch_result():
        torch.manual_seed(1)
        x = torch.randn(512, 512, requires_grad=True)
        loss = torch.nn.functional.gelu(x @ torch.randn(512, 512)).square().mean()
        loss.backward()
        return hashlib.sha256(x.grad.numpy().tobytes()).hexdigest()
"""

ALONE = {
    "nystrom": "import nystrom; print(nystrom_result(nystrom.load(sys.argv[1])))",
    "torch": "import torch; print(torch_result())",
}

TOGETHER = """
    import threading
    import {first}, {second}

    model = nystrom.load(sys.argv[1])
    results = {{"nystrom": set(), "torch": set()}}

    def compute(name, function, *arguments):
        for _ in range(5):
            results[name].add(function(*arguments))

    for _ in range(2):
        compute("nystrom", nystrom_result, model)
        compute("torch", torch_result)
    threads = [threading.Thread(target=compute, args=("nystrom", nystrom_result, model)),
               threading.Thread(target=compute, args=("torch", torch_result))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

    leaf = torch.ones(3)
    tensor = nystrom.Tensor(leaf)
    leaf[1] = 5
    assert tensor.numpy()[1] == 5, "a tensor of PyTorch was copied"
    back = torch.from_dlpack(tensor)
    assert back.data_ptr() == leaf.data_ptr(), "a tensor of nystrom was copied"
    weights = nystrom.load(sys.argv[1], dtype="bf16").parameters()
    halves = {{name: torch.from_dlpack(value) for name, value in weights.items()}}
    full = model.parameters()
    assert all(value.dtype == torch.bfloat16 for value in halves.values())
    assert all(torch.equal(value, torch.from_dlpack(full[name]).bfloat16())
               for name, value in halves.items()), "bf16 parameters differ"
    print(*results["nystrom"], *results["torch"])
"""

TRAIN = """
    import sys, nystrom
    words = "the sea was calm and old ships sailed home under pale stars".split()
    text = sys.argv[1] + "/text.txt"
    with open(text, "w") as file:
        for i in range(300):
            print(*[words[(i * j + j) % len(words)] for j in range(8)], file=file)
    nystrom.pretrain({
        "run_dir": sys.argv[1] + "/run",
        "model": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                  "intermediate_size": 64, "max_position_embeddings": 32,
                  "attention": {"num_landmarks": 4, "conv_kernel_size": 3}},
        "tokenizer": {"train": {"vocab_size": 36}},
        "data": {"train": [text], "validation_fraction": 0.1, "documents": "lines",
                 "sequence_length": 32, "cache": sys.argv[1] + "/cache"},
        "training": {"steps": 5, "batch_size": 8, "micro_batch_size": 8, "dtype": "f32"},
        "schedule": {"warmup_steps": 1}}, quiet=True)
"""


def words_of(source: str, argument: Path) -> list[str]:
    """The words that a script prints, in a process of its own."""
    return run(sys.executable, "-c", PATHS + textwrap.dedent(source), argument).split()


@script(__doc__, program=None)
def main(_, check, folder):
    words_of(TRAIN, folder)
    model, prepare = folder / "run", textwrap.dedent(PREPARE)
    alone = [words_of(prepare + source, model)[0] for source in ALONE.values()]
    for first, second in (("torch", "nystrom"), ("nystrom", "torch")):
        together = textwrap.dedent(TOGETHER).format(first=first, second=second)
        found = words_of(prepare + together, model)
        check(
            found == alone,
            f"{first} imported first: nystrom and PyTorch have the bits that they have alone"
            + ("" if found == alone else f": {found}, alone {alone}"),
        )

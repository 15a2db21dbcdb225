"""Reads and writes safetensors, for the inputs and outputs of `nystrom forward`."""

import json
from pathlib import Path

import numpy as np

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind = next(k for k, dtype in TYPES.items() if tensor.dtype == dtype)
        begin = len(data)
        data += tensor.tobytes()
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def read(path: Path) -> dict[str, np.ndarray]:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    return {
        name: np.frombuffer(
            content[8 + size :][slice(*entry["data_offsets"])], TYPES[entry["dtype"]]
        ).reshape(entry["shape"])
        for name, entry in header.items()
    }

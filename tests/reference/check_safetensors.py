"""Compares our safetensors files with those of Hugging Face's library.

usage: check_safetensors.py [--program build/release/safetensors_roundtrip] [--cases N]

For random tensors: the library's file is read and written by ours; the library reads the result
with the same bytes in every tensor, and writes from it a file equal to ours byte for byte. Then
damaged files: whatever ours accepts, the library accepts with the same bytes."""

import json
import subprocess

import numpy as np
import torch
from common import script
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save

# Types that are preserved. float16 and bool become float32 and uint8.
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
NAMES_OF_TYPES = "F64 F32 BF16 F16 I64 I32 U8 BOOL I8 F8_E4M3 X".split()
NAME_CHARACTERS = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def random_tensors(rng, types):
    tensors = {}
    for _ in range(rng.integers(0, 8)):
        name = "".join(rng.choice(NAME_CHARACTERS, rng.integers(1, 40)))
        shape = tuple(int(n) for n in rng.integers(0, 6, rng.integers(0, 5)))
        values = torch.from_numpy(np.asarray(rng.integers(0, 200, shape)))
        tensors[name] = values.to(types[rng.integers(len(types))])
    return tensors


def roundtrip(program, source, target):
    return subprocess.run([program, source, target], capture_output=True, text=True)


def metadata_of(path):
    with safe_open(path, "pt") as file:
        return file.metadata()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def library_writes(tensors, metadata, expected):
    """True when the library can write exactly `expected`; it shuffles the metadata keys anew at
    each call."""
    return any(save(tensors, metadata) == expected for _ in range(200))


def check_equal(program, rng, folder, cases):
    for case in range(cases):
        tensors = random_tensors(rng, TYPES)
        source, target = folder / "source", folder / "target"
        metadata = {"format": "pt", "note": 'grüße "\\\n'} if case % 2 else None
        source.write_bytes(save(tensors, metadata))
        result = roundtrip(program, source, target)
        assert result.returncode == 0, result.stderr
        written = target.read_bytes()
        loaded = load(written)
        assert loaded.keys() == tensors.keys()
        assert all(same(loaded[name], tensors[name]) for name in tensors)
        assert library_writes(loaded, metadata_of(target), written), "not equal byte for byte"
        sums = json.loads(metadata_of(target)["nystrom.integrity"])
        assert set(sums) == {*tensors, "__metadata__"}


def check_converted(program, folder):
    tensors = {
        "half": torch.tensor([1.5, -2.0, 65504.0, 6e-8], dtype=torch.float16),
        "flag": torch.tensor([True, False]),
    }
    (folder / "source").write_bytes(save(tensors))
    assert roundtrip(program, folder / "source", folder / "target").returncode == 0
    loaded = load((folder / "target").read_bytes())
    assert same(loaded["half"], tensors["half"].to(torch.float32))
    assert same(loaded["flag"], tensors["flag"].to(torch.uint8))


def flip_bits(rng, file):
    header_end = 8 + int.from_bytes(file[:8], "little")
    damaged = bytearray(file)
    for _ in range(rng.integers(1, 3)):
        damaged[rng.integers(header_end)] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def edit_header(rng, file):
    """Another description of the same data: some are right, such as a shape with a 1 more, most are
    not."""
    header_end = 8 + int.from_bytes(file[:8], "little")
    header = json.loads(file[8:header_end])
    names = [name for name in header if name != "__metadata__"]
    if not names:
        return file
    name, other = (names[i] for i in rng.integers(len(names), size=2))
    tensor = header[name]
    match rng.integers(8):
        case 0:
            tensor["dtype"] = str(rng.choice(NAMES_OF_TYPES))
        case 1:
            place = int(rng.integers(len(tensor["shape"]) + 1))
            tensor["shape"].insert(place, int(rng.integers(3)))
        case 2:
            rng.shuffle(tensor["shape"])
        case 3:
            tensor["data_offsets"][rng.integers(2)] += int(rng.integers(-8, 9))
        case 4:
            places = tensor["data_offsets"], header[other]["data_offsets"]
            header[other]["data_offsets"], tensor["data_offsets"] = places
        case 5:
            header["another"] = header.pop(name)
        case 6:
            del header[name]
        case 7:
            header[name] = header[other]
    text = json.dumps(header).encode()
    text += b" " * int(rng.integers(12)) + (b"\0" if rng.random() < 0.1 else b"")
    data = file[header_end:] + (b"\0" if rng.random() < 0.1 else b"")
    return len(text).to_bytes(8, "little") + text + data


def check_damaged(program, rng, folder, cases):
    """Files of the library, without checksums, whose header was changed: by bits, and as JSON."""
    accepted = 0
    for case in range(cases):
        file = save(random_tensors(rng, TYPES), {"format": "pt"})
        damaged = (flip_bits, edit_header)[case % 2](rng, file)
        source, target = folder / "source", folder / "target"
        source.write_bytes(damaged)
        result = roundtrip(program, source, target)
        assert result.returncode in (0, 2), result
        if result.returncode == 2:
            told = result.stderr
            assert told.startswith(str(source)) and told.count("\n") == 1, told
            continue
        accepted += 1
        try:
            theirs = load(damaged)
        except SafetensorError as error:
            raise AssertionError(f"accepted here, refused by the library: {error}") from error
        ours = load(target.read_bytes())
        assert theirs.keys() == ours.keys()
        assert all(
            save({"x": theirs[name]}) == save({"x": ours[name]})
            for name in theirs
            if theirs[name].dtype in TYPES
        )
    return accepted


@script(__doc__, program="safetensors_roundtrip", cases=500)
def main(arguments, check, folder):
    rng = np.random.default_rng(0)
    check_equal(arguments.program, rng, folder, arguments.cases)
    check_converted(arguments.program, folder)
    accepted = check_damaged(arguments.program, rng, folder, 10 * arguments.cases)
    print(
        f"{arguments.cases} files equal byte for byte; {accepted} of "
        f"{10 * arguments.cases} damaged ones accepted, as the library does"
    )

"""Writes the state dicts beside it. Run with PyTorch; the files are committed."""

import collections

import torch

values = torch.arange(12, dtype=torch.float32).reshape(3, 4)
entries = collections.OrderedDict(
    plain=values,
    transposed=values.t(),
    row=values[1],
    half=values.half(),
    bfloat=values.bfloat16(),
    double=values.double(),
    integers=torch.arange(3),
    flags=torch.tensor([True, False]),
    parameter=torch.nn.Parameter(values[:, ::2]),
    positions=torch.arange(3).expand((1, -1)),
    scalar=torch.tensor(7.0),
    empty=torch.empty(0, 3),
    epoch=3,
    note="kept out",
    nothing=None,
)
torch.save(entries, "zip.bin")
torch.save(entries, "legacy.bin", _use_new_zipfile_serialization=False)
torch.save(entries, "protocol4.bin", pickle_protocol=4)
torch.save(entries, "legacy4.bin", pickle_protocol=4, _use_new_zipfile_serialization=False)
torch.save(torch.nn.LayerNorm(4).state_dict(), "module.bin")

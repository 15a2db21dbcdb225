"""Compares models of BERT's family that nystrom exported as such with their sources.

usage: check_architecture_export.py [--program build/release/nystrom]

Each folder of tests/fixtures/architectures is exported and loaded by transformers' own class,
without code of the folder: no weight may be initialised anew or be left over, but a pooler that no
head reads, and the outputs in float64 must be those of the source within 1e-6. The exports of
each folder's twin with pytorch_model.bin, in the forms of torch.save, must have the same bytes."""

import shutil

import torch
import transformers
from common import FIXTURES, deviation, run, script
from safetensors.torch import load_file

FOLDERS = sorted((FIXTURES / "architectures").iterdir())
# nystrom reads one of their heads, or the encoder alone; and transformers does not load the last.
INCOMPARABLE = ("bert_pretraining", "bert_mlm_without_prefix")
FORMS = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
}


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    model_class = getattr(transformers, config.architectures[0])
    model, info = model_class.from_pretrained(folder, output_loading_info=True)
    return model.eval().double(), info


def outputs(model):
    torch.manual_seed(0)
    shape = (2, 3, 9) if type(model).__name__.endswith("MultipleChoice") else (2, 9)
    ids = torch.randint(5, model.config.vocab_size, shape)
    mask = torch.ones(shape, dtype=torch.long)
    mask[-1, ..., 6:] = 0
    ids[mask == 0] = model.config.pad_token_id
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask)
    keys = [key for key in ("logits", "start_logits", "end_logits") if key in out]
    if "prediction_logits" in out:
        return [out.prediction_logits[mask == 1]]
    if not keys:
        return [out.last_hidden_state[mask == 1]]
    per_token = out[keys[0]].shape[:2] == shape and len(shape) == 2
    return [out[key][mask == 1] if per_token else out[key] for key in keys]


def twin(folder, target, form):
    """A copy of the folder whose weights are a file of torch.save."""
    target.mkdir()
    for file in folder.iterdir():
        if not file.name.startswith("model"):
            shutil.copy(file, target)
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights.update(load_file(file))
    # A parameter, a transposed copy and a view in a larger storage.
    for i, (name, value) in enumerate(sorted(weights.items())):
        if i % 3 == 0:
            weights[name] = torch.nn.Parameter(value, requires_grad=value.is_floating_point())
        elif i % 3 == 1 and value.ndim == 2:
            weights[name] = value.t().contiguous().t()
        elif value.ndim == 1:
            weights[name] = torch.cat([value[:1], value])[1:]
    torch.save(weights, target / "pytorch_model.bin", **FORMS[form])
    return target


@script(__doc__)
def main(arguments, check, scratch):
    def export(source, target):
        run(arguments.program, "export", source, target, "--quiet")
        return target

    for folder in FOLDERS:
        target = export(folder, scratch / folder.name)
        model, info = load(target)
        missing = [name for name in info["missing_keys"] if "pooler" not in name]
        unexpected = list(info["unexpected_keys"])
        check(not missing and not unexpected, f"{folder.name}: weights {missing} {unexpected}")
        if folder.name in INCOMPARABLE:
            continue
        source, _ = load(folder)
        largest = max(
            deviation(*pair) for pair in zip(outputs(model), outputs(source), strict=True)
        )
        check(largest <= 1e-6, f"{folder.name}: outputs differ by {largest:.1e}")
        for form in FORMS:
            other = twin(folder, scratch / f"{folder.name} {form}", form)
            other = export(other, scratch / f"{folder.name} {form} exported")
            same = all(
                (other / name).read_bytes() == (target / name).read_bytes()
                for name in ("model.safetensors", "config.json")
            )
            check(same, f"{folder.name}: the same from pytorch_model.bin ({form})")

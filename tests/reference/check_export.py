"""Compares exported models with what transformers makes of them.

usage: check_export.py [--program build/release/nystrom] [--tokenizer-tool
build/release/tokenizer_tool] [--short]

Trains tiny models on a bundled novel (Nyström attention, exact attention, no convolution), exports
them in every form, and loads the folders with transformers 4.57.1 or 5.x: no weight may be
initialised anew or be left over, and logits and the fill-mask pipeline must agree with `nystrom
forward` within 1e-4 (of the largest entry; scores absolutely), for texts alone and in batches. The
code in the model card must run, and what transformers saves must come back. In version 4.57.1
transformers' own class must still do what the card warns of. Last, every other head loads. --short:
the first form alone, beside every head."""

import contextlib
import io
import json
import random
import re

import torch
import transformers
from check_tokenizer import compare, mixed_lines
from common import NOVEL, ROOT, deviation, forward, run, script
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer, pipeline

LENGTH, LANDMARKS = 64, 16
TOLERANCE = 1e-4
TEXTS = [
    "The [MASK] was quiet.",
    "He took the [MASK] from the table, looked at it for a while, and said nothing.",
    "I remember him as if it were yesterday, as he came plodding to the inn "
    "[MASK], his sea-chest following behind him in a hand-barrow; "
    "a tall, strong, heavy, nut-brown man, his tarry pigtail falling over the "
    "shoulder of his soiled blue coat, his hands ragged and scarred.",
]
RUN = """
run_dir: {folder}/runs/{name}
model:
  hidden_size: 64
  num_hidden_layers: 2
  num_attention_heads: 2
  intermediate_size: 128
  max_position_embeddings: {length}
  initializer_range: 0.12  # attention is far from uniform after few steps too
  attention: {{kind: {kind}, num_landmarks: {landmarks}, conv_kernel_size: {conv}}}
tokenizer: {{train: {{vocab_size: 2000}}}}
data: {{train: ["{novel}"], validation: ["{novel}"], sequence_length: {length},
  cache: "{folder}/cache"}}
optimizer: {{learning_rate: 2.0e-3}}
schedule: {{warmup_steps: 10}}
training: {{steps: 60, batch_size: 16, micro_batch_size: 16, dtype: f32}}
evaluation: {{every: 1000}}
checkpoint: {{every: 1000}}
"""


OWN_CLASS_MASKS = transformers.__version__.startswith("4.")  # 5.x crashes on masks in its own class


def train(program, folder, name, kind, conv, *options):
    config = folder / f"{name}.yaml"
    names = {"novel": NOVEL, "length": LENGTH, "landmarks": LANDMARKS}
    config.write_text(RUN.format(folder=folder, name=name, kind=kind, conv=conv, **names))
    run(program, "pretrain", config, "--quiet", *options)
    return folder / "runs" / name


def run_forward(program, model, inputs, *options):
    """What `nystrom forward` gives for what a tokenizer returned."""
    batch = {key: inputs[key] for key in ("input_ids", "attention_mask")}
    return forward(program, model, batch, *options)


def our_logits(program, model, inputs, *options):
    return run_forward(program, model, inputs, *options)["logits"]


def their_logits(model, inputs):
    with torch.no_grad():
        return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits


def logits_deviation(ours, theirs, mask):
    return deviation(ours[mask.bool()], theirs[mask.bool()])


def config_of(folder):
    return json.loads((folder / "config.json").read_text())


def trusted(folder):
    """The arguments that load a folder with the classes it holds."""
    return {"trust_remote_code": True} if "auto_map" in config_of(folder) else {}


def load(check, name, folder, cls=AutoModelForMaskedLM):
    model, report = cls.from_pretrained(folder, output_loading_info=True, **trusted(folder))
    wrong = {key: value for key, value in report.items() if value}
    check(
        not wrong,
        f"{name}: loads in transformers, {sum(p.numel() for p in model.parameters())} "
        f"values, initialised or left over: {wrong or 'none'}",
    )
    return model.eval()


def check_padded_logits(check, program, name, folder, model, tokenizer):
    """Rows of the one length that transformers takes: several texts at once, and full rows."""
    inputs = tokenizer(
        TEXTS, padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
    )
    ours = our_logits(program, folder, inputs, "--set", "model.attention.semantics=transformers")
    worst = logits_deviation(ours, their_logits(model, inputs), inputs["attention_mask"])
    check(
        worst <= TOLERANCE,
        f"{name}: logits of {len(TEXTS)} texts padded to {LENGTH}, "
        f"semantics transformers: differ by {worst:.1e}",
    )


def check_free_logits(check, program, name, folder, model, tokenizer):
    worst = 0.0
    for text in TEXTS:
        inputs = tokenizer(text, truncation=True, max_length=LENGTH, return_tensors="pt")
        found = our_logits(program, folder, inputs), their_logits(model, inputs)
        worst = max(worst, logits_deviation(*found, inputs["attention_mask"]))
    check(
        worst <= TOLERANCE,
        f"{name}: logits of {len(TEXTS)} texts as they are: differ by {worst:.1e}",
    )


def make_batches(tokenizer):
    """Batches of 1 and 8 texts, of 1 token to full rows, padded to odd lengths and not at all."""
    text = tokenizer(" ".join(TEXTS), truncation=True, max_length=LENGTH)["input_ids"]
    few = LANDMARKS - 3
    rows = [text[:n] for n in (1, 2, few, LANDMARKS, LANDMARKS + 1, 30, 45, LENGTH)]
    for rows, width in [([row], len(row)) for row in rows] + [(rows, LENGTH), (rows[:6], 37)]:
        ids = torch.full((len(rows), width), tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), 1
        yield {"input_ids": ids, "attention_mask": mask}


def check_batches(check, program, name, folder, model, tokenizer):
    worst = 0.0
    for inputs in make_batches(tokenizer):
        found = their_logits(model, inputs), our_logits(program, folder, inputs)
        worst = max(worst, logits_deviation(*found, inputs["attention_mask"]))
    check(
        worst <= TOLERANCE,
        f"{name}: logits of 1 to {LENGTH} tokens, alone and padded: differ by {worst:.1e}",
    )


def check_fill_mask(check, program, name, folder, tokenizer, batch_size):
    length = {"truncation": True, "max_length": LENGTH}
    fill_mask = pipeline("fill-mask", model=str(folder), tokenizer_kwargs=length, **trusted(folder))
    worst, same = 0.0, True
    for text, theirs in zip(TEXTS, fill_mask(TEXTS, top_k=5, batch_size=batch_size)):
        inputs = tokenizer(text, return_tensors="pt", **length)
        masked = inputs["input_ids"][0] == tokenizer.mask_token_id
        logits = our_logits(program, folder, inputs)[0][masked][0]
        scores, tokens = logits.softmax(-1).topk(5)
        same &= tokens.tolist() == [guess["token"] for guess in theirs]
        worst = max(worst, *(abs(a - guess["score"]) for a, guess in zip(scores.tolist(), theirs)))
    check(
        same and worst <= TOLERANCE,
        f"{name}: top 5 of the fill-mask pipeline for {len(TEXTS)} texts in batches of "
        f"{batch_size}: same tokens, scores differ by {worst:.1e}",
    )


def check_feature_extraction(check, program, name, folder, tokenizer):
    """The last hidden states, for which `nystrom forward` needs no option."""
    length = {"truncation": True, "max_length": LENGTH}
    extract = pipeline(
        "feature-extraction",
        model=str(folder),
        tokenizer=tokenizer,
        tokenize_kwargs=length,
        **trusted(folder),
    )
    worst = 0.0
    for text, theirs in zip(TEXTS, extract(TEXTS, batch_size=3)):
        inputs = tokenizer(text, return_tensors="pt", **length)
        ours = run_forward(program, folder, inputs)["last_hidden_state"]
        theirs = torch.tensor(theirs)[:, : ours.shape[1]]  # the rest is padding
        worst = max(worst, deviation(theirs, ours))
    check(
        worst <= TOLERANCE,
        f"{name}: the feature-extraction pipeline, padded: hidden states differ by {worst:.1e}",
    )


def outputs_of_card(folder):
    """What each block of the card's code prints, run in its folder."""
    outputs = []
    card = (folder / "README.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", card, re.DOTALL):
        printed = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            exec(compile(block, "README.md", "exec"), {})
        outputs.append(printed.getvalue())
    return outputs


def check_card(check, name, folder, lines):
    """The card's only block of code prints a line a guess."""
    outputs = outputs_of_card(folder)
    check(
        len(outputs) == 1 and len(outputs[0].splitlines()) == lines,
        f"{name}: the card's code runs and makes {lines} guesses",
    )


def check_heads(check, program, scratch):
    """Every head loads, and the code in its card runs; the folders have no tokenizer."""
    for name, head in [
        ("sequence_nystrom_gelu", "SequenceClassification"),
        ("tokens_nystrom", "TokenClassification"),
        ("questions_exact", "QuestionAnswering"),
        ("choice_nystrom_types", "MultipleChoice"),
    ]:
        for semantics in ["nystrom", "transformers"]:
            folder, title = scratch / f"{name}-{semantics}", f"{name}, semantics {semantics}"
            options = ["--quiet", "--set", f"model.attention.semantics={semantics}"]
            run(program, "export", ROOT / "tests/fixtures/hf" / name, folder, *options)
            load(check, title, folder, getattr(transformers, f"AutoModelFor{head}"))
            if semantics == "nystrom" or OWN_CLASS_MASKS:
                check_card(check, title, folder, 0)


def check_way_back(check, program, name, folder, model, tokenizer, scratch):
    """transformers saves the model; ours must read the same model and options."""
    saved = scratch / f"{name}-saved"
    model.save_pretrained(saved)
    info = [json.loads(run(program, "info", path, "--json")) for path in (folder, saved)]
    inputs = tokenizer(TEXTS[1], return_tensors="pt")
    same = torch.equal(our_logits(program, saved, inputs), our_logits(program, folder, inputs))
    check(
        info[0]["options"] == info[1]["options"] and same,
        f"{name}: saved by transformers and read by nystrom "
        "again: same options, same logits bit by bit",
    )


def check_encoder(check, program, name, folder, scratch):
    """A bare encoder, which transformers saves under names without prefix."""
    AutoModel.from_pretrained(folder, **trusted(folder)).save_pretrained(scratch / "encoder")
    run(program, "export", scratch / "encoder", scratch / "encoder-exported", "--quiet")
    load(check, f"{name}, encoder alone", scratch / "encoder-exported", AutoModel)


def check_length(check, name, model):
    try:
        model(input_ids=torch.ones(1, LENGTH + 1, dtype=torch.long))
        message = "none"
    except ValueError as error:
        message = str(error)
    expected = f"{LENGTH + 1} tokens; the model has {LENGTH} positions"
    check(message == expected, f"{name}: error for a text that is too long: {message}")


def check_warnings(check, name, model, tokenizer):
    """What the card says that transformers does with other lengths."""
    text = tokenizer(TEXTS[1], return_tensors="pt")
    try:
        their_logits(model, text)
        fails = False
    except RuntimeError as error:
        fails = "shape" in str(error)
    check(
        fails,
        f"{name}: transformers fails on a text of "
        f"{text['input_ids'].shape[1]} positions in a reshape",
    )
    ids = torch.arange(10, 10 + LENGTH // 2).repeat(2, 1)
    pair = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    other = pair | {"input_ids": torch.stack([ids[0], ids[1] + 100])}
    moved = deviation(their_logits(model, other)[0], their_logits(model, pair)[0])
    check(
        moved > 1e-3,
        f"{name}: of two texts of {LENGTH // 2} positions, transformers "
        f"changes the first with the second: by {moved:.1e}",
    )


def check_folder(check, program, name, folder, scratch):
    """An exported masked language model."""
    config = config_of(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, **trusted(folder))
    needs_one_length = "auto_map" not in config and (
        config["segment_means_seq_len"] != config["num_landmarks"]
    )
    model = load(check, name, folder)
    if not needs_one_length:
        check_free_logits(check, program, name, folder, model, tokenizer)
        check_fill_mask(check, program, name, folder, tokenizer, 1)
    if "auto_map" in config:
        check_batches(check, program, name, folder, model, tokenizer)
        check_fill_mask(check, program, name, folder, tokenizer, 3)
        check_feature_extraction(check, program, name, folder, tokenizer)
        check_length(check, name, model)
        if config["model_type"] == "nystromformer":  # runs without its classes too
            plain = AutoModelForMaskedLM.from_pretrained(folder).eval()
            check_free_logits(check, program, f"{name}, not trusted", folder, plain, tokenizer)
    elif needs_one_length and OWN_CLASS_MASKS:
        check_padded_logits(check, program, name, folder, model, tokenizer)
        check_warnings(check, name, model, tokenizer)
    if not needs_one_length or OWN_CLASS_MASKS:
        check_card(check, name, folder, 5)
    check_way_back(check, program, name, folder, model, tokenizer, scratch)


@script(__doc__, tokenizer_tool="tokenizer_tool", short=False)
def main(arguments, check, scratch):
    program, runs = arguments.program, {}
    for_transformers = ["--format", "transformers"]
    cases = [
        ("nystrom", "nystrom", 33, []),
        ("no convolution", "nystrom", "null", []),
        ("softmax", "softmax", 33, []),
        ("nystrom as softmax", "nystrom", 33, ["--attention", "softmax"]),
        ("for transformers' class", "nystrom", 33, for_transformers),
        ("no convolution, for transformers' class", "nystrom", "null", for_transformers),
    ]
    for number, (name, kind, conv, options) in enumerate(cases[:1] if arguments.short else cases):
        if (kind, conv) not in runs:
            runs[kind, conv] = train(program, scratch, f"run-{number}", kind, conv)
        folder = scratch / f"exported-{number}"
        options = [*options, "--verify", "--json", "--quiet"]
        report = json.loads(run(program, "export", runs[kind, conv], folder, *options))
        for each in report["differences"]:
            told = f"own class of transformers differs by {each['relative']:.1e}"
            print(f"{name}: {each['tokens']} tokens, {told}")
        check_folder(check, program, name, folder, scratch)
        if number == 0:
            check_encoder(check, program, name, folder, scratch)
            lines = mixed_lines([NOVEL], random.Random(0), 1_000_000)
            compare(check, arguments.tokenizer_tool, f"{name}, AutoTokenizer", folder, lines)
    check_heads(check, program, scratch)

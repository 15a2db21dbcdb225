"""Compares `nystrom evaluate --minimal-pairs` with a loop over transformers in float64.

usage: check_minimal_pairs.py [--program build/release/nystrom] [--pairs 200] [--files FILE ...]

Two small models are pretrained by the program, with exact and with Nyström attention, and exported.
Each token of a sentence but [CLS] and [SEP] is masked in turn, and the log-probabilities are added.
The accuracy must be the same to the last pair. Pairs come from a held-out novel, in whose sentences
two neighbouring words change places, or from FILEs with BLiMP's keys."""

import json
import random

import torch
from check_fill_mask import pretrain, sentences
from common import from_json_lines, run, script, to_json_lines
from transformers import AutoModelForMaskedLM, AutoTokenizer


def made_pairs(count):
    rng = random.Random(0)
    pairs = []
    for text in sentences(count, rng):
        words = text.replace("[MASK]", "sea").split(" ")
        place = rng.randrange(len(words) - 1)
        swapped = [*words[:place], words[place + 1], words[place], *words[place + 2 :]]
        pairs.append({"sentence_good": " ".join(words), "sentence_bad": " ".join(swapped)})
    return pairs


def score(model, tokenizer, sentence):
    ids = tokenizer(sentence, return_tensors="pt").input_ids
    inner = torch.arange(1, ids.shape[1] - 1)
    rows = ids.repeat(len(inner), 1)
    rows[torch.arange(len(inner)), inner] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = model(input_ids=rows).logits.double()
    picked = logits[torch.arange(len(inner)), inner].log_softmax(-1)
    return picked.gather(1, ids[0, inner, None]).sum().item()


@script(__doc__, pairs=200, files=[])
def main(arguments, check, folder):
    made = folder / "made.jsonl"
    made.write_text(to_json_lines(made_pairs(arguments.pairs)))
    for attention in ("softmax", "nystrom"):
        checkpoint = pretrain(arguments.program, folder, attention)
        exported = folder / f"exported_{attention}"
        run(arguments.program, "export", checkpoint, exported, "--quiet")
        model = AutoModelForMaskedLM.from_pretrained(exported, trust_remote_code=True)
        model = model.eval().double()
        tokenizer = AutoTokenizer.from_pretrained(exported)
        for file in arguments.files or [made]:
            pairs = from_json_lines(file.read_text())[: arguments.pairs]
            right = sum(
                score(model, tokenizer, pair["sentence_good"])
                > score(model, tokenizer, pair["sentence_bad"])
                for pair in pairs
            )
            part = folder / file.name
            part.write_text(to_json_lines(pairs))
            options = ["--minimal-pairs", part, "--quiet", "--json"]
            ours = json.loads(run(arguments.program, "evaluate", checkpoint, *options))
            count = round(ours["accuracy"] * ours["pairs"])
            check(
                count == right,
                f"{attention}, {file.name}: {count} of {ours['pairs']}, theirs {right}",
            )

"""Exports tokenizers of the layouts that the hub has, and loads them as users do, by AutoTokenizer.

usage: check_exported_tokenizers.py [--program build/release/tokenizer_tool]

`./dev test-interop` runs it in transformers 4.57.1 and in the newest version. Folders are made
without the network: vocabularies of fixtures with the settings of bert-base-uncased, roberta-base,
xlm-roberta-base, distilbert, camembert, of a folder that transformers 5 saved, and of a tokenizer
that this program trained. Ids, token types and special tokens of texts and pairs must equal those of
this program, before the export and after it, beside the config.json of a Nyströmformer."""

import json
import shutil

from check_tokenizer import wrap
from common import FIXTURES, NOVELS, run, script
from transformers import AutoTokenizer

SMALL = FIXTURES / "tokenizers/small"
TEXTS = [
    ["The harbour was quiet."],
    ["THE sea, don't you think so?", "Schön: 12,345 ½\u200cǄ"],
    ["東京都は日本の首都です。パンダ ﾊﾟ", "สวัสดี नमस्ते שָׁלוֹם"],
    ["a\tb  c\u00a0d \U0001f600 ``x'' _y_"],
]
LAYOUTS = {
    "bert-base-uncased": ("wordpiece", {"do_lower_case": True, "model_max_length": 512}, "bert"),
    "bert-cased": ("wordpiece", {"do_lower_case": False}, "bert"),
    "distilbert": ("wordpiece", {"do_lower_case": True}, "distilbert"),
    "without settings": ("wordpiece", None, "bert"),
    "class in config.json": ("wordpiece", {"do_lower_case": False}, "bert BertTokenizer"),
    "one type": (
        "wordpiece",
        {
            "tokenizer_class": "BertTokenizer",
            "model_input_names": ["input_ids", "attention_mask"],
        },
        "bert",
    ),
    "transformers 5": (
        "wordpiece",
        {
            "backend": "tokenizers",
            "tokenizer_class": "TokenizersBackend",
            "extra_special_tokens": ["the"],
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "mask_token": "[MASK]",
            "unk_token": "[UNK]",
        },
        "bert",
    ),
    "roberta-base": ("byte_level", {"model_max_length": 512}, "roberta"),
    "with a space": ("byte_level", {"add_prefix_space": True}, "roberta"),
    "xlm-roberta-base": ("xlm_roberta", {"model_max_length": 512}, "xlm-roberta"),
    "camembert-base": ("camembert", {"model_max_length": 512}, "camembert"),
}


def make_folder(folder, kind, settings, model):
    shutil.copytree(SMALL / kind, folder, ignore=shutil.ignore_patterns("expected.json"))
    model_type, _, its_class = model.partition(" ")
    config = {"model_type": model_type} | ({"tokenizer_class": its_class} if its_class else {})
    (folder / "config.json").write_text(json.dumps(config))
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def theirs(tokenizer, texts):
    found = []
    for each in texts:
        encoded = tokenizer(*each)
        types = encoded.get("token_type_ids", [0] * len(encoded["input_ids"]))
        found.append([list(pair) for pair in zip(encoded["input_ids"], types)])
    return found


def compare(check, program, name, source, target):
    target.mkdir()
    run(program, "export", source, target)
    (target / "config.json").write_text(json.dumps({"model_type": "nystromformer"}))
    tokenizer = AutoTokenizer.from_pretrained(target)
    names = [tokenizer.cls_token, tokenizer.sep_token, tokenizer.pad_token, tokenizer.mask_token]
    texts = TEXTS + [[f"The {tokenizer.mask_token} sea{tokenizer.sep_token}"]]
    wanted = wrap(program, source, texts)
    check(
        None not in names
        and wrap(program, target, texts) == wanted
        and theirs(tokenizer, texts) == wanted,
        f"{name}: {' '.join(map(str, names))}",
    )


@script(__doc__, program="tokenizer_tool")
def main(arguments, check, folder):
    program = arguments.program
    for number, (layout, parts) in enumerate(LAYOUTS.items()):
        make_folder(folder / f"source-{number}", *parts)
        compare(check, program, layout, folder / f"source-{number}", folder / f"{number}")
    for kind, its_class in (
        ("wordpiece", "BertTokenizer"),
        ("byte_level", "RobertaTokenizer"),
        ("wordpiece", "SplinterTokenizer"),
    ):
        source, name = folder / f"undeclared-{its_class}", f"undeclared, {its_class}"
        make_folder(source, kind, {"tokenizer_class": its_class}, "bert")
        file = source / "tokenizer.json"
        described = json.loads(file.read_text())
        for token in described["added_tokens"]:
            described["model"]["vocab"][token["content"]] = token["id"]
        file.write_text(json.dumps(described | {"added_tokens": []}))
        compare(check, program, name, source, folder / f"{its_class}-out")
    for kind, case in (("unigram", "lower"), ("bpe", "cased"), ("unigram", "stripped")):
        source, name = folder / f"{kind}-{case}", f"trained {kind}, {case}"
        source.mkdir()
        run(program, "train", kind, 400, source, case, NOVELS[0])
        compare(check, program, name, source, folder / f"{source.name}-out")

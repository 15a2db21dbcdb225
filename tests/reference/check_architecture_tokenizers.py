"""Compares the tokenizers of BERT's family, in the files of their slow classes, with transformers.

usage: check_architecture_tokenizers.py [--program build/release/tokenizer_tool] [--size 1000000]
                                        [--texts FILE...] [FOLDER...]

The vocabularies are learnt from the bundled novels. On SIZE bytes AutoTokenizer and ours must give
the same ids and offsets, and the same ids and token types around a text and a pair. Half of the
bytes are lines of FILE (the bundled novels), and half are made of everything that tokenizers
disagree on. The folders hold

- vocab.txt, lower-cased and cased, with accents kept and without Chinese characters cut out:
  BERT, DistilBERT, ELECTRA;
- vocab.json with merges.txt, with and without a space in front: RoBERTa;
- sentencepiece.bpe.model with the normalization of its published models: XLM-RoBERTa, CamemBERT,
  with a tokenizer_config.json or config.json alone."""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from check_tokenizer import NOVELS, ROOT, compare_offsets, mixed_lines, read_lines
from tokenizers import ByteLevelBPETokenizer, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.trainers import WordPieceTrainer
from transformers import AutoTokenizer

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def wordpiece(folder, lines, lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = WordPieceTrainer(vocab_size=4000, special_tokens=BERT, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece, _ in pieces))


def byte_level(folder, lines):
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        lines, vocab_size=4000, special_tokens=ROBERTA, show_progress=False
    )
    tokenizer.save_model(str(folder))


def pieces(folder, lines):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(folder / "sentencepiece.bpe"),
        vocab_size=4000,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=-1,
        minloglevel=2,
    )


def bert(settings, lower=True):
    return lambda folder, lines: wordpiece(folder, lines, lower), settings


FOLDERS = {
    "bert": bert({}),
    "bert_cased": bert({"do_lower_case": False, "tokenizer_class": "BertTokenizer"}, False),
    "bert_keeps_accents": bert({"strip_accents": False, "tokenizer_class": "BertTokenizerFast"}),
    "distilbert": bert({"tokenize_chinese_chars": False, "tokenizer_class": "DistilBertTokenizer"}),
    "electra": bert({"do_lower_case": True, "tokenizer_class": "ElectraTokenizer"}),
    "roberta": (byte_level, {}),
    "roberta_space": (
        byte_level,
        {"add_prefix_space": True, "tokenizer_class": "RobertaTokenizer"},
    ),
    "xlm-roberta": (pieces, {}),
    "xlm-roberta_class": (pieces, {"tokenizer_class": "XLMRobertaTokenizer"}),
    "camembert": (pieces, {}),
    "camembert_class": (pieces, {"tokenizer_class": "CamembertTokenizer"}),
}


def check_wrap(program, name, folder, theirs, lines):
    """Ids and types around texts and pairs, where the tokenizer has types."""
    texts = [[line] for line in lines[:200]] + [lines[i : i + 2] for i in range(200)]
    given = "".join(json.dumps(each) + "\n" for each in texts).encode()
    out = subprocess.run([program, "wrap", folder], input=given, capture_output=True, check=True)
    ours = [
        [tuple(map(int, token.split(":"))) for token in line.split()]
        for line in out.stdout.decode().split("\n")[:-1]
    ]
    wanted = [theirs.backend_tokenizer.encode(*each) for each in texts]
    wrong = sum(a != list(zip(b.ids, b.type_ids)) for a, b in zip(ours, wanted, strict=True))
    print(f"{name}: {len(texts)} texts and pairs with special tokens, {wrong} differ")
    return wrong == 0


def check(program, name, lines, training):
    make, settings = FOLDERS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder, training)
        if settings:
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        model_type = name.split("_")[0]
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        theirs = AutoTokenizer.from_pretrained(folder)
        equal = compare_offsets(program, name, folder, theirs.backend_tokenizer, lines)
        theirs.backend_tokenizer.encode_special_tokens = False
        return equal & check_wrap(program, name, folder, theirs, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=ROOT / "build/release/tokenizer_tool", type=Path)
    parser.add_argument("--size", default=1_000_000, type=int)
    parser.add_argument("--texts", nargs="+", default=NOVELS, type=Path)
    parser.add_argument("names", nargs="*", default=list(FOLDERS), metavar="FOLDER")
    arguments = parser.parse_args()
    lines = mixed_lines(arguments.texts, random.Random(0), arguments.size, marks=True)
    training = read_lines(NOVELS)[:20000]
    results = [check(arguments.program, name, lines, training) for name in arguments.names]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()

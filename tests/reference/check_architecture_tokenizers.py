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

import json
import random

import sentencepiece
from check_tokenizer import compare_offsets, mixed_lines, read_lines, wrap
from common import NOVELS, script
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


def check_wrap(check, program, name, folder, theirs, lines):
    """Ids and types around texts and pairs, where the tokenizer has types."""
    texts = [[line] for line in lines[:200]] + [lines[i : i + 2] for i in range(200)]
    wanted = [theirs.encode(*each) for each in texts]
    pairs = zip(wrap(program, folder, texts), wanted, strict=True)
    wrong = sum(a != list(map(list, zip(b.ids, b.type_ids))) for a, b in pairs)
    check(wrong == 0, f"{name}: {len(texts)} texts and pairs with special tokens, {wrong} differ")


@script(__doc__, program="tokenizer_tool", names=FOLDERS, size=1_000_000, texts=NOVELS)
def main(arguments, check, scratch):
    lines = mixed_lines(arguments.texts, random.Random(0), arguments.size, marks=True)
    training = read_lines(NOVELS)[:20000]
    for name in arguments.names or FOLDERS:
        make, settings = FOLDERS[name]
        folder = scratch / name
        folder.mkdir()
        make(folder, training)
        if settings:
            (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        model_type = name.split("_")[0]
        (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
        theirs = AutoTokenizer.from_pretrained(folder).backend_tokenizer
        compare_offsets(check, arguments.program, name, folder, theirs, lines)
        theirs.encode_special_tokens = False
        check_wrap(check, arguments.program, name, folder, theirs, lines)

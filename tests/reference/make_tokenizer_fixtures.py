"""Writes tests/fixtures/tokenizers/small: small tokenizers of every kind with what Hugging Face's
tokenizers make of a few texts.

usage: make_tokenizer_fixtures.py

The vocabularies are learnt from the bundled novels. expected.json of each folder lists texts with
ids, offsets (bytes of UTF-8) with special tokens found and not found, what decode makes of the ids,
and the post-processed ids and type ids of each text with the next."""

import json
import shutil
import tempfile
from pathlib import Path

import sentencepiece
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from transformers import AutoTokenizer

from check_tokenizer import byte_offsets, read_lines
from check_tokenizer_parts import BYTES, CL100K, SPECIAL
from common import NOVELS, ROOT

FOLDER = ROOT / "tests/fixtures/tokenizers/small"
TEXTS = [
    "The captain said nothing, and the sea was calm.",
    "line one\nline two \n\n  three\r\n",
    "  two  spaces\tand a tab ",
    "Don't they'll we've I'm HE'S 12,345.67 (50%)",
    "",
    " ",
    "caf\u00e9 na\u00efve \u0130stanbul stra\u00dfe \u00c5ngstr\u00f6m "
    "o\u0301e\u0323\u0302 \ufb01nd \u2167 \u00bd",
    "\u6771\u4eac Tokyo \ud55c\uad6d\uc5b4 \u0645\u0631\u062d\u0628\u0627 "
    "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f642\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469 end",
    "a <mask> b<mask>c  <mask>  d",
    "[CLS] the [SEP]<unk> <s></s>",
    "un\u200bseen\u00ad \x0bcontrol\x1c\x85 \u2581mark \ufeff",
    "supercalifragilisticexpialidocious" * 3,
    "Sea-captain\u2019s\u2014\u201cquoted\u201d\u2026 ``x''",
    "He said Hello, helloing Hello",
    "AAAA aaaa 1111111 !!!! ....",
    "\u03a3\u0391\u03a3 \u041f\u0440\u0438\u0432\u0435\u0442 \u2460\u216b",
]


def train(model, lines, size, special=SPECIAL, normalizer=None, pre_tokenizer=None, **options):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    kind = {
        "BPE": trainers.BpeTrainer,
        "WordPiece": trainers.WordPieceTrainer,
        "Unigram": trainers.UnigramTrainer,
    }[type(model).__name__]
    if kind is trainers.UnigramTrainer:
        options["unk_token"] = "<unk>"
    tokenizer.train_from_iterator(
        lines, kind(vocab_size=size, special_tokens=special, show_progress=False, **options)
    )
    return tokenizer


def wordpiece(lines):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = train(
        models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=50),
        lines,
        400,
        names,
        normalizers.BertNormalizer(),
        pre_tokenizers.BertPreTokenizer(),
        limit_alphabet=60,
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_level(lines):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = train(
        models.BPE(),
        lines,
        500,
        ["<s>", "<pad>", "</s>", "<unk>"],
        None,
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        initial_alphabet=alphabet,
    )
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def unigram(lines):
    steps = [
        normalizers.Nmt(),
        normalizers.NFKC(),
        normalizers.Replace(Regex(" {2,}"), " "),
        normalizers.Strip(left=False),
    ]
    tokenizer = train(
        models.Unigram(),
        lines,
        400,
        SPECIAL,
        normalizers.Sequence(steps),
        pre_tokenizers.Metaspace(),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def bytes_for_unknown(lines):
    normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer = train(
        models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        lines[:300],
        500,
        SPECIAL + BYTES,
        normalizer,
        limit_alphabet=50,
    )
    description = json.loads(tokenizer.to_str())
    description["added_tokens"] = description["added_tokens"][: len(SPECIAL)]
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def split_by_regex(lines):
    split = pre_tokenizers.Split(Regex(CL100K), "isolated")
    pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer = train(
        models.BPE(ignore_merges=True),
        lines,
        500,
        SPECIAL,
        normalizers.NFC(),
        pre_tokenizer,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.add_tokens(
        [
            AddedToken("Hello", single_word=True),
            AddedToken("sea", lstrip=True, rstrip=True, normalized=False),
        ]
    )
    template = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 0)])
    tokenizer.post_processor = processors.Sequence(
        [processors.ByteLevel(trim_offsets=True, add_prefix_space=False), template]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def suffixes(lines):
    steps = [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    tokenizer = train(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        lines,
        400,
        SPECIAL,
        normalizers.Sequence(steps),
        pre_tokenizers.Sequence(
            [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
        ),
        end_of_word_suffix="</w>",
        limit_alphabet=50,
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 6), ("[CLS]", 5))
    tokenizer.decoder = decoders.BPEDecoder()
    return tokenizer


def first_metaspace(lines):
    pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation("merged_with_previous"),
            pre_tokenizers.Metaspace(prepend_scheme="first"),
        ]
    )
    tokenizer = train(
        models.BPE(unk_token="<unk>"),
        lines,
        400,
        SPECIAL,
        normalizers.NFKD(),
        pre_tokenizer,
        limit_alphabet=60,
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


# Rules for the charsmap of a SentencePiece model: a full one takes 240 KB.
CHARSMAP = [("\u00a0", " "), ("\t", " "), ("\ufb01", "fi"), ("\u2026", "..."), ("\uff21", "A")]


def train_pieces(folder, lines):
    """sentencepiece.bpe.model, with the special pieces of XLM-RoBERTa's and CamemBERT's."""
    with tempfile.TemporaryDirectory() as name:
        text, rules = Path(name) / "text", Path(name) / "rules.tsv"
        text.write_text("\n".join(lines) + "\n")
        code = [[" ".join(f"{ord(c):X}" for c in part) for part in rule] for rule in CHARSMAP]
        rules.write_text("".join("\t".join(rule) + "\n" for rule in code))
        sentencepiece.SentencePieceTrainer.train(
            input=str(text),
            model_prefix=str(folder / "sentencepiece.bpe"),
            vocab_size=400,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            normalization_rule_tsv=str(rules),
            user_defined_symbols=["Hello"],
            minloglevel=2,
        )
    (folder / "sentencepiece.bpe.vocab").unlink()


def write_pieces(lines):
    """Models without settings: config.json says which class of transformers reads them."""
    for name in ["xlm_roberta", "camembert"]:
        folder = FOLDER / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        train_pieces(folder, lines)
        config = {"model_type": name.replace("_", "-")}
        (folder / "config.json").write_text(json.dumps(config) + "\n")
        tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
        (folder / "expected.json").write_text(json.dumps(expected(tokenizer)) + "\n")


def encodings(tokenizer, names_as_text):
    tokenizer.encode_special_tokens = names_as_text
    return [
        {"ids": e.ids, "offsets": byte_offsets(text, e.offsets)}
        for text, e in zip(TEXTS, tokenizer.encode_batch(TEXTS, add_special_tokens=False))
    ]


def expected(tokenizer):
    as_tokens, as_text = encodings(tokenizer, False), encodings(tokenizer, True)
    tokenizer.encode_special_tokens = False
    cases = []
    for i, text in enumerate(TEXTS):
        single, pair = tokenizer.encode(text), tokenizer.encode(text, TEXTS[i - 1])
        cases.append(
            {
                "text": text,
                "tokens": as_tokens[i],
                "as_text": as_text[i],
                "single": [single.ids, single.type_ids],
                "second": TEXTS[i - 1],
                "pair": [pair.ids, pair.type_ids],
                "decoded": tokenizer.decode(single.ids),
                "decoded_with_special": tokenizer.decode(single.ids, skip_special_tokens=False),
            }
        )
    return cases


def main():
    lines = read_lines(NOVELS[:2])[:3000]
    write_pieces(lines)
    for make in [
        wordpiece,
        byte_level,
        unigram,
        bytes_for_unknown,
        split_by_regex,
        suffixes,
        first_metaspace,
    ]:
        folder = FOLDER / make.__name__
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        tokenizer = make(lines)
        description = json.loads(tokenizer.to_str())
        if make is unigram:
            known = {piece for piece, _ in description["model"]["vocab"]}
            more = [[piece, -20.0] for piece in BYTES if piece not in known]
            description["model"]["vocab"] += more
            description["model"]["byte_fallback"] = True
        (folder / "tokenizer.json").write_text(json.dumps(description, ensure_ascii=False) + "\n")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        (folder / "expected.json").write_text(json.dumps(expected(tokenizer)) + "\n")
        if make is wordpiece:
            vocabulary = description["model"]["vocab"]
            (folder / "vocab.txt").write_text(
                "".join(piece + "\n" for piece in sorted(vocabulary, key=vocabulary.get))
            )
        if make is byte_level:
            vocabulary = dict(description["model"]["vocab"])
            vocabulary.update(
                {token["content"]: token["id"] for token in description["added_tokens"]}
            )
            (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n")
            (folder / "merges.txt").write_text(
                "#version: 0.2\n"
                + "".join(" ".join(pair) + "\n" for pair in description["model"]["merges"])
            )


if __name__ == "__main__":
    main()

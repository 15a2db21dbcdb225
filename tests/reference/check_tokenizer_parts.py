"""Compares tokenizers of parts put together at random with Hugging Face's.

usage: check_tokenizer_parts.py [--program build/release/tokenizer_tool] [--count 25] [--seed 0]

Every normalizer, pre-tokenizer, model, post-processor, decoder and kind of added token that
tokenizer.json knows and we support gets its turn; small vocabularies are learnt for each. On 150 kB
of mixed text ids and offsets, pairs, and decoded texts must be the same."""

import json
import random

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D
from tokenizers import models as M
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P
from tokenizers import processors as O
from tokenizers import trainers as T

from check_tokenizer import ALBERT, compare_offsets, export, mixed_lines, wrap
from common import NOVELS, run, script

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "[CLS]", "[SEP]"]
CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
    r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = CL100K.replace(r"{1,3}", "")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def by_regex(expression, behavior="isolated", invert=False):
    level = P.ByteLevel(add_prefix_space=False, use_regex=False)
    return P.Sequence([P.Split(Regex(expression), behavior, invert), level])


def parts(charsmap):
    normalizers = [
        None,
        N.NFC(),
        N.NFD(),
        N.NFKC(),
        N.NFKD(),
        charsmap,
        N.Sequence([charsmap, N.Lowercase()]),
        N.ByteLevel(),
        N.BertNormalizer(),
        N.Sequence(
            [N.Nmt(), N.NFKC(), N.Replace(Regex(r"\s{2,}"), " "), N.Strip(left=True, right=False)]
        ),
        N.Strip(),
        N.Sequence(
            [
                N.Replace("a", "BC"),
                N.Replace(Regex("[e\u00e9]+|the"), ""),
                N.Prepend("\u2581"),
                N.Replace(" ", "\u2581"),
            ]
        ),
        N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]),
        N.Sequence([N.NFD(), N.StripAccents(), N.NFC()]),
        N.BertNormalizer(lowercase=False),
        N.BertNormalizer(strip_accents=False, handle_chinese_chars=False),
    ]
    pre_tokenizers = [
        P.Whitespace(),
        P.WhitespaceSplit(),
        P.BertPreTokenizer(),
        P.ByteLevel(add_prefix_space=False),
        P.ByteLevel(),
        P.Metaspace(),
        P.Metaspace(prepend_scheme="first"),
        P.Metaspace(prepend_scheme="never"),
        P.CharDelimiterSplit("e"),
        P.Split("the", "merged_with_next"),
        P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous")]),
        P.Punctuation("merged_with_previous"),
        P.Punctuation("merged_with_next"),
        P.Punctuation("removed"),
        by_regex(CL100K),
        by_regex(QWEN),
        by_regex(BLOOM),
        by_regex(O200K, "removed", True),
        P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]),
        P.Sequence([P.Digits(False), P.Metaspace()]),
        P.Sequence(
            [
                P.Punctuation("contiguous"),
                P.ByteLevel(add_prefix_space=False),
                P.Digits(False),
                P.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
            ]
        ),
    ]
    template = O.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1 </s>:2", [("<s>", 0), ("</s>", 2)])
    post_processors = [
        None,
        O.RobertaProcessing(("</s>", 2), ("<s>", 0)),
        O.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False),
        template,
        O.ByteLevel(trim_offsets=True),
        O.BertProcessing(("[SEP]", 6), ("[CLS]", 5)),
        O.Sequence([O.ByteLevel(trim_offsets=True, add_prefix_space=False), template]),
    ]
    decoders = [
        None,
        D.WordPiece(),
        D.ByteLevel(),
        D.Metaspace(),
        D.Metaspace(prepend_scheme="never"),
        D.BPEDecoder(),
        D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
        D.Sequence([D.Replace(Regex("[aeiou]+"), "_"), D.Fuse()]),
    ]
    added = [
        [],
        [AddedToken("<mask>", lstrip=True, special=True)],
        [
            AddedToken("Hello", single_word=True),
            AddedToken("the ", normalized=False, rstrip=True),
            AddedToken("caf\u00e9", lstrip=True, rstrip=True),
        ],
    ]
    return normalizers, pre_tokenizers, post_processors, decoders, added


def make_model(kind):
    options = {"vocab_size": 600, "special_tokens": SPECIAL, "show_progress": False}
    if kind == "wordpiece":
        model = M.WordPiece(unk_token="<unk>", max_input_chars_per_word=20)
        return model, T.WordPieceTrainer(limit_alphabet=200, **options)
    if kind == "unigram":
        return M.Unigram(), T.UnigramTrainer(unk_token="<unk>", **options)
    model = {
        "fused": {"unk_token": "<unk>", "fuse_unk": True},
        "unknown": {"unk_token": "<unk>"},
        "no unknown": {},
        "suffix": {"unk_token": "<unk>", "end_of_word_suffix": "</w>"},
        "prefix": {"unk_token": "<unk>", "continuing_subword_prefix": "##"},
    }[kind]
    ends = {key: value for key, value in model.items() if key.endswith(("suffix", "prefix"))}
    return M.BPE(**model), T.BpeTrainer(limit_alphabet=100, **ends, **options)


def with_bytes(description, rng):
    """Byte fallback and ignore_merges, at times; not with prefix or suffix, whose bytes Hugging
    Face counts as if they were in the text."""
    model = description["model"]
    plain = not model.get("continuing_subword_prefix") and not model.get("end_of_word_suffix")
    if rng.random() < 0.5 and model["type"] == "BPE" and plain:
        for piece in BYTES:
            model["vocab"].setdefault(piece, len(model["vocab"]))
        model["byte_fallback"] = True
        model["ignore_merges"] = rng.random() < 0.5
    elif rng.random() < 0.5 and model["type"] == "Unigram":
        known = {piece for piece, _ in model["vocab"]}
        model["vocab"] += [[piece, -20.0] for piece in BYTES if piece not in known]
        model["byte_fallback"] = True
    pieces = set(dict(model["vocab"]))  # a list of pairs for Unigram
    behind = len(pieces)
    for token in description["added_tokens"]:
        if token["content"] not in pieces:
            token["id"], behind = behind, behind + 1


def check_pairs_and_texts(check, program, name, file, theirs, lines):
    theirs.encode_special_tokens = False
    # Without a template of its own nystrom adds cls and sep.
    if theirs.num_special_tokens_to_add(False) == 0:
        theirs.post_processor = O.TemplateProcessing(
            "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 5), ("[SEP]", 6)]
        )
    pairs = list(zip(lines[0::2], lines[1::2]))
    encoded = [theirs.encode(*pair) for pair in pairs]
    wrong = sum(
        list(map(list, zip(e.ids, e.type_ids))) != tokens
        for e, tokens in zip(encoded, wrap(program, file, pairs), strict=True)
    )
    given = "".join(" ".join(map(str, e.ids)) + "\n" for e in encoded)
    for option, skip in [("skip", True), ("keep", False)]:
        texts = run(program, "decode", file, option, given=given).split("\n")
        wrong += sum(
            theirs.decode(e.ids, skip_special_tokens=skip) != json.loads(text)
            for e, text in zip(encoded, texts)
        )
    check(wrong == 0, f"{name}: {wrong} of {len(pairs)} pairs or their decoded texts differ")


@script(__doc__, program="tokenizer_tool", count=25, seed=0)
def main(arguments, check, scratch):
    program, rng, done = arguments.program, random.Random(arguments.seed), 0
    lines = mixed_lines(NOVELS, rng, 150_000, marks=True)
    albert = export(program, ALBERT / "spiece.model", scratch / "albert")
    exported, file = json.loads((albert / "tokenizer.json").read_text()), scratch / "tokenizer.json"
    steps = {step["type"]: step for step in exported["normalizer"]["normalizers"]}
    exported["normalizer"] = steps["Precompiled"]
    charsmap = Tokenizer.from_str(json.dumps(exported)).normalizer
    kinds = ["fused", "unknown", "no unknown", "suffix", "prefix", "wordpiece", "unigram"]
    while done < arguments.count:
        choice = [rng.randrange(len(options)) for options in parts(charsmap)]
        normalizer, pre_tokenizer, post_processor, decoder, added = (
            options[i] for options, i in zip(parts(charsmap), choice)
        )
        kind = kinds[done % len(kinds)]
        model, trainer = make_model(kind)
        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.pre_tokenizer = pre_tokenizer
        try:
            tokenizer.train_from_iterator(lines[::2], trainer)
        except BaseException:  # the vocabulary is too small for a unigram model's characters
            continue
        if post_processor:
            tokenizer.post_processor = post_processor
        if decoder:
            tokenizer.decoder = decoder
        for token in added:
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        description = json.loads(tokenizer.to_str())
        vocabulary = description["model"]["vocab"]
        if len(dict(vocabulary)) < len(vocabulary):
            # Unigram's trainer learned the name of a special token as an ordinary piece; nystrom
            # rejects such a file.
            continue
        with_bytes(description, rng)
        file.write_text(json.dumps(description))
        theirs = Tokenizer.from_file(str(file))
        name = f"{kind}, parts {choice}"
        compare_offsets(check, program, name, file, theirs, lines[1::2])
        check_pairs_and_texts(check, program, name, file, theirs, lines[:400])
        done += 1

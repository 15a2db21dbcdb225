"""Compares tokenizers made at random with Hugging Face's: files of the `tokenizers` library, and
folders of transformers.

usage: check_tokenizer_files.py [--program build/release/tokenizer_tool] [--count 200] [--folders
40] [--texts 300] [--seed 0] [--keep FOLDER_FOR_WHAT_DIFFERS]

Each configuration is a tokenizer.json: normalizer, pre-tokenizer, model, post-processor and added
tokens are drawn, and the vocabulary is made of what the texts hold after the first two, so that no
part of it is trained. Every configuration has texts of its own, which are mostly about what it has:
its added tokens, its pieces, spaces of many kinds. Ids and offsets must be the same, or both must
refuse the text.

Folders have a tokenizer.json, or the files of an older tokenizer, beside a drawn
tokenizer_config.json, special_tokens_map.json and added_tokens.json; AutoTokenizer must give the
same ids.

Regular expressions stand in normalizers (Replace) and pre-tokenizers (Split): those of known
tokenizers, and drawn ones.

Left out: characters newer than Unicode 8 (tests/reference/check_tokenizer.py says why), and what
depends on Oniguruma's version ([:punct:])."""

import json
import os
import random
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from check_tokenizer import (
    MORE_PARTS,
    PARTS,
    byte_offsets,
    first_difference,
    random_character,
    read_lines,
)
from check_tokenizer_parts import BLOOM, BYTES, CL100K, O200K, QWEN
from common import NOVELS, from_json_lines, script, to_json_lines
from tokenizers import Regex, Tokenizer
from transformers import AutoTokenizer

MARK = "\u2581"
BERT_NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BYTE_NAMES = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>"]
SPACES = [" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u2028"]


KNOWN_EXPRESSIONS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    CL100K,
    QWEN,
    O200K,
    BLOOM,
    r"\s{2,}",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    r"\w+|[^\w\s]+",
]
KINDS = (
    r".¦\w¦\W¦\s¦\S¦\d¦\h¦[a-e]¦[^a-m ]¦[\w&&[^aeiou]]¦[\s,.]¦[[:alpha:]]¦\p{L}¦\p{Lu}¦\P{L}¦"
    r"\p{^N}¦\p{Han}¦\p{Hiragana}¦\p{Arabic}¦\p{Greek}¦\p{Latin}¦\p{M}¦\p{P}¦\p{Zs}¦e¦the¦ ¦é¦\n¦"
    r"\x{6771}¦\X¦\R"
).split("¦")
PLACES = ["^", "$", r"\A", r"\z", r"\Z", r"\b", r"\B", r"\G", r"\y"]
REPETITIONS = ["*", "+", "?", "*?", "+?", "??", "*+", "++", "{2}", "{1,3}", "{,2}", "{2,}"]


def expression(rng, depth=0):
    """A regular expression: one of KNOWN_EXPRESSIONS, or drawn, with empty matches, look-arounds,
    captures and what else Oniguruma has."""
    if depth == 0 and rng.random() < 0.3:
        return rng.choice(KNOWN_EXPRESSIONS)
    inner = lambda: expression(rng, depth + 1)
    draw = rng.random() if depth < 3 else 0.0
    if draw < 0.35:
        return rng.choice(KINDS) if rng.random() < 0.85 else rng.choice(PLACES)
    if draw < 0.55:
        return inner() + inner()
    if draw < 0.65:
        return f"{inner()}|{inner()}"
    if draw < 0.8:
        return f"(?:{inner()}){rng.choice(REPETITIONS)}"
    if draw < 0.85:
        return f"({inner()})"
    if draw < 0.88:
        return f"(?<w>{inner()})\\k<w>" if depth == 0 else f"(?i:{inner()})"
    if draw < 0.92:
        return f"(?{rng.choice(['=', '!', '>'])}{inner()})"
    return f"(?<{rng.choice('=!')}{rng.choice(KINDS)})"


def regex(rng):
    """As it stands in a tokenizer.json."""
    while True:
        drawn = expression(rng)
        if silently(lambda: Regex(drawn)):
            return {"Regex": drawn}


def typed(its_type, **values):
    return {"type": its_type, **values}


def byte_level(rng):
    space = rng.random() < 0.5
    return typed("ByteLevel", add_prefix_space=space, trim_offsets=True, use_regex=True)


def roberta(rng, names, trim):
    """Its template with the names of sep and cls, each with its id."""
    draws = {"trim_offsets": rng.random() < trim, "add_prefix_space": rng.random() < 0.5}
    return typed("RobertaProcessing", **names, **draws)


def split(pattern, behavior, rng):
    return typed("Split", pattern=pattern, behavior=behavior(), invert=rng.random() < 0.2)


def normalizers(rng):
    simple = [typed(name) for name in "NFC NFD NFKC NFKD Lowercase StripAccents Nmt".split()] + [
        {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5},
        {
            "type": "Replace",
            "pattern": {"String": rng.choice(["a", "the", " ", "``", "\u00e9"])},
            "content": rng.choice(["", "b", MARK, "  "]),
        },
        {"type": "Replace", "pattern": regex(rng), "content": rng.choice(["", "b", MARK, "  "])},
        {"type": "Replace", "pattern": regex(rng), "content": rng.choice(["", " ", "-"])},
        {"type": "Prepend", "prepend": rng.choice([MARK, " ", "x"])},
        {
            "type": "BertNormalizer",
            "clean_text": rng.random() < 0.7,
            "handle_chinese_chars": rng.random() < 0.7,
            "strip_accents": rng.choice([None, True, False]),
            "lowercase": rng.random() < 0.6,
        },
    ]
    draw = rng.random()
    if draw < 0.2:
        return None
    if draw < 0.7:
        return rng.choice(simple)
    return {"type": "Sequence", "normalizers": rng.sample(simple, rng.randrange(1, 4))}


def pre_tokenizers(rng):
    behavior = lambda: rng.choice(
        ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
    )
    level = byte_level(rng)
    level["use_regex"] = rng.random() < 0.7
    metaspace = {
        "type": "Metaspace",
        "replacement": MARK,
        "prepend_scheme": rng.choice(["always", "first", "never"]),
        "split": rng.random() < 0.7,
    }
    simple = [typed(name) for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")] + [
        level,
        metaspace,
        {"type": "CharDelimiterSplit", "delimiter": rng.choice(["e", " ", "\u00e9"])},
        {"type": "Punctuation", "behavior": behavior()},
        {"type": "Digits", "individual_digits": rng.random() < 0.5},
        split({"String": rng.choice(["the", " ", ","])}, behavior, rng),
        *(split(regex(rng), behavior, rng) for _ in range(4)),
    ]
    draw = rng.random()
    if draw < 0.1:
        return None
    if draw < 0.75:
        return rng.choice(simple)
    return {"type": "Sequence", "pretokenizers": rng.sample(simple, rng.randrange(1, 4))}


def added_tokens(rng):
    names = (
        "<s>¦</s>¦<mask>¦[CLS]¦[SEP]¦Hello¦hello¦HELLO¦the¦\n¦ ¦  ¦\t¦ a¦a ¦caf\u00e9¦cafe\u0301¦"
        f"\u6771¦12¦{MARK}¦e¦sea¦\u00c9¦\ufb01¦,"
    ).split("¦")
    flag = lambda: rng.random() < 0.4
    return [
        {
            "content": name,
            "single_word": rng.random() < 0.2,
            "lstrip": flag(),
            "rstrip": flag(),
            "normalized": flag(),
            "special": flag(),
        }
        for name in rng.sample(names, rng.choice([0, 1, 2, 4, 8]))
    ]


def describe(**parts):
    """The contents of a tokenizer.json."""
    names = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    return {"version": "1.0", "added_tokens": []} | dict.fromkeys(names) | parts


def without_model(description):
    """The library's tokenizer of the parts before the model."""
    model = {"type": "WordLevel", "vocab": {"<unk>": 0}, "unk_token": "<unk>"}
    return Tokenizer.from_str(
        json.dumps({**description, "added_tokens": [], "post_processor": None, "model": model})
    )


def words_of(tokenizer, texts):
    """What the model would see of the texts."""
    words = []
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        split = tokenizer.pre_tokenizer
        words += [word for word, _ in split.pre_tokenize_str(normal)] if split else [normal]
    return words


def substrings(words, rng, count):
    found = set()
    for _ in range(count):
        word = rng.choice(words)
        begin = rng.randrange(len(word))
        found.add(word[begin : begin + rng.randrange(1, 7)])
    return sorted(found)


def wordpiece_of(vocab, longest_word):
    return typed(
        "WordPiece",
        unk_token="[UNK]",
        continuing_subword_prefix="##",
        max_input_chars_per_word=longest_word,
        vocab=vocab,
    )


def wordpiece(words, rng):
    pieces = substrings(words, rng, 300)
    vocab = {"[UNK]": 0} if rng.random() < 0.9 else {}
    for piece in pieces + ["##" + piece for piece in pieces]:
        vocab.setdefault(piece, len(vocab))
    return wordpiece_of(vocab, rng.choice([5, 100]))


def unigram(words, rng):
    pieces = [piece for piece in substrings(words, rng, 400) if piece != "<unk>"]
    pieces += [piece for piece in BYTES if piece not in pieces] if rng.random() < 0.2 else []
    score = rng.choice(
        [
            lambda: -rng.random() * 15,
            lambda: -float(rng.randrange(1, 12)),
            lambda: -rng.randrange(16000) / 1024,
        ]
    )
    vocab = [["<unk>", 0.0]] + [[piece, score()] for piece in pieces]
    unknown = 0
    if rng.random() < 0.5:
        rng.shuffle(vocab)
        unknown = next(i for i, (piece, _) in enumerate(vocab) if piece == "<unk>")
    return {
        "type": "Unigram",
        "unk_id": unknown if rng.random() < 0.9 else None,
        "vocab": vocab,
        "byte_fallback": rng.random() < 0.3,
    }


def bpe(words, rng):
    """Merges of neighbours, drawn: each makes a piece of two that are there."""
    prefix, suffix = rng.choice([("", ""), ("", ""), ("", "</w>"), ("##", "")])
    vocab = {}
    add = lambda piece: vocab.setdefault(piece, len(vocab))
    if rng.random() < 0.8:
        add("<unk>")
    characters = sorted({c for word in words for c in word})
    for c in rng.sample(characters, len(characters) * 9 // 10):
        for piece in {c, c + suffix, prefix + c, prefix + c + suffix}:
            add(piece)
    fallback = not prefix and not suffix and rng.random() < 0.3
    if fallback:
        for piece in BYTES:
            add(piece)
    merges = []
    for word in rng.choices(words, k=1500):
        symbols = [
            (prefix if i else "") + c + (suffix if i == len(word) - 1 else "")
            for i, c in enumerate(word)
        ]
        for left, right in merges:
            i = 0
            while i + 1 < len(symbols):
                if (symbols[i], symbols[i + 1]) == (left, right):
                    symbols[i : i + 2] = [left + right[len(prefix) :]]
                i += 1
        if len(symbols) < 2 or len(merges) > 120:
            continue
        i = rng.randrange(len(symbols) - 1)
        pair = (symbols[i], symbols[i + 1])
        if all(piece in vocab for piece in pair) and pair not in merges:
            merges.append(pair)
            add(pair[0] + pair[1][len(prefix) :])
    if rng.random() < 0.1:  # skip ids
        vocab = {piece: i + (i > 20) * 3 for piece, i in vocab.items()}
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": rng.choice(["<unk>", "<unk>", None]),
        "continuing_subword_prefix": prefix or None,
        "end_of_word_suffix": suffix or None,
        "fuse_unk": rng.random() < 0.5,
        "byte_fallback": fallback,
        "ignore_merges": rng.random() < 0.2 and not prefix and not suffix,
        "vocab": vocab,
        "merges": merges,
    }


def post_processors(rng):
    names = {"sep": ["</s>", 1], "cls": ["<s>", 0]}
    return rng.choice([None, byte_level(rng), roberta(rng, names, 0.7)])


def with_ids(tokens, model):
    """Ids as the library gives them."""
    pieces = dict(model["vocab"])
    if model["type"] == "Unigram":  # pieces with scores
        pieces = {piece: i for i, piece in enumerate(pieces)}
    behind, result = len(pieces), []
    for token in tokens:
        if token["content"] not in pieces:
            if behind in pieces.values():
                continue  # an id that the vocabulary skips and uses later
            pieces[token["content"]], behind = behind, behind + 1
        result.append({"id": pieces[token["content"]], **token})
    return result


def make_description(rng, texts):
    words = None
    while words is None:  # the library panics when some expressions replace empty matches
        description = describe(
            normalizer=normalizers(rng),
            pre_tokenizer=pre_tokenizers(rng),
            post_processor=post_processors(rng),
        )
        before = without_model(description)
        words = silently(lambda: words_of(before, texts))
    words = [word for word in words if word][:3000]
    if len({c for word in words for c in word}) < 10:  # the expressions leave almost no text
        words += ["the", "captain", "sea"]
    description["model"] = rng.choice([wordpiece, unigram, bpe])(words, rng)
    # The library finds a token that normalization makes empty at every place. nystrom rejects such
    # a token.
    stays = lambda token: (
        not token["normalized"]
        or not before.normalizer
        or silently(lambda: before.normalizer.normalize_str(token["content"]))
    )
    description["added_tokens"] = with_ids(filter(stays, added_tokens(rng)), description["model"])
    return description


def make_texts(rng, lines, names, count):
    parts = PARTS + MORE_PARTS + SPACES * 3 + [name for name in names for _ in range(4)]
    parts = [part.replace("\r", " ") for part in parts]
    texts = []
    for i in range(count):
        if i % 3 == 0:
            words = rng.choice(lines).split(" ")
            begin = rng.randrange(len(words))
            texts.append(" ".join(words[begin : begin + 12]))
        else:
            texts.append(
                "".join(
                    rng.choice(parts) if rng.random() < 0.95 else random_character(rng, True)
                    for _ in range(rng.randrange(1, 12))
                )
            )
    return texts


def ours(program, command, place, texts):
    """For each text its tokens as lists of numbers, or the message of a refusal."""
    given = to_json_lines(texts).encode()
    result = subprocess.run([program, command, place], input=given, capture_output=True)
    if result.returncode:
        return result.stderr.decode().strip() or f"ended with {result.returncode}"
    return from_json_lines(result.stdout.decode())


def silently(encode):
    """What `encode` gives, or None where the library refuses or panics."""
    try:
        return encode()
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None


def may_double(description):
    """Whether the library may write text twice. Its ByteLevel does so with a word that stands for
    nothing in the source: once in byte-level characters, then again as it was. A Replace whose
    expression matches nothing makes such a word before the first character. Where the word goes on
    in the source the library panics, so no tokenizer in use has this. nystrom writes the word
    once."""
    has = lambda key, name: f'"{name}"' in json.dumps(description[key])
    return has("normalizer", "Regex") and has("pre_tokenizer", "ByteLevel")


def with_places(tokens):
    """The tokens that stand for something in the text."""
    return [token for token in tokens if token[1] < token[2]]


def compare_file(program, name, file, texts):
    theirs = Tokenizer.from_file(str(file))
    theirs.encode_special_tokens = False
    doubles = may_double(json.loads(file.read_text()))
    mine = ours(program, "json", file, texts)
    if isinstance(mine, str):
        print(f"{name}: {mine}")
        return False
    wrong = []
    for text, got in zip(texts, mine):
        encoded = silently(lambda: theirs.encode(text, add_special_tokens=False))
        if encoded is None:
            continue
        places = byte_offsets(text, encoded.offsets)
        wanted = [[i, *place] for i, place in zip(encoded.ids, places)]
        if doubles and isinstance(got, list) and got != wanted:
            got, wanted = with_places(got), with_places(wanted)
        if got != wanted:
            wrong.append((text, got, wanted))
    for text, got, wanted in wrong[:2]:
        if isinstance(got, list):
            k = first_difference(got, wanted)
            got, wanted = got[k : k + 3], wanted[k : k + 3]
        print(f"{name}: {ascii(text)}\n   ours {got}\n   theirs {wanted}")
    return not wrong


# ---- Folders  ------------------------------------------------------------------------------------

CLASSES = (
    "BertTokenizer DistilBertTokenizer ElectraTokenizerFast RobertaTokenizer BartTokenizer "
    "GPT2Tokenizer GPTNeoXTokenizerFast PreTrainedTokenizerFast LlamaTokenizerFast"
).split()
# Classes with special tokens and flags of their own.
MORE_CLASSES = (
    "AlbertTokenizerFast BarthezTokenizerFast BigBirdTokenizerFast BlenderbotSmallTokenizerFast "
    "BlenderbotTokenizerFast BloomTokenizerFast CLIPTokenizerFast CamembertTokenizerFast "
    "CodeGenTokenizerFast CohereTokenizerFast ConvBertTokenizerFast "
    "DPRQuestionEncoderTokenizerFast DPRReaderTokenizerFast DebertaTokenizerFast "
    "DebertaV2TokenizerFast FNetTokenizerFast FunnelTokenizerFast GemmaTokenizerFast "
    "HerbertTokenizerFast LEDTokenizerFast LayoutLMTokenizerFast LongformerTokenizerFast "
    "LxmertTokenizerFast MT5TokenizerFast MobileBertTokenizerFast MPNetTokenizerFast MvpTokenizer "
    "NougatTokenizerFast OpenAIGPTTokenizerFast PegasusTokenizerFast Qwen2TokenizerFast "
    "ReformerTokenizerFast RemBertTokenizerFast "
    "SplinterTokenizerFast SqueezeBertTokenizerFast T5TokenizerFast WhisperTokenizerFast "
    "XGLMTokenizerFast XLMRobertaTokenizerFast XLNetTokenizerFast"
).split()
# Tokens that these classes put around texts. Where they are no pieces, transformers adds tokens for
# which no model has a row; nystrom refuses the folder.
AROUND_TEXTS = {
    "CohereTokenizerFast": ["<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"],
    "GemmaTokenizerFast": ["<bos>", "<eos>"],
}
# Classes that nystrom refuses by name, as docs/tokenizers.md says: Pegasus's renumbers its tokens.
REFUSED = ["PegasusTokenizerFast"]
BERT_LIKE = re.compile("(?<!Rem)Bert|DPR|Electra|Funnel|LayoutLM|Lxmert|MPNet|Splinter")


def maybe(rng, options, **values):
    """Each of the values into the options, or not."""
    for key, value in values.items():
        if rng.random() < 0.5:
            options[key] = value


def bert_folder(rng, words):
    pieces = substrings(words, rng, 500)
    pieces = dict.fromkeys(BERT_NAMES + pieces + ["##" + piece for piece in pieces])
    pieces = [piece for piece in pieces if not any(c.isspace() for c in piece)]
    model = wordpiece_of({piece: i for i, piece in enumerate(pieces)}, 100)
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": rng.random() < 0.8,
        "handle_chinese_chars": rng.random() < 0.5,
        "strip_accents": rng.choice([None, True, False]),
        "lowercase": rng.random() < 0.5,
    }
    return (
        model,
        normalizer,
        {"type": "BertPreTokenizer"},
        {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    )


def byte_folder(rng, words, more_names):
    plain = typed("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    library = without_model(describe(pre_tokenizer=plain))
    written = [word for text in words for word, _ in library.pre_tokenizer.pre_tokenize_str(text)]
    model = bpe(written, random.Random(rng.random()))
    while model["continuing_subword_prefix"] or model["end_of_word_suffix"]:
        model = bpe(written, random.Random(rng.random()))
    pieces = [piece for piece in model["vocab"] if piece not in BYTE_NAMES]
    pieces = BYTE_NAMES + pieces + more_names
    model |= {
        "unk_token": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {piece: i for i, piece in enumerate(pieces)},
    }
    level = byte_level(rng)
    post = rng.choice([level, roberta(rng, {"sep": ["</s>", 2], "cls": ["<s>", 0]}, 0.5)])
    return model, None, level, post


def write_folder(rng, folder, texts):
    """A folder of one of the classes; returns the names in it."""
    its_class = rng.choice(CLASSES if rng.random() < 0.4 else MORE_CLASSES)
    bert = BERT_LIKE.search(its_class) is not None
    model, normalizer, pre_tokenizer, post_processor = (
        bert_folder(rng, texts)
        if bert
        else byte_folder(rng, texts, AROUND_TEXTS.get(its_class, []))
    )
    specials = BERT_NAMES if bert else BYTE_NAMES
    described = [token | {"special": rng.random() < 0.7} for token in added_tokens(rng)]
    tokens = [
        {
            "content": name,
            "single_word": False,
            "lstrip": rng.random() < 0.3,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for name in specials
        if rng.random() < 0.7
    ]
    tokens += [token for token in described if token["content"] not in specials]
    tokens = with_ids(tokens, model)
    known = rng.random() < 0.5  # tokenizer.json agrees with the settings
    old = rng.random() < 0.3 and its_class in ("BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer")
    inside = tokens if known else tokens[: rng.randrange(len(tokens) + 1)]
    config = {"tokenizer_class": its_class}
    maybe(
        rng,
        config,
        do_lower_case=rng.random() < 0.5,
        strip_accents=rng.choice([None, True, False]),
        tokenize_chinese_chars=rng.random() < 0.5,
        add_prefix_space=rng.random() < 0.5,
        trim_offsets=rng.random() < 0.5,
        add_bos_token=rng.random() < 0.5,
        add_eos_token=rng.random() < 0.5,
        mask_token=specials[4],
    )
    if its_class == "LlamaTokenizerFast":
        config.pop("add_prefix_space", None)
    if rng.random() < 0.5:
        config["added_tokens_decoder"] = {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"}
            | {"lstrip": rng.random() < 0.5, "rstrip": rng.random() < 0.3}
            for token in tokens
        }
    elif rng.random() < 0.5:
        new = {token["content"]: token["id"] for token in tokens}
        (folder / "added_tokens.json").write_text(json.dumps(new))
    else:
        inside = tokens
    if rng.random() < 0.5:
        mask = {
            "content": specials[4],
            "single_word": False,
            "lstrip": rng.random() < 0.5,
            "rstrip": rng.random() < 0.5,
            "normalized": False,
        }
        names = {"mask_token": rng.choice([specials[4], mask])}
        names["sep_token"] = specials[3 if bert else 2]
        (folder / "special_tokens_map.json").write_text(json.dumps(names))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if old and bert:
        (folder / "vocab.txt").write_text("".join(piece + "\n" for piece in model["vocab"]))
    elif old:
        (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text(
            "#version: 0.2\n" + "".join(" ".join(pair) + "\n" for pair in model["merges"])
        )
    else:
        description = describe(
            added_tokens=sorted(inside, key=lambda token: token["id"]),
            normalizer=normalizer,
            pre_tokenizer=pre_tokenizer,
            post_processor=post_processor,
            model=model,
        )
        (folder / "tokenizer.json").write_text(json.dumps(description))
    count = 1 + max([*model["vocab"].values(), *(token["id"] for token in tokens)])
    return specials + [token["content"] for token in tokens], count


def compare_folder(program, name, folder, texts, count):
    """Texts with ids from `count` on are left out: transformers adds tokens that a class has by
    default and the files lack, and no model has a row for them."""
    theirs = silently(lambda: AutoTokenizer.from_pretrained(folder, model_max_length=10**9))
    mine = ours(program, "json", folder, texts)
    if isinstance(mine, str):
        print(f"{name}: {mine}" + ("" if theirs else " (transformers refuses it too)"))
        if "and no tokenizer.json can hold both" in mine:  # as docs/tokenizers.md says
            return True
        return theirs is None or any(
            f"tokenizer_class: {refused} needs Python or rules of its own" in mine
            for refused in REFUSED
        )
    wrong = []
    for text, got in zip(texts, mine):
        encoded = silently(
            lambda: theirs(text, add_special_tokens=False, return_offsets_mapping=True)
        )
        if encoded is None or max(encoded["input_ids"], default=0) >= count:
            continue
        wanted = [
            [i, *place]
            for i, place in zip(encoded["input_ids"], byte_offsets(text, encoded["offset_mapping"]))
        ]
        if got != wanted:
            wrong.append((text, got, wanted))
    for text, got, wanted in wrong[:2]:
        print(f"{name}: {ascii(text)}\n   ours {got}\n   theirs {wanted}")
    return not wrong


def report(check, what, arguments, wrong):
    text = f"{what}, {arguments.texts} texts each: {len(wrong)} differ"
    check(not wrong, " ".join([text, *map(str, wrong)]))


def check_folders(check, arguments, lines):
    wrong = []
    for number in range(arguments.folders):
        rng = random.Random(f"{arguments.seed} folder {number}")
        texts = make_texts(rng, lines, [], arguments.texts)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "bert"
            folder.mkdir()
            names, count = write_folder(rng, folder, texts)
            texts = make_texts(rng, lines, names, arguments.texts)
            if compare_folder(arguments.program, f"folder {number}", folder, texts, count):
                continue
            wrong.append(number)
            if arguments.keep:
                shutil.copytree(folder, arguments.keep / f"folder-{number}", dirs_exist_ok=True)
    report(check, f"{arguments.folders} folders", arguments, wrong)


@script(__doc__, program="tokenizer_tool", count=200, folders=40, texts=300, seed=0, keep=Path)
def main(arguments, check, scratch):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    lines, wrong, file = read_lines(NOVELS), [], scratch / "tokenizer.json"
    for number in range(arguments.count):
        rng = random.Random(f"{arguments.seed} {number}")
        texts = make_texts(rng, lines, [], arguments.texts)
        description = make_description(rng, texts)
        names = [token["content"] for token in description["added_tokens"]]
        texts = make_texts(rng, lines, names, arguments.texts) if names else texts
        file.write_text(json.dumps(description))
        if not compare_file(arguments.program, f"configuration {number}", file, texts):
            wrong.append(number)
            if arguments.keep:
                arguments.keep.mkdir(exist_ok=True)
                shutil.copy(file, arguments.keep / f"{number}.json")
    report(check, f"{arguments.count} configurations", arguments, wrong)
    check_folders(check, arguments, lines)

"""Compares our tokenizers with Hugging Face's.

usage: check_tokenizer.py [--program build/release/tokenizer_tool] [--texts FILE...] [--tokenizers
FOLDER_OR_FILE...]
                          [--golden FOLDER]

On 1 MB of mixed text (lines of FILE, the bundled novels, each as it is, and lines made of
everything that tokenizers disagree on: spaces, quotes, numbers, accents, marks, scripts, emoji,
control characters, long words, names of special tokens) every line must give the same:

- SentencePiece: ALBERT's model, and unigram and BPE models trained here, lower-cased and cased,
  without and with user-defined pieces, are
  written in Hugging Face's form and read by AutoTokenizer: ids.
- tokenizer.json, vocab.txt, and vocab.json with merges.txt: the bundled tokenizers of every kind,
  and what --tokenizers names, read by
  both: ids and offsets, with names of special tokens found and not found.

And --golden names a folder of tokenizers, each in a folder of its own with golden_encodings.json
(texts and a pair with the ids that Hugging Face gives, special ones included): the folder, and each
of its files alone, must give the same. (ALBERT's tokenizer.json has ids of its own for some texts,
tokenizer_json_ids_if_different.) Left out, it is ../shared/data/tokenizers beside the repository,
where that exists.

Left out for SentencePiece: a compatibility character with a combining mark behind it, five bytes at
most (Hugging Face's Precompiled drops the mark in cased models); and "eee" (in ALBERT's model ee e
and e ee have the same score: rounding decides, in SentencePiece's float as in Hugging Face's
double; models trained here have no such ties). For all: characters newer than Unicode 8, which
Hugging Face's tables of marks and punctuation do not know."""

import gzip
import json
import random
import shutil
import struct
import unicodedata
from pathlib import Path

from common import FIXTURES, NOVELS, ROOT, run, script, to_json_lines
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertTokenizerFast, GPT2TokenizerFast, RobertaTokenizerFast

TOKENIZERS = FIXTURES / "tokenizers"
ALBERT = TOKENIZERS / "albert"
PARTS = (
    "  ¦ ¦\t¦\u00a0¦\u2003¦\u200b¦\ufeff¦\u2581¦\x85¦\x0b¦\x1c¦``¦''¦'¦`¦\"¦\u201c¦\u2019¦12,345¦"
    "9,¦1,000.00¦$5¦50%¦3.14¦(¦)¦-¦--¦\u2013¦\u2014¦\u2026¦...¦A.B¦don't¦caf\u00e9¦na\u00efve¦"
    "o\u0301¦\u00c5ngstr\u00f6m¦\u01c4¦\u0130stanbul¦stra\u00dfe¦\ufb01nd¦\u2167¦\u00bd¦\u00b2¦"
    "\u2122¦\uff21\uff22¦\u6771\u4eac¦\u306f\u3072\u3089\u304c\u306a¦\u30ac\u30c3¦"
    "\ud55c\uad6d\uc5b4¦\u1112\u1161\u11ab¦\u041f\u0440\u0438\u0432\u0435\u0442¦"
    "\u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac¦\u03a3¦\u0645\u0631\u062d\u0628\u0627¦"
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd¦\u0928\u092e\u0938\u094d\u0924\u0947¦"
    "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22¦\u09ac\u09cb¦\U0001f642¦\U0001f44d\U0001f3fd¦"
    "\U0001f468\u200d\U0001f469¦\u0fb2\u0f71\u0f80¦\ufdfa¦[MASK]¦[CLS]¦<unk>¦the¦and¦Hello¦WORLD"
).split("¦")


MORE_PARTS = (
    "\u0301¦e\u0323\u0302¦\u0302\u0323e¦a\u0300\u0315\u0327¦\u1e9b\u0323¦\u0344¦\u212b¦\u2126¦"
    "\u0958¦\u1112\u1161¦\u11ab¦\uac00\u11a8¦\u0001¦\u007f¦\u0090¦\u00ad¦\u200c¦\u200d¦\u200e¦"
    "\u202e¦\u2028¦\u2029¦\u3000¦\u1680¦\u180e¦\ufffd¦\ufe0f¦\U0001f1e9\U0001f1ea¦\U00020000¦"
    "\u4e00\u9fa5¦\uf900¦\u3042\u3099¦\u30cf\u309a¦\u2460¦\u24b6¦\u2155¦\u0660\u0661¦\u0967¦"
    "\u2070¦_¦__a__¦\u203f¦<mask>¦<mask>¦  <mask>  ¦<s>¦</s>¦<pad>¦[SEP]¦[UNK]¦[PAD]¦"
    f"<|endoftext|>¦sea¦Hello¦captain¦\r¦I'M¦it's¦we'LL¦'¦ '¦''s¦1¦12¦123¦1234¦{'x' * 60}¦"
    f"{'ab' * 120}¦\u00b5¦\u017f¦\u1e9e¦\u0130¦\u0149¦\u03f4¦\ua64b¦   ¦\t\t¦ \u00a0 ¦\u0085"
).split("¦")


def random_character(rng, marks):
    ranges = [(32, 0x3000), (0xAC00, 0xD7A4)]
    ranges += [(0x3000, 0xA000), (0x10000, 0x20000)] if marks else []
    while True:
        character = chr(rng.randrange(*rng.choice(ranges)))
        if unicodedata.category(character)[0] not in ("C" if marks else "MC"):
            return character


def read_lines(files):
    lines = []
    for path in files:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf8") as file:
            lines += [line for line in file.read().split("\n") if line.strip()]
    return lines


def mixed_lines(files, rng, size, marks=False):
    """Lines of the files, and made ones: with `marks` of characters of every kind."""
    lines, parts = read_lines(files), PARTS + (MORE_PARTS if marks else [])
    rng.shuffle(lines)
    chosen, bytes_taken = [], 0
    for line in lines:
        chosen.append(line)
        bytes_taken += len(line.encode())
        if bytes_taken > size * (1 if marks else 3) // (2 if marks else 4):
            break
    while bytes_taken < size:
        made = "".join(
            rng.choice(parts) if rng.random() < 0.9 else random_character(rng, marks)
            for _ in range(rng.randrange(1, 40))
        )
        chosen.append(made)
        bytes_taken += len(made.encode())
    return chosen


def numbers(text):
    """Of each line the numbers of its words, which colons separate."""
    return [
        [[int(number) for number in word.split(":")] for word in line.split()]
        for line in text.split("\n")[:-1]
    ]


def wrap(program, place, texts):
    """Ids and types of texts and pairs, with special tokens."""
    return numbers(run(program, "wrap", place, given=to_json_lines(texts)))


def first_difference(a, b):
    return next((k for k, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b)))


def compare(check, program, name, folder, lines):
    # Version 5 looks at config.json too, and asks whether to trust its classes.
    trust = {"trust_remote_code": True} if (folder / "modeling_nystrom.py").exists() else {}
    tokenizer = AutoTokenizer.from_pretrained(folder, model_max_length=10**9, **trust)
    theirs = tokenizer(lines, add_special_tokens=False)["input_ids"]
    given = "".join(line + "\n" for line in lines)
    words = numbers(run(program, "encode", folder, "tokens", given=given))
    ours = [[word[0] for word in line] for line in words]
    assert len(ours) == len(theirs) == len(lines)
    different = [i for i in range(len(lines)) if ours[i] != theirs[i]]
    tokens = sum(len(ids) for ids in ours)
    check(
        not different,
        f"{name}: {len(lines)} lines, {tokens} tokens, {len(different)} lines differ",
    )
    for i in different[:5]:
        k = first_difference(ours[i], theirs[i])
        near = [each[i][max(0, k - 1) : k + 4] for each in (ours, theirs)]
        mine, wanted = map(tokenizer.convert_ids_to_tokens, near)
        print("  ", ascii(lines[i][:200]), mine, "theirs", wanted)


def byte_offsets(text, offsets):
    """Offsets in characters, as Hugging Face gives them, in bytes of UTF-8."""
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.encode()))
    return [[starts[begin], starts[end]] for begin, end in offsets]


def with_hidden_names(tokenizer):
    """The library's tokenizer with special tokens whose names no text holds. nystrom never takes a
    name in a text for the token. The library's encode_special_tokens is weaker: it does not search
    the names, but the model may still find one as a piece, WordPiece between spaces, BPE by
    merges."""
    description = json.loads(tokenizer.to_str())
    model = description["model"]
    # nystrom's BPE keeps pieces of one character, as others are merged from them.
    specials = [
        token
        for token in description["added_tokens"]
        if token["special"] and (model["type"] != "BPE" or len(token["content"]) > 1)
    ]
    names = [token["content"] for token in specials]
    renamed = {name: name + "\U0010fffd" for name in names}
    rename = lambda piece: renamed.get(piece, piece)
    if "merges" in model:
        prefix = model["continuing_subword_prefix"] or ""
        joined = lambda left, right: left + right[len(prefix) :]
        unknown = model["unk_token"]
        of_unknown = {unknown}  # the unknown token may be a part of pieces
        merges = []
        for left, right in model["merges"]:
            made = joined(left, right)
            if made in names or {left, right} & set(names) - {unknown}:
                continue  # no text gets there
            if left in of_unknown or right in of_unknown:
                of_unknown.add(made)
                renamed[made] = joined(rename(left), rename(right))
            merges.append([rename(left), rename(right)])
        model["merges"] = merges
    if "unk_token" in model:
        model["unk_token"] = rename(model["unk_token"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {rename(piece): i for piece, i in model["vocab"].items()}
    else:
        model["vocab"] = [[rename(piece), score] for piece, score in model["vocab"]]
    for token in specials:
        token["content"] = rename(token["content"])
    hidden = Tokenizer.from_str(json.dumps(description))
    hidden.encode_special_tokens = True  # for those of one character
    return hidden


def compare_offsets(check, program, name, place, theirs, lines):
    """Ids and offsets of what both read from `place`."""
    given = "".join(line + "\n" for line in lines)
    for names in ["tokens", "text"]:
        theirs.encode_special_tokens = False
        reader = theirs if names == "tokens" else with_hidden_names(theirs)
        ours = numbers(run(program, "offsets", place, names, given=given))
        encoded = reader.encode_batch(lines, add_special_tokens=False)
        wanted = [
            [[i, *place] for i, place in zip(e.ids, byte_offsets(line, e.offsets))]
            for line, e in zip(lines, encoded)
        ]
        different = [i for i in range(len(lines)) if ours[i] != wanted[i]]
        check(
            not different,
            f"{name}, names as {names}: {len(lines)} lines, {sum(map(len, ours))} "
            f"tokens, {len(different)} lines differ in ids or offsets",
        )
        for i in different[:3]:
            k = first_difference(ours[i], wanted[i])
            print("  ", ascii(lines[i][:200]), ours[i][k : k + 2], "theirs", wanted[i][k : k + 2])


def check_folders(check, program, places, lines):
    """Every tokenizer.json, vocab.txt and vocab.json among the places or in them."""
    for place in places:
        for file in [place] if place.is_file() else sorted(place.rglob("*")):
            name = str(file.relative_to(place.parent))
            if file.name == "tokenizer.json":
                theirs = Tokenizer.from_file(str(file))
            elif file.name == "vocab.txt":
                theirs = BertTokenizerFast(str(file)).backend_tokenizer
            elif file.name == "vocab.json":
                masked = "<mask>" in json.loads(file.read_text())
                kind = RobertaTokenizerFast if masked else GPT2TokenizerFast
                theirs = kind(str(file), str(file.parent / "merges.txt")).backend_tokenizer
            else:
                continue
            compare_offsets(check, program, name, file, theirs, lines)


def check_golden(check, folder):
    golden = json.loads((ALBERT / "golden_encodings.json").read_text())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    wrong = [
        case["text"]
        for case in golden["cases"]
        if tokenizer(case["text"])["input_ids"] != case["ids"]
    ]
    pair = golden["pair"]
    encoded = tokenizer(pair["a"], pair["b"])
    assert encoded["input_ids"] == pair["ids"] and encoded["token_type_ids"] == pair["type_ids"]
    text = f"albert: {len(golden['cases'])} golden texts, {len(wrong)} differ"
    check(not wrong, " ".join([text, *map(ascii, wrong)]))


def differing(program, place, golden):
    """The texts, or the pair, that `place` does not turn into the ids (and types, of a pair that
    has them) of the golden file."""
    cases, pair = golden["cases"], golden["pair"]
    of_json = place.name == "tokenizer.json" or (place / "tokenizer.json").exists()
    key = "tokenizer_json_ids_if_different" if of_json else "ids"
    wanted = [([case["text"]], case.get(key) or case["ids"], None) for case in cases]
    wanted.append(([pair["a"], pair["b"]], pair["ids"], pair["type_ids"]))
    ours = wrap(program, place, [texts for texts, _, _ in wanted])
    assert len(ours) == len(wanted)
    return [
        texts
        for (texts, ids, types), tokens in zip(wanted, ours)
        if [token[0] for token in tokens] != ids
        or types
        and [token[1] for token in tokens] != types
    ]


def check_golden_folder(check, program, golden_folder):
    if not golden_folder.is_dir():
        return print(
            f"golden encodings: NOT CHECKED, there is no folder {golden_folder}; --golden names one"
        )
    files = sorted(golden_folder.glob("*/golden_encodings.json"))
    assert files, f"{golden_folder} holds no */golden_encodings.json"
    for file in files:
        golden = json.loads(file.read_text())
        names = ["tokenizer.json", "vocab.txt", "vocab.json", "spiece.model"]
        files = [file.parent / name for name in names if (file.parent / name).exists()]
        for place in [file.parent, *files]:
            different = differing(program, place, golden)
            check(
                not different,
                f"golden encodings, {place.relative_to(golden_folder)}: "
                f"{len(golden['cases'])} texts and a pair, {len(different)} differ"
                + "".join("\n  " + ascii(each)[:200] for each in different[:5]),
            )


def export(program, model, folder):
    folder.mkdir()
    run(program, "export", model, folder)
    return folder


def with_user_defined_pieces(model, pieces, file):
    """A copy of a SentencePiece model with more pieces: protocol buffers take fields of a list from
    anywhere in the file."""
    field = lambda number, content: bytes([number << 3 | 2, len(content)]) + content
    rest = bytes([2 << 3 | 5]) + struct.pack("<f", 0) + bytes([3 << 3, 4])  # score and type
    more = b"".join(field(1, field(1, piece.encode()) + rest) for piece in pieces)
    file.write_bytes(model.read_bytes() + more)


def check_user_defined_pieces(check, program, model, folder, lines, rng):
    """Pieces that are user-defined: parts of words and of normal pieces, signs, and tags."""
    known = {
        piece if isinstance(piece, str) else piece[0]
        for piece in json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    }
    letters = [
        line[at : at + size].lower()
        for line in lines[:400]
        for size in (2, 3)
        for at in [rng.randrange(len(line))]
    ]
    parts = [
        part
        for part in dict.fromkeys(letters)
        if part.isascii() and part.isalpha() and len(part) > 1 and part not in known
    ][:5]
    pieces = [piece for piece in [*parts, "<sep>", "((", "#"] if piece not in known]
    changed = model.with_name("user_defined_" + model.name)
    with_user_defined_pieces(model, pieces, changed)
    texts = [
        "".join(
            rng.choice([word, word, rng.choice(pieces), word + rng.choice(pieces)])
            + rng.choice([" ", " ", ""])
            for word in line.split(" ")[:30]
        )
        for line in lines[:1500]
    ]
    texts = [text for text in texts if text.strip()]
    exported = export(program, changed, folder.with_name("user_defined_" + folder.name))
    compare(check, program, f"{changed.stem} with {pieces}", exported, texts)


@script(
    __doc__,
    program="tokenizer_tool",
    texts=NOVELS,
    tokenizers=[],
    golden=ROOT.parent / "shared/data/tokenizers",
    bytes=1_000_000,
    seed=0,
)
def main(arguments, check, folder):
    program, rng = arguments.program, lambda: random.Random(arguments.seed)
    lines = mixed_lines(arguments.texts, rng(), arguments.bytes)
    every_kind = mixed_lines(arguments.texts, rng(), arguments.bytes, marks=True)
    check_golden_folder(check, program, arguments.golden)
    check_folders(check, program, [TOKENIZERS, *arguments.tokenizers], every_kind)
    albert = export(program, ALBERT / "spiece.model", folder / "albert")
    check_golden(check, albert)
    compare(check, program, "albert", albert, lines)
    check_folders(check, program, [albert / "tokenizer.json"], every_kind)
    model = Path(shutil.copy(ALBERT / "spiece.model", folder / "spiece.model"))
    check_user_defined_pieces(check, program, model, albert, lines, rng())
    for kind in ["unigram", "bpe"]:
        for case in ["lower", "cased", "stripped"]:
            trained = folder / f"{kind}_{case}"
            trained.mkdir()
            run(program, "train", kind, 4000, trained, case, *arguments.texts)
            compare(check, program, f"{kind}, {case}", trained, every_kind)

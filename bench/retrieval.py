"""Does a small model find texts by their meaning, and does a long context help it?

    ./dev quickstart
    build/interop/bin/python bench/retrieval.py --data DATA --start runs/quickstart \\
        --work build/retrieval --output bench/results/retrieval.json

Needs the environment of `./dev test-interop`. DATA holds XQuAD (qa_xquad_en/xquad.en.json).

    xquad          an English question finds its paragraph among those of 24 articles
    chapters-2048  the first half of a chapter finds the second half among those of five novels
    chapters-4096  the same with longer texts

Neighbouring chapters of the bundled novels are joined until each half has 2,048 (4,096) tokens.
Headings are left out. Halves are cut to that length. The articles and the novels make two folds.
Training sees one fold and the ranking the other, both ways round; a query competes only with
those of its fold. Pretraining has seen nine of the ten novels, as plain text.

Training draws two random parts of each text of the training novels (task.views: crops), and for
xquad then learns questions with their paragraphs. BM25 reads the texts that the models read.
Texts cut to 512 tokens say what the model loses without the rest of them. `windows` are the whole
texts read 512 tokens at a time by the model that was trained so; their vectors' mean is used.

Finished runs are not repeated."""

import argparse
import gzip
import json
import math
import re
import statistics
import sys
from pathlib import Path

from embedding_runs import add_arguments, call, finetune, write_results

HEADING = re.compile(r"^(chapter |part )?([ivxlc]+|\d+|one|two|three|four|five|six)\b[.:]?(.*)$", re.I)
MAX_POSITIONS, SHORT = 4096, 512
MASKED, CROPS, PAIRS = "masked", "crops", "pairs"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--novels", type=Path, default=Path("examples/quickstart"))
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 4096])
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args()


# ---- Texts ---------------------------------------------------------------------------------------


class Tokens:
    """Counts and cuts by the tokens of the model."""

    def __init__(self, file: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(file))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def ends(self, text: str) -> list[int]:
        """The character after each token."""
        return [end for _, end in self.tokenizer.encode(text, add_special_tokens=False).offsets]

    def cut(self, text: str, length: int) -> str:
        """The beginning of a text that has `length` tokens with [CLS] and [SEP]."""
        ends = self.ends(text)
        return text if len(ends) <= length - 2 else text[: ends[length - 3]]


def is_heading(line: str) -> bool:
    match = HEADING.match(line)
    if not match:
        return False
    named, rest = match.group(1), match.group(3)
    return not rest or bool(named and len(line) < 80 and line[-1] not in ".!?\"'")


def is_title(line: str) -> bool:
    """Whether the line after a heading is the chapter's title."""
    return line == line.upper() or (len(line) < 100 and not re.search(r"[.!?:;,-][\"']?$", line))


def chapters_of(file: Path) -> list[str]:
    """The chapters of a novel without their headings. What is before the first is left out."""
    chapters: list[list[str]] = []
    after_heading = False
    for line in gzip.open(file, "rt").read().splitlines():
        line = line.strip()
        if not line:
            continue
        if is_heading(line):
            chapters.append([])
            after_heading = True
        elif after_heading and is_title(line):
            pass
        elif chapters:
            after_heading = False
            chapters[-1].append(line)
    return [" ".join(lines) for lines in chapters if lines]


def stretches_of(chapters: list[str], length: int, tokens: Tokens) -> list[str]:
    """Neighbouring chapters joined until they have two halves of `length` tokens."""
    stretches, text = [], ""
    for chapter in chapters:
        text = f"{text} {chapter}".strip()
        if len(tokens.ends(text)) >= 2 * length:
            stretches.append(text)
            text = ""
    return stretches


def halves(text: str) -> tuple[str, str]:
    """Both halves of a text, divided between words."""
    middle = text.index(" ", len(text) // 2)
    return text[:middle], text[middle + 1 :]


# ---- Rankings ------------------------------------------------------------------------------------


def write_folder(folder: Path, queries: list[str], documents: list[str], found: list[int]) -> Path:
    """A folder in BEIR's form: query i asks for document found[i]."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, texts in (("queries", queries), ("corpus", documents)):
        lines = (json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(texts))
        (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    rows = "".join(f"{query}\t{document}\t1\n" for query, document in enumerate(found))
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def bm25(queries: list[str], documents: list[str], found: list[int]) -> dict:
    """BM25 with the defaults of bm25s; each query has one relevant document."""
    import bm25s

    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(documents, stopwords="en", show_progress=False), show_progress=False)
    gains, reciprocals, recalled = [], [], []
    words = bm25s.tokenize(queries, stopwords="en", show_progress=False, return_ids=False)
    for query, document in zip(words, found):
        scores = retriever.get_scores(query)
        rank = 1 + int((scores > scores[document]).sum()) if scores[document] > 0 else math.inf
        gains.append(1 / math.log2(rank + 1) if rank <= 10 else 0.0)
        reciprocals.append(1 / rank if rank <= 10 else 0.0)
        recalled.append(float(rank <= 100))
    names = ("ndcg_at_10", "mrr_at_10", "recall_at_100")
    return dict(zip(names, map(statistics.mean, (gains, reciprocals, recalled)))) | {
        "queries": len(queries)
    }


def rank(arguments: argparse.Namespace, model: Path, folder: Path, length: int) -> dict:
    options = ("--json", "--set", f"data.sequence_length={length}")
    return json.loads(call(arguments, "evaluate", model, "--retrieval", folder, *options))


# ---- Training ------------------------------------------------------------------------------------


def train_on_crops(
    arguments: argparse.Namespace, name: str, texts: list[str], length: int, seed: int
) -> Path:
    """Trains on pairs of random parts of `texts`, each at most `length` tokens long."""
    file = arguments.work / f"{name}.txt"
    file.write_text("".join(text + "\n" for text in texts))
    # Larger batches have more negatives, but the longest ones would take hours.
    settings = {
        "seed": seed,
        "task": {"train": [str(file)], "views": "crops", "validation": [validation(arguments)]},
        "optimizer": {"learning_rate": 3e-4},
        "training": {"steps": 150, "batch_size": 32, "micro_batch_size": 16, "dtype": "bf16"},
        "data": {"sequence_length": length},
    }
    return finetune(arguments, name, arguments.work / "start", settings)


def train_on_pairs(
    arguments: argparse.Namespace, name: str, start: Path, pairs: list[tuple[str, str]], seed: int
) -> Path:
    file = arguments.work / f"{name}.jsonl"
    lines = (json.dumps({"text": text, "pair": pair}) for text, pair in pairs)
    file.write_text("".join(line + "\n" for line in lines))
    settings = {
        "seed": seed,
        "task": {"train": [str(file)], "validation": [validation(arguments)]},
        "optimizer": {"learning_rate": 3e-4},
        "training": {"epochs": 10, "batch_size": 64, "micro_batch_size": 64, "dtype": "bf16"},
        "data": {"sequence_length": SHORT},
    }
    settings["task"]["columns"] = {"text": "text", "pair": "pair"}
    return finetune(arguments, name, start, settings)


def validation(arguments: argparse.Namespace) -> str:
    """Pairs for the validation that a run must have; nothing is chosen by it."""
    file = arguments.work / "validation.jsonl"
    if not file.exists():
        lines = (json.dumps({"text": f"Text {i}.", "pair": f"The text {i}."}) for i in range(8))
        file.write_text("".join(line + "\n" for line in lines))
    return str(file)

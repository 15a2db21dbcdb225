"""Does a small model find texts by their meaning, and does a long context help it?

    ./dev quickstart
    build/interop/bin/python bench/retrieval.py --data DATA --start runs/quickstart \\
        --work build/retrieval --output bench/results/retrieval.json

Needs the environment of `./dev test-interop`. DATA holds XQuAD (qa_xquad_en/xquad.en.json) and
further novels (corpus_novels/novels_train.txt: a paragraph a line, a blank line between novels).

    chapters-2048  the first half of a chapter finds the second half, among those of ten novels
    chapters-4096  the same with longer texts
    xquad          an English question finds its paragraph, among those of 24 articles

Chapters are those of the bundled novels. Neighbouring chapters are joined until each half has 2,048
(4,096) tokens. Headings are left out, and halves are cut to that length. Training draws two random
parts of pieces of the further novels (task.views: crops), of which none is among the ten.
Pretraining has seen nine of the ten, as plain text. BM25 reads the texts that the models read.
Texts cut to 512 tokens say what a model loses without the rest of them. `windows` are whole texts
that the model for 512 tokens reads 512 tokens at a time; the mean of their vectors counts.

For xquad the model first learns parts of the further novels' paragraphs, then questions with their
paragraphs. The articles make two halves: it learns from one and is measured on the other, both ways
round.

Finished runs are not repeated."""

import argparse
import json
import math
import re
import statistics
import sys
from pathlib import Path

from embedding_runs import add_arguments, finetune, lines_of, write_results
from nystrom_runs import derived, nystrom, parser_of

NUMBER = r"[ivxlc]+|\d+|one|two|three|four|five|six"
HEADING = re.compile(rf"^(chapter |part )?({NUMBER})\b[.:]?(.*)$", re.IGNORECASE)
MAX_POSITIONS, SHORT = 4096, 512
MASKED, CROPS, PAIRS = "masked", "crops", "pairs"


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    add_arguments(parser)
    parser.add_argument("--novels", type=Path, default=Path("examples/quickstart"))
    parser.add_argument("--lengths", type=int, nargs="*", default=[2048, 4096])
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
    for line in lines_of(file):
        if is_heading(line):
            chapters.append([])
            after_heading = True
        elif after_heading and is_title(line):
            pass
        elif chapters:
            after_heading = False
            chapters[-1].append(line)
    return [" ".join(lines) for lines in chapters if lines]


def other_novels(arguments: argparse.Namespace, files: list[Path]) -> list[list[str]]:
    """The paragraphs of each further novel that is not among `files`."""
    bundled = {line for file in files for line in lines_of(file) if len(line) > 200}
    text = (arguments.data / "corpus_novels/novels_train.txt").read_text().strip()
    novels = [novel.splitlines() for novel in re.split(r"\n\s*\n", text)]
    return [novel for novel in novels if not bundled.intersection(novel)]


def pieces_of(novel: list[str], tokens: Tokens) -> list[str]:
    """Neighbouring paragraphs joined until they have twice the tokens of the longest texts."""
    pieces, paragraphs, count = [], [], 0
    for paragraph in novel:
        paragraphs.append(paragraph)
        count += len(tokens.ends(paragraph))
        if count >= 2 * MAX_POSITIONS:
            pieces.append(" ".join(paragraphs))
            paragraphs, count = [], 0
    return pieces


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
        lines = (json.dumps({"_id": f"{name[0]}{i}", "text": text}) for i, text in enumerate(texts))
        (folder / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))
    rows = "".join(f"q{query}\tc{document}\t1\n" for query, document in enumerate(found))
    (folder / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return folder


def bm25(queries: list[str], documents: list[str], found: list[int]) -> dict:
    """BM25 with the defaults of bm25s; each query has one relevant document."""
    import bm25s

    retriever = bm25s.BM25()
    corpus = bm25s.tokenize(documents, stopwords="en", show_progress=False)
    retriever.index(corpus, show_progress=False)
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
    options = ("--json", "--quiet", "--set", f"data.sequence_length={length}")
    return json.loads(nystrom(arguments, "evaluate", model, "--retrieval", folder, *options))


# ---- Training ------------------------------------------------------------------------------------


def train_on_crops(
    arguments: argparse.Namespace, name: str, texts: Path, length: int, seed: int, training: dict
) -> Path:
    """Trains on pairs of random parts of the lines of `texts`, of at most `length` tokens each."""
    settings = {
        "seed": seed,
        "task": task_of(arguments, texts) | {"views": "crops"},
        "optimizer": {"learning_rate": 1e-3},
        "training": {"dtype": "bf16"} | training,
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
        "task": task_of(arguments, file),
        "optimizer": {"learning_rate": 1e-3},
        "training": {"epochs": 10, "batch_size": 64, "micro_batch_size": 64, "dtype": "bf16"},
        "data": {"sequence_length": SHORT},
    }
    return finetune(arguments, name, start, settings)


def task_of(arguments: argparse.Namespace, file: Path) -> dict:
    """The section `task`. A run must have a validation; nothing is chosen by this one."""
    pairs = arguments.work / "validation.jsonl"
    lines = (json.dumps({"text": f"Text {i}.", "pair": f"The text {i}."}) for i in range(8))
    pairs.write_text("".join(line + "\n" for line in lines))
    columns = {"text": "text", "pair": "pair"}
    return {"train": [str(file)], "validation": [str(pairs)], "columns": columns}


# ---- Experiments ---------------------------------------------------------------------------------


def xquad_fold(data: list[dict], fold: int) -> tuple[list[str], list[str], list[int]]:
    """Questions and paragraphs of every second article, and the paragraph of each question."""
    paragraphs = [p for article in data[fold::2] for p in article["paragraphs"]]
    questions, found = [], []
    for number, paragraph in enumerate(paragraphs):
        questions += [question["question"] for question in paragraph["qas"]]
        found += [number] * len(paragraph["qas"])
    return questions, [paragraph["context"] for paragraph in paragraphs], found


def xquad(arguments: argparse.Namespace, table: "Table") -> None:
    file = arguments.data / "qa_xquad_en/xquad.en.json"
    data = sorted(json.loads(file.read_text())["data"], key=lambda article: article["title"])
    for fold in (0, 1):
        questions, documents, found = xquad_fold(data, fold)
        folder = write_folder(arguments.work / f"xquad-{fold}", questions, documents, found)
        table.add("xquad", "BM25", bm25(questions, documents, found))
        table.add("xquad", MASKED, rank(arguments, arguments.work / "start", folder, SHORT))
    training = {"steps": 200, "batch_size": 128, "micro_batch_size": 128}
    for seed in range(1, arguments.seeds + 1):
        texts = arguments.work / "paragraphs.txt"
        crops = train_on_crops(arguments, f"xquad-crops-{seed}", texts, 64, seed, training)
        for fold in (0, 1):
            folder = arguments.work / f"xquad-{fold}"
            questions, documents, found = xquad_fold(data, 1 - fold)
            pairs = [(question, documents[i]) for question, i in zip(questions, found)]
            trained = train_on_pairs(arguments, f"xquad-pairs-{seed}-{fold}", crops, pairs, seed)
            table.add("xquad", CROPS, rank(arguments, crops, folder, SHORT), seed)
            table.add("xquad", PAIRS, rank(arguments, trained, folder, SHORT), seed)


def write_halves(
    arguments: argparse.Namespace, table: "Table", files: list[Path], length: int, tokens: Tokens
) -> dict[int, Path]:
    """The folders of a task by the length of their texts. Ranks them without training."""
    stretches = [t for file in files for t in stretches_of(chapters_of(file), length, tokens)]
    pairs, folders, task = [halves(text) for text in stretches], {}, f"chapters-{length}"
    for cut in (SHORT, length):
        queries, documents = ([tokens.cut(text, cut) for text in column] for column in zip(*pairs))
        found = list(range(len(pairs)))
        folders[cut] = write_folder(arguments.work / f"{task}-{cut}", queries, documents, found)
        table.add(task, f"BM25, {cut} tokens", bm25(queries, documents, found))
        start = rank(arguments, arguments.work / "start", folders[cut], cut)
        table.add(task, f"{MASKED}, {cut} tokens", start)
    return folders


def chapters(
    arguments: argparse.Namespace, files: list[Path], table: "Table", tokens: Tokens
) -> None:
    folders = {
        length: write_halves(arguments, table, files, length, tokens)
        for length in arguments.lengths
    }
    training = {"steps": 100, "batch_size": 32, "micro_batch_size": 32}
    for seed in range(1, arguments.seeds + 1):
        for cut in (SHORT, *arguments.lengths):
            name, texts = f"chapters-crops-{cut}-{seed}", arguments.work / "pieces.txt"
            model = train_on_crops(arguments, name, texts, cut, seed, training)
            for length in arguments.lengths:
                task = f"chapters-{length}"
                if cut in folders[length]:
                    scores = rank(arguments, model, folders[length][cut], cut)
                    table.add(task, f"{CROPS}, {cut} tokens", scores, seed)
                if cut == SHORT:
                    scores = rank(arguments, model, folders[length][length], cut)
                    table.add(task, f"{CROPS}, windows of {cut}", scores, seed)


class Table:
    """The scores of each task and contestant, means over the queries of both folds."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.scores: dict[tuple[str, str], dict[int, list[dict]]] = {}

    def add(self, task: str, contestant: str, scores: dict, seed: int = 0) -> None:
        self.scores.setdefault((task, contestant), {}).setdefault(seed, []).append(scores)
        print(f"{task}, {contestant}, seed {seed}: {scores['ndcg_at_10']:.4f}", file=sys.stderr)
        write_results(self.arguments, self.rows())

    def rows(self) -> list[dict]:
        rows = []
        for (task, contestant), seeds in self.scores.items():
            row = {"task": task, "contestant": contestant}
            row["queries"] = sum(fold["queries"] for fold in next(iter(seeds.values())))
            for metric in ("ndcg_at_10", "mrr_at_10", "recall_at_100"):
                row[metric] = [
                    sum(fold[metric] * fold["queries"] for fold in folds)
                    / sum(fold["queries"] for fold in folds)
                    for folds in seeds.values()
                ]
            rows.append(row)
        return rows

    def print(self) -> None:
        print("| task | contestant | queries | nDCG@10 | MRR@10 | nDCG@10 by seed |")
        print("|---|---|--:|--:|--:|---|")
        for row in self.rows():
            gain, reciprocal = (statistics.mean(row[m]) for m in ("ndcg_at_10", "mrr_at_10"))
            each = ", ".join(f"{value:.3f}" for value in row["ndcg_at_10"])
            print(
                f"| {row['task']} | {row['contestant']} | {row['queries']} | {gain:.3f} "
                f"| {reciprocal:.3f} | {each} |"
            )


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    length = ("--length", MAX_POSITIONS)
    start = derived(arguments, "extend", arguments.start, arguments.work / "start", *length)
    exported = derived(arguments, "export", start, arguments.work / "exported")
    files = [*sorted(arguments.novels.glob("corpus/*.gz")), arguments.novels / "heldout.txt.gz"]
    tokens, table = Tokens(exported / "tokenizer.json"), Table(arguments)
    novels = other_novels(arguments, files)
    for name, texts in (
        ("pieces", [piece for novel in novels for piece in pieces_of(novel, tokens)]),
        ("paragraphs", [line for novel in novels for line in novel if len(line) > 200]),
    ):
        file = arguments.work / f"{name}.txt"
        file.write_text("".join(text + "\n" for text in texts))
        print(f"{name}: {len(texts)} of {len(novels)} novels", file=sys.stderr)
    chapters(arguments, files, table, tokens)
    xquad(arguments, table)
    table.print()


if __name__ == "__main__":
    main()

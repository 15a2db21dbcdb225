"""Makes a folder of bags like those of pathology slides, with a known signal.

    python examples/bags/make_bags.py slides --bags 60

needs h5py and NumPy. It writes FOLDER/h5/ID.h5 with `features` [n, width] in f16 and `coords` [n, 2],
FOLDER/signal/ID.npy with the rows that carry the signal, and FOLDER/slides.csv with the columns
id, label and patient. In slides of the label "tumor" 2 to 5 % of the rows are shifted along one
direction; they lie together, as a lesion does.
"""

import argparse
import csv
import pathlib

import h5py
import numpy as np


def make_bag(rng: np.random.Generator, rows: int, direction: np.ndarray, tumor: bool) -> tuple:
    """Features, coords, and the numbers of the rows with the signal."""
    side = int(np.ceil(np.sqrt(rows * 1.3)))
    places = np.sort(rng.choice(side * side, rows, replace=False))
    grid = np.stack([places % side, places // side], 1)
    features = rng.standard_normal((rows, direction.size), dtype=np.float32)
    signal = np.empty(0, dtype=np.int64)
    if tumor:
        centre = grid[rng.integers(rows)]
        count = max(1, int(rows * rng.uniform(0.02, 0.05)))
        signal = np.sort(np.argsort(((grid - centre) ** 2).sum(1), kind="stable")[:count])
        features[signal] += direction
    return features, grid * 256, signal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bags", type=int, default=60)
    parser.add_argument("--rows", type=int, nargs=2, default=(500, 8000), metavar=("LEAST", "MOST"))
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--strength", type=float, default=8.0, help="length of the shift")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    direction = rng.standard_normal(options.width, dtype=np.float32)
    direction *= options.strength / np.linalg.norm(direction)
    for part in ("h5", "signal"):
        (options.folder / part).mkdir(parents=True, exist_ok=True)
    with (options.folder / "slides.csv").open("w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["id", "label", "patient"])
        for number in range(options.bags):
            name, tumor = f"slide_{number:03}", number // 2 % 2 == 1
            rows = int(rng.integers(options.rows[0], options.rows[1] + 1))
            features, coords, signal = make_bag(rng, rows, direction, tumor)
            with h5py.File(options.folder / "h5" / f"{name}.h5", "w") as file:
                file.create_dataset("features", data=features.astype(np.float16),
                                    chunks=(min(32, rows), options.width), maxshape=(None, options.width))
                file.create_dataset("coords", data=coords, chunks=(min(32, rows), 2), maxshape=(None, 2))
            np.save(options.folder / "signal" / f"{name}.npy", signal)
            writer.writerow([name, "tumor" if tumor else "normal", f"patient_{number // 2:03}"])


if __name__ == "__main__":
    main()

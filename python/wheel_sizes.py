"""Prints what takes the space of a wheel: the largest files, compressed and unpacked."""

import sys
import zipfile
from pathlib import Path

LIMIT = 40_000_000  # bytes


def main() -> None:
    path = Path(sys.argv[1])
    with zipfile.ZipFile(path) as wheel:
        files = sorted(wheel.infolist(), key=lambda file: -file.compress_size)
    print(f"{'compressed':>12}{'unpacked':>12}   MB")
    rest = files[12:]
    for file in files[:12]:
        print(f"{file.compress_size / 1e6:12.2f}{file.file_size / 1e6:12.2f}   {file.filename}")
    sums = sum(f.compress_size for f in rest) / 1e6, sum(f.file_size for f in rest) / 1e6
    print(f"{sums[0]:12.2f}{sums[1]:12.2f}   {len(rest)} others")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if path.stat().st_size > LIMIT:
        sys.exit(f"the wheel has more than {LIMIT / 1e6:.0f} MB")


if __name__ == "__main__":
    main()

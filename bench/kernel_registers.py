"""Lists the registers and the spills of every CUDA kernel, for docs/gpu.md.

    python3 bench/kernel_registers.py           # prints the table
    python3 bench/kernel_registers.py --write   # replaces the table in docs/gpu.md

The numbers are those that ptxas reports for sm_90. It needs nvcc, and no GPU. The script fails if a
kernel spills more than a little, unless it is in the list of known ones.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/gpu.md"
BEGIN, END = "<!-- kernel_registers: begin -->", "<!-- kernel_registers: end -->"
# Kernels of f64, which serve tests, and of head width or landmarks 128.
MAY_SPILL = ("double", "128")
# Bytes. Less of them than of registers that let one more block run costs nothing (docs/gpu.md).
LITTLE = 64


def compiled(source: pathlib.Path) -> str:
    """What ptxas says about the kernels of a file, with readable names."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "nvcc",
            "-std=c++20",
            "--expt-relaxed-constexpr",
            "-arch=sm_90",
            f"-I{ROOT}",
            "-cubin",
            str(source),
            "-o",
            f"{folder}/kernels.cubin",
            "-Xptxas",
            "-v",
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{source.name} does not compile: {done.stderr[-2000:]}")
    if "warning" in done.stderr:
        sys.exit(f"{source.name} compiles with warnings: {done.stderr[-2000:]}")
    return subprocess.run(
        ["c++filt"], input=done.stderr, capture_output=True, text=True, check=True
    ).stdout


def kernels(text: str):
    """Yields (name, template arguments, registers, bytes of spill stores)."""
    pattern = re.compile(
        r"Compiling entry function '(?P<name>.*?)' for.*?"
        r"(?P<spill>\d+) bytes spill stores.*?Used (?P<registers>\d+) registers",
        re.DOTALL,
    )
    for found in pattern.finditer(text):
        name = re.sub(r"\(anonymous namespace\)::|nystrom::|kernels::|cuda::", "", found["name"])
        name = name.removeprefix("void ")
        short = re.match(r"\w+", name)[0]
        arguments = re.match(r"\w+(<.*?>)?\(", name)
        yield (
            short,
            arguments[1] or "" if arguments else name,
            int(found["registers"]),
            int(found["spill"]),
        )


def rows():
    for source in sorted((ROOT / "core/cuda").rglob("*.cu")):
        groups: dict[str, list] = {}
        for name, arguments, registers, spill in kernels(compiled(source)):
            groups.setdefault(name, []).append((registers, spill, arguments))
        for name, found in sorted(groups.items()):
            registers = [entry[0] for entry in found]
            spilled = max(found, key=lambda entry: entry[1])
            unexpected = [
                entry
                for entry in found
                if entry[1] > LITTLE and not any(word in entry[2] for word in MAY_SPILL)
            ]
            yield (
                f"{source.stem}: {name}",
                len(found),
                min(registers),
                max(registers),
                spilled,
                unexpected,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = ["| kernel | forms | registers | most bytes spilled |", "|---|--:|--:|---|"]
    bad = []
    for name, count, least, most, spilled, unexpected in rows():
        range_of = str(least) if least == most else f"{least} to {most}"
        spill = f"{spilled[1]} ({spilled[2]})" if spilled[1] else "0"
        lines.append(f"| {name} | {count} | {range_of} | {spill} |")
        bad += [f"{name} {entry[2]}: {entry[1]} bytes" for entry in unexpected]
    table = "\n".join(lines)
    if options.write:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}")
    else:
        print(table)
    if bad:
        sys.exit("unexpected spills: " + "; ".join(bad))


if __name__ == "__main__":
    main()

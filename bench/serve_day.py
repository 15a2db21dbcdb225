"""A day of a server in Python: 100,000 requests from 16 threads to one model, and the memory of the
process after each 10,000.

    PYTHONPATH=build/release/python build/python/bin/python bench/serve_day.py runs/finetuned-1

A request is `predict` or `encode` of one to four texts of 3 to 30 words. The model is of a
classification. Each thread keeps the buffers of its largest request, so memory grows at first.
Ends in an error if the second half of the requests adds more than 2 %.
"""

import argparse
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nystrom

WORDS = "the sea was calm and old ships sailed home under pale stars while men sang".split()


def memory():
    """The resident memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def request(model, number):
    draw = random.Random(number)
    texts = [
        " ".join(draw.choices(WORDS, k=draw.randint(3, 30))) for _ in range(draw.randint(1, 4))
    ]
    answers = (model.predict if number % 2 else model.encode)(texts)
    assert len(answers) == len(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("model")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=16)
    arguments = parser.parse_args()
    model = nystrom.load(arguments.model)
    part = arguments.requests // 10
    memories = []
    with ThreadPoolExecutor(arguments.threads) as pool:
        for begin in range(0, arguments.requests, part):
            started = time.perf_counter()
            for _ in pool.map(lambda number: request(model, number), range(begin, begin + part)):
                pass
            rate = part / (time.perf_counter() - started)
            memories.append(memory())
            print(
                f"{begin + part:7} requests   {memories[-1]:6.1f} MB   {rate:5.0f} a second",
                flush=True,
            )
    growth = memories[-1] / memories[4] - 1
    print(f"second half: {growth:+.1%}")
    sys.exit(growth > 0.02)


if __name__ == "__main__":
    main()

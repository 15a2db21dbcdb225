"""Measurements that nothing else on the machine slowed down."""

import sys
import time

BUSY = 1.1  # times the fastest measurement


def product_seconds(threads: int) -> float:
    """The fastest of a few matrix products: what the machine gives at this moment."""
    import torch

    torch.set_num_threads(threads)
    matrix = torch.ones(2048, 2048)
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - start)
    return min(seconds)


class QuietMachine:
    """Repeats measurements that something else on the machine slowed down."""

    def __init__(self, threads: int, max_repeats: int = 10) -> None:
        self.threads, self.max_repeats = threads, max_repeats
        self.fastest = min(product_seconds(threads) for _ in range(3))

    def measure(self, name: str, run) -> tuple:
        """What run() returns, and the seconds of a matrix product before and after it."""
        for _ in range(self.max_repeats):
            before, result = product_seconds(self.threads), run()
            after = product_seconds(self.threads)
            self.fastest = min(self.fastest, before, after)
            if max(before, after) <= BUSY * self.fastest:
                return result, [before, after]
            slower = max(before, after) / self.fastest
            print(
                f"a product took {slower:.2f} times as long: {name} is repeated",
                file=sys.stderr,
                flush=True,
            )
        sys.exit(f"the machine is not quiet: {name} was slowed down {self.max_repeats} times")

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
    """Repeats measurements that something else on the machine slowed down. Where no attempt was
    quiet, it keeps the quietest: the seconds beside a result tell."""

    def __init__(self, threads: int, attempts: int = 4) -> None:
        self.threads, self.attempts = threads, attempts
        self.fastest = min(product_seconds(threads) for _ in range(3))

    def measure(self, name: str, run) -> tuple:
        """What run() returns, and the seconds of a matrix product before and after it."""
        found = []
        for _ in range(self.attempts):
            before, result = product_seconds(self.threads), run()
            products = [before, product_seconds(self.threads)]
            self.fastest = min(self.fastest, *products)
            found.append((max(products), result, products))
            slower = max(products) / self.fastest
            if slower <= BUSY:
                return result, products
            print(
                f"a product took {slower:.2f} times as long: {name} was slowed down",
                file=sys.stderr,
                flush=True,
            )
        _, result, products = min(found, key=lambda attempt: attempt[0])
        print(f"the machine was never quiet: the quietest {name} is kept", file=sys.stderr)
        return result, products

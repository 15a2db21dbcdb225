"""Processes that are forked after a model has computed compute too, or say at once why not."""

import multiprocessing
import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

import nystrom
from conftest import lines, python

TEXTS = lines(40, seed=8)


@pytest.fixture(scope="module")
def vectors(model) -> np.ndarray:
    nystrom.set_num_threads(2)
    return model.encode(TEXTS)


def forked(work: Callable[[], int]) -> int:
    """The exit code of a forked child, which is what `work` returns."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_a_pool_compute(method, model, vectors):
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map_async(model.encode, np.split(np.array(TEXTS), 4)).get(60)
    np.testing.assert_allclose(np.concatenate(found), vectors, atol=1e-5)


def test_a_forked_child_has_all_threads(model, vectors):
    threads = forked(
        lambda: nystrom.num_threads() if np.array_equal(model.encode(TEXTS), vectors) else 0
    )
    assert threads == nystrom.num_threads()


def test_the_parent_computes_on(model, vectors):
    for _ in range(3):
        forked(lambda: 0)
        np.testing.assert_array_equal(model.encode(TEXTS), vectors)


def test_a_fork_while_another_thread_computes_raises_at_once(trained):
    script = """
        import os, sys, threading, time, nystrom
        model = nystrom.load(sys.argv[1])
        model.encode(["the sea"])
        done = threading.Event()
        def work():
            while not done.is_set():
                model.encode(["the sea was calm"] * 2000)
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.5)
        children = []
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    model.encode(["the sea"])
                    os._exit(1)
                except nystrom.InternalError as error:
                    os._exit(7 if "forked while its parent computed" in str(error) else 2)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        done.set()
        thread.join()
        print(sorted(set(codes)), len(model.encode(["the sea"])))
    """
    done = python(script, trained, env=os.environ | {"PYTHONWARNINGS": "ignore"})
    # A moment between two calls may let a child compute (1).
    assert done.stdout in ("[7] 1\n", "[1, 7] 1\n"), done.stderr


def test_a_fork_of_an_observer_raises_at_once(config, model):
    codes = []

    def encode() -> int:
        try:
            model.encode(["the sea"])
        except nystrom.InternalError:
            return 7
        return 1

    def observer(step: nystrom.Step) -> None:
        if step.step == 2:
            codes.append(forked(encode))

    nystrom.pretrain(config, on_step=observer, quiet=True)
    assert codes == [7]


def test_other_threads_of_a_child_compute(model, vectors):
    def encode() -> int:
        found = []
        thread = threading.Thread(target=lambda: found.append(len(model.encode(TEXTS))))
        thread.start()
        thread.join()
        return found[0]

    assert forked(encode) == 40


def test_a_dataset_is_mapped_in_processes(model, vectors):
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"text": TEXTS})
    mapped = rows.map(
        lambda batch: {"vector": model.encode(batch["text"])}, batched=True, num_proc=2
    )
    np.testing.assert_allclose(mapped["vector"][:], vectors, atol=1e-5)


def test_a_loader_of_torch_tokenizes_in_processes(model):
    data = pytest.importorskip("torch.utils.data")
    model.encode(TEXTS)
    loader = data.DataLoader(TEXTS, batch_size=8, num_workers=2, collate_fn=model.tokenizer)
    ids = [batch["input_ids"] for batch in loader]
    assert [each.shape[0] for each in ids] == [8] * 5


def test_a_thread_that_computes_does_not_crash_the_end(trained):
    script = """
        import sys, threading, time, nystrom
        model = nystrom.load(sys.argv[1])
        texts = ["the sea was calm"] * 200000
        threading.Thread(target=model.encode, args=(texts,), daemon=True).start()
        time.sleep(0.3)
    """
    done = python(script, trained)
    assert (done.returncode, done.stderr) == (0, "")

"""Processes that are forked after a model has computed compute too, or say at once why not."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import nystrom
from conftest import lines

TEXTS = lines(40, seed=8)


@pytest.fixture(scope="module")
def vectors(model) -> np.ndarray:
    nystrom.set_num_threads(2)
    return model.encode(TEXTS)


def in_children(model: nystrom.Model, method: str, parts: int = 4) -> np.ndarray:
    with multiprocessing.get_context(method).Pool(2) as pool:
        return np.concatenate(pool.map_async(model.encode, np.split(np.array(TEXTS), parts)).get(60))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_a_pool_compute(method, model, vectors):
    np.testing.assert_allclose(in_children(model, method), vectors, atol=1e-5)


def test_a_forked_child_has_all_threads(model, vectors):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = np.array_equal(model.encode(TEXTS), vectors)
        os.write(write, b"%d %d" % (nystrom.num_threads(), same))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 99) == b"%d 1" % nystrom.num_threads()


def test_the_parent_computes_on(model, vectors):
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
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
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), trained],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    # A moment between two calls may let a child compute (1).
    assert done.stdout in ("[7] 1\n", "[1, 7] 1\n"), done.stderr


def test_a_fork_of_an_observer_raises_at_once(config, model):
    codes = []

    def observer(step: nystrom.Step) -> None:
        if step.step == 2:
            child = os.fork()
            if child == 0:
                try:
                    model.encode(["the sea"])
                    os._exit(1)
                except nystrom.InternalError:
                    os._exit(7)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    nystrom.pretrain(config, on_step=observer, quiet=True)
    assert codes == [7]


def test_other_threads_of_a_child_compute(model, vectors):
    child = os.fork()
    if child == 0:
        found = []
        thread = threading.Thread(target=lambda: found.append(len(model.encode(TEXTS))))
        thread.start()
        thread.join()
        os._exit(found[0])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40


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
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(trained)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")

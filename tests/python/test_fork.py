"""Processes that are forked after a model has computed compute too, in one thread."""

import multiprocessing
import os
import threading

import numpy as np
import pytest

import nystrom
from conftest import lines

TEXTS = lines(40, seed=8)
MODELS: list[nystrom.Model] = []


@pytest.fixture(scope="module")
def vectors(model) -> np.ndarray:
    nystrom.set_num_threads(2)
    return model.encode(TEXTS)


def encode(texts: np.ndarray) -> np.ndarray:
    return MODELS[0].encode(texts)


def in_children(model: nystrom.Model, parts: int = 4) -> np.ndarray:
    MODELS[:] = [model]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map_async(encode, np.split(np.array(TEXTS), parts))
        return np.concatenate(found.get(60))


def test_processes_of_a_pool_compute(model, vectors):
    np.testing.assert_allclose(in_children(model), vectors, atol=1e-5)


def test_the_parent_computes_on(model, vectors):
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        np.testing.assert_array_equal(model.encode(TEXTS), vectors)


def test_other_threads_of_a_child_compute(model, vectors):
    child = os.fork()
    if child == 0:
        found = []
        thread = threading.Thread(target=lambda: found.append(len(model.encode(TEXTS))))
        thread.start()
        thread.join()
        os._exit(found[0])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40

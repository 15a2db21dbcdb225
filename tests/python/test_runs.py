"""Runs from Python: the program's own bits, an observer of the steps, and Ctrl-C."""

import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import lines, python


def newest_checkpoint(run_dir: Path) -> Path:
    return max((run_dir / "checkpoints").glob("step-*"), key=lambda p: int(p.name[5:]))


def weights_of(run_dir: Path) -> bytes:
    return (newest_checkpoint(run_dir) / "model.safetensors").read_bytes()


def test_a_run_has_the_programs_bits(config, program, tmp_path):
    run = nystrom.pretrain(config, quiet=True)
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps(config | {"run_dir": tmp_path / "other"}, default=str))
    program.run("pretrain", file)
    assert weights_of(Path(run.run_dir)) == weights_of(tmp_path / "other")
    assert run.steps == 12 and run.metric == "loss"
    assert run.best_step in (6, 12) and run.best_value > 0


@pytest.mark.parametrize("pooling", ["attention", "token"])
def test_the_features_of_an_argument_tell_their_width(pooling, tmp_path):
    draw = np.random.default_rng(0)
    for i in range(8):
        np.save(tmp_path / f"b{i}.npy", draw.normal(size=(6, 4)).astype(np.float32) + i % 2)
    table = tmp_path / "bags.csv"
    table.write_text("id,label\n" + "".join(f"b{i},{'ab'[i % 2]}\n" for i in range(8)))
    config = {
        "run_dir": tmp_path / "run",
        "model": {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "attention": {"num_landmarks": 2},
            "pooling": pooling,
        },
        "task": {"kind": "features", "features_folder": tmp_path},
        "training": {"epochs": None, "steps": 1, "batch_size": 1, "dtype": "f32"},
    }
    with pytest.raises(nystrom.InputError, match="takes the names of files"):
        nystrom.finetune(config, train=[{"id": "b0", "label": "a"}], validation=0.3)
    assert nystrom.finetune(config, train=table, validation=0.3, quiet=True).steps == 1


def test_an_observer_sees_each_step(config, tmp_path):
    steps = []
    run = nystrom.pretrain(config, on_step=steps.append, quiet=True, training={"steps": 7})
    assert [step.step for step in steps] == list(range(1, 8))
    assert {step.steps for step in steps} == {7}
    lines = (Path(run.run_dir) / "metrics.jsonl").read_text().splitlines()
    recorded = [r for r in map(json.loads, lines) if "loss" in r]
    assert [r["loss"] for r in recorded] == pytest.approx([step.loss for step in steps], abs=0)
    assert [r["grad_norm"] for r in recorded] == [step.gradient_norm for step in steps]
    assert [r["learning_rate"] for r in recorded] == [step.learning_rate for step in steps]
    assert 0 <= steps[0].accuracy <= 1 and steps[0].tokens_per_second > 0
    assert repr(steps[0]) == f"nystrom.Step(step=1, loss={steps[0].loss:.4f})"
    twin = pickle.loads(pickle.dumps(steps[0]))
    names = [name for name in dir(twin) if not name.startswith("_")]
    assert len(names) == 7
    assert [getattr(twin, name) for name in names] == [getattr(steps[0], name) for name in names]


def test_what_an_observer_raises_stops_the_run_after_a_checkpoint(config):
    def observer(step: nystrom.Step) -> None:
        if step.step == 4:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        nystrom.pretrain(config, on_step=observer, quiet=True)
    assert (config["run_dir"] / "checkpoints" / "step-4").is_dir()
    steps = []
    nystrom.pretrain(config, on_step=lambda step: steps.append(step.step), quiet=True)
    assert steps == list(range(5, 13))


def test_ctrl_c_stops_a_run_after_a_checkpoint(config, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    script = """
        import sys, nystrom
        try:
            nystrom.pretrain(sys.argv[1], training={"steps": 100000},
                             on_step=lambda step: print(step.step, flush=True))
        except nystrom.Interrupted as reason:
            assert isinstance(reason, KeyboardInterrupt)
            print(reason)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), tmp_path / "config.json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for line in child.stdout:
        if line == "3\n":
            break
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    reason = output.splitlines()[-1]
    step = int(reason.split()[3].rstrip(";"))
    assert reason == f"stopped after step {step}; the same command goes on from there"
    assert (config["run_dir"] / "checkpoints" / f"step-{step}").is_dir()


def test_ctrl_c_stops_a_long_computation(trained):
    script = """
        import sys, threading, os, signal, time, nystrom
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
        model = nystrom.load(sys.argv[1])
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        try:
            while True:
                model.encode(["the sea was calm"] * 1_000_000)
        except KeyboardInterrupt:
            print(time.monotonic() - started)
    """
    done = python(script, trained)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 5


LONG_READS = {  # what reads or prepares files, much longer than the test waits
    "tokenizing a corpus": """
        config["data"]["train"] = [big_text]
        config["tokenizer"] = {"path": str(tokenizer)}
        nystrom.pretrain(config, quiet=True, on_step=fail)""",
    "training a tokenizer": """
        config["data"]["train"] = [big_text]
        config["tokenizer"] = {"train": {"vocab_size": 30}}
        nystrom.pretrain(config, quiet=True, on_step=fail)""",
    "reading a task": """
        nystrom.finetune({"run_dir": config["run_dir"], "model": {"from": str(tokenizer)},
                          "task": {"kind": "classification", "train": [big_table],
                                   "validation": [big_table]}},
                         quiet=True, on_step=fail)""",
    "making vectors of one batch after another": """
        nystrom.load(tokenizer).encode(["the sea was calm " * 200] * 20_000)""",
    "tokenizing texts": """
        nystrom.load(tokenizer).tokenizer(["the sea was calm " * 200] * 40_000)""",
}


@pytest.mark.parametrize("work", LONG_READS)
def test_ctrl_c_stops_the_reading_of_files(work, config, trained, tmp_path):
    rows = [f"{line}\t{number % 2}" for number, line in enumerate(lines(20_000, seed=3))] * 20
    (tmp_path / "big.tsv").write_text("\n".join(["text\tlabel", *rows]))
    (tmp_path / "big.txt").write_text("\n".join(lines(20_000, seed=3) * 20))
    (tmp_path / "config.json").write_text(json.dumps(config, default=str))
    (tmp_path / "tmp").mkdir()
    script = """
        import json, os, signal, sys, threading, time, nystrom
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
        config, tokenizer = json.load(open("config.json")), sys.argv[1]
        big_text, big_table = os.path.abspath("big.txt"), os.path.abspath("big.tsv")
        def fail(step):
            sys.exit("the run began before the signal")
        def interrupt():
            global sent
            sent = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.4, interrupt).start()
        try:
            {work}
            print("not stopped")
        except KeyboardInterrupt:
            print(time.monotonic() - sent)
    """
    long_read = textwrap.indent(textwrap.dedent(LONG_READS[work]).strip(), "    ").strip()
    done = python(
        textwrap.dedent(script).replace("{work}", long_read),
        newest_checkpoint(trained),
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1.5
    assert not list((tmp_path / "tmp").iterdir())
    assert not list(tmp_path.rglob("*.tmp-*"))


def test_an_observer_sees_the_steps_of_vectors_and_may_stop_them(config, trained, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    rows = ["\t".join(lines(2, seed)) for seed in range(40)]
    pairs.write_text("\n".join(["text\tpair", *rows]) + "\n")
    steps = []

    def observer(step: nystrom.Step) -> None:
        steps.append(step.step)
        if len(steps) == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        nystrom.finetune(
            {
                "run_dir": tmp_path / "vectors",
                "model": {"from": trained},
                "task": {"kind": "embeddings", "train": [pairs], "validation": [pairs],
                         "columns": {"pair": "pair"}},
                "data": {"sequence_length": 32},
                "training": {"steps": 9, "batch_size": 8, "micro_batch_size": 8},
                "schedule": {"warmup_steps": 1},
            },
            on_step=observer,
            quiet=True,
        )
    assert steps == [1, 2, 3]
    assert (tmp_path / "vectors" / "checkpoints" / "step-3").is_dir()


def test_options_may_be_numbers_of_numpy(config):
    options = {"training": {"steps": np.int64(2)}, "schedule": {"warmup_steps": np.int32(1)}}
    rate = {"learning_rate": np.float32(1e-3), "betas": np.array([0.9, 0.99])}
    assert nystrom.pretrain(config, quiet=True, optimizer=rate, **options).steps == 2


def test_a_run_stands_for_its_folder(config):
    run = nystrom.pretrain(config, quiet=True, training={"steps": 2}, schedule={"warmup_steps": 1})
    assert os.fspath(run) == str(config["run_dir"])
    assert nystrom.load(run).fill_mask("the [MASK] was calm", top_k=1)


def test_another_thread_works_while_a_run_computes(config):
    import threading

    ticks, done = [], threading.Event()

    def tick() -> None:
        while not done.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    nystrom.pretrain(config, quiet=True)
    done.set()
    thread.join()
    assert len(ticks) > 3


def test_a_negative_number_of_threads_is_an_input_error(config):
    with pytest.raises(nystrom.InputError, match="threads -1; expected at least 0"):
        nystrom.pretrain(config, threads=-1)


@pytest.mark.parametrize(
    "sections, message",
    [
        ({"training": {"stepz": 5}}, "training={{\"stepz\": 5}}: unknown key 'training.stepz'; did you mean 'steps'?"),
        ({"training": {"steps": "many"}}, "training={{\"steps\": \"many\"}}: training.steps: got the text 'many', expected a whole number at least 1, or null"),
        ({"data": {"train": ["{missing}"]}}, "data.train: '{missing}' matches no file; relative names start at the current folder {here}"),
    ],
)  # fmt: skip
def test_wrong_options_are_input_errors(config, tmp_path, sections, message):
    missing = str(tmp_path / "missing")
    text = json.dumps(sections).replace("{missing}", missing)
    with pytest.raises(nystrom.InputError) as raised:
        nystrom.pretrain(config, quiet=True, **json.loads(text))
    assert str(raised.value) == message.format(missing=missing, here=os.getcwd())
    assert not config["run_dir"].exists()

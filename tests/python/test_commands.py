"""Commands as functions: the program's results, from data in memory."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import lines

ROWS = [(text, "calm" if "calm" in text else "rough") for text in lines(30, seed=9)]
CORPUS = lines(20, seed=10)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "rows.tsv"
    file.write_text("\n".join(["text\tlabel", *map("\t".join, ROWS)]))
    return file


def test_a_classifier_is_evaluated_as_by_the_program(classifier, table, program):
    printed = json.loads(program.run("evaluate", classifier, "--file", table, "--json"))
    model = nystrom.load(classifier)
    for found in (
        nystrom.evaluate(classifier, table),
        nystrom.evaluate(model, ROWS),
        nystrom.evaluate(model, [{"body": t, "stars": s} for t, s in ROWS], text="body", label="stars"),
    ):  # fmt: skip
        assert found == printed
    predicted = [each[0]["label"] for each in model.predict([text for text, _ in ROWS])]
    counts = np.zeros((2, 2), int)
    for (_, truth), guess in zip(ROWS, predicted):
        counts[found["labels"].index(truth), found["labels"].index(guess)] += 1
    assert found["confusion"] == counts.tolist()
    assert found["examples"] == 30


def test_rows_need_no_ids(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "id,text,label\n" + "".join(f"{i},{t},{s}\n" for i, (t, s) in enumerate(ROWS[:20]))
    (tmp_path / "rows.csv").write_text(rows)
    task = {"kind": "classification", "train": ["rows.csv"], "validation": ["rows.csv"],
            "columns": {"id": "id"}}  # fmt: skip
    run = nystrom.finetune(
        {"model": {"from": str(trained)}, "run_dir": "run"},
        task=task,
        training={"steps": 1, "epochs": None, "batch_size": 2},
    )
    model = nystrom.load(run)
    from_rows = nystrom.evaluate(model, ROWS[:20])
    assert from_rows["accuracy"] == nystrom.evaluate(model, "rows.csv")["accuracy"]


def test_a_tagger_is_evaluated_on_a_file_without_columns(trained, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.conll").write_text("the O\nsea B-PLACE\n\nold O\nmen B-WHO\n")
    run = nystrom.finetune(
        {"model": {"from": str(trained)}, "run_dir": "run"},
        task={"kind": "tokens", "train": ["words.conll"], "validation": ["words.conll"]},
        training={"steps": 1, "epochs": None, "batch_size": 2},
    )
    assert nystrom.evaluate(run, "words.conll")["examples"] == 2
    rows = [{"words": ["the", "sea"], "tags": ["O", "B-PLACE"]}]
    assert nystrom.evaluate(run, rows, text="words")["examples"] == 1
    with pytest.raises(nystrom.InputError, match=r"task\.columns\.text 'words' is no number"):
        nystrom.evaluate(run, "words.conll", text="words")
    # Rows of words are predicted as those of a file.
    words = [["the", "sea"], ["old", "men", "sang"]]
    lines = [json.dumps({"tokens": row}) + "\n" for row in words]
    (tmp_path / "words.jsonl").write_text("".join(lines))
    printed = program.run("predict", "run", "words.jsonl", "--json", "--quiet").splitlines()
    tagger = run.load()
    assert tagger.predict(words) == [json.loads(line) for line in printed]
    polars = pytest.importorskip("polars")
    assert tagger.predict(polars.DataFrame({"words": words})["words"]) == tagger.predict(words)
    for wrong in ([["the"], []], [["the", ""]], [["the"], "sea"]):
        with pytest.raises((nystrom.InputError, TypeError), match=r"texts\["):
            tagger.predict(wrong)


def test_a_masked_language_model_is_evaluated_on_texts(trained, model, program, tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(CORPUS))
    printed = program.run("evaluate", trained, "--text", tmp_path / "text.txt", "--json")
    assert nystrom.evaluate(model, CORPUS) == json.loads(printed)
    assert nystrom.evaluate(trained, tmp_path / "text.txt") == json.loads(printed)
    # The section data has the name of an argument.
    shorter = nystrom.evaluate(model, CORPUS, **{"data.sequence_length": 8})
    assert shorter != json.loads(printed)
    with pytest.raises(nystrom.InputError, match="unknown key 'data.sequence_lengths'"):
        nystrom.evaluate(model, CORPUS, **{"data.sequence_lengths": 8})


def test_a_masked_language_model_is_asked_by_minimal_pairs(model, tmp_path):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        file.write_text(json.dumps({"sentence_good": CORPUS[0], "sentence_bad": CORPUS[0]}))
    one = nystrom.evaluate(model, minimal_pairs=files[0])
    assert (one["pairs"], one["accuracy"], one["ties"]) == (1, 0, 1)
    assert nystrom.evaluate(model, minimal_pairs=files)["pairs"] == 2
    files[0].write_text(json.dumps({"yes": CORPUS[0], "no": CORPUS[0]}))
    assert nystrom.evaluate(model, minimal_pairs=files[0], good="yes", bad="no") == one
    with pytest.raises(nystrom.InputError, match="minimal_pairs"):
        nystrom.evaluate(model, CORPUS, good="yes")


def test_changed_weights_are_evaluated(trained):
    model = nystrom.load(trained)
    before = nystrom.evaluate(model, CORPUS)["loss"]
    for value in model.parameters().values():
        value *= 0
    assert nystrom.evaluate(model, CORPUS)["loss"] != before


def test_features_pretrain_and_are_checked(tmp_path):
    draw = np.random.default_rng(1)
    for i in range(10):
        np.save(tmp_path / f"{i}.npy", draw.normal(size=(12, 4)) + draw.normal(size=4))
    config = {
        "model": {"hidden_size": 16, "num_hidden_layers": 1, "attention": {"num_landmarks": 4}},
        "task": {"kind": "features", "train": [f"{tmp_path}/*.npy"]},
        "training": {"epochs": 2, "batch_size": 2, "dtype": "f32"},
    }
    found = nystrom.check(config, pretraining=True, read_data=True)
    assert found["ok"] and found["data"][0] == "training: 9 samples with 108 rows, longest 12"
    run = nystrom.pretrain(config, run_dir=str(tmp_path / "run"), quiet=True)
    assert run.steps == 9
    model = run.load()
    assert model(features=np.zeros((2, 5, 4), np.float32))["logits"].shape == (2, 5, 4)
    with pytest.raises(nystrom.InputError, match="cannot be exported"):
        model.export(tmp_path / "out")


def test_files_of_features_have_a_result_for_each_sample(tmp_path):
    h5py = pytest.importorskip("h5py")
    draw = np.random.default_rng(1)
    for name, samples in (("many.h5", 8), ("one.h5", 1)):
        with h5py.File(tmp_path / name, "w") as file:
            file["features"] = draw.normal(size=(samples, 5, 4)).astype(np.float32)
            file["labels"] = np.arange(samples) % 3
    many, one = str(tmp_path / "many.h5"), str(tmp_path / "one.h5")
    config = {
        "model": {"hidden_size": 16, "num_hidden_layers": 1, "attention": {"num_landmarks": 4}},
        "task": {"kind": "features", "train": [many], "validation": [many]},
        "training": {"steps": 1, "batch_size": 2, "dtype": "f32"},
    }
    model = nystrom.finetune(config, run_dir=str(tmp_path / "run"), quiet=True).load()
    assert model.predict_proba(many).shape == (8, 3) and model.predict_proba(one).shape == (1, 3)
    assert len(model.predict(many)) == 8 and model.predict(one) == model.predict([one])
    assert model.predict([one, many, one]) == [*model.predict(one), *model.predict(many),
                                               *model.predict(one)]  # fmt: skip
    paths = [tmp_path / "one.h5", tmp_path / "many.h5"]
    assert model.predict(paths) == model.predict([one, many])
    assert model.predict(paths[1]) == model.predict(many)
    assert model.predict([]) == [] and model.predict_proba([]).shape == (0, 3)
    for more in ({"pairs": "x"}, {"choices": ["x", "y"]}):
        with pytest.raises(nystrom.InputError, match="the file's samples have no pair"):
            model.predict(one, **more)


def test_files_of_images_are_read(tmp_path):
    images = tmp_path / "b.bin"
    images.write_bytes(b"".join(bytes([at]) + bytes(range(256)) * 12 for at in range(3)))
    config = {
        "model": {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "max_position_embeddings": 1024,
            "attention": {"num_landmarks": 4},
        },
        "tokenizer": {"builtin": "bytes"},
        "task": {"recipe": "cifar10", "train": [str(images)], "validation": [str(images)]},
        "data": {"sequence_length": 1024},
        "training": {"steps": 1, "batch_size": 2, "dtype": "f32"},
    }
    model = nystrom.finetune(config, run_dir=str(tmp_path / "run"), quiet=True).load()
    assert model.predict_proba([str(images), str(images)]).shape == (6, 10)
    assert model.predict_proba(images).shape == (3, 10) and len(model.predict(str(images))) == 3
    with pytest.raises(nystrom.InputError, match="matches no file"):
        model.predict("no name of a file")


# https://github.com/dask/distributed/issues/1322
def test_a_command_ends_with_its_process(trained, tmp_path):
    script = """
        import subprocess, sys, nystrom
        class Told(subprocess.Popen):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                print(self.pid, flush=True)
        subprocess.Popen = Told
        nystrom.evaluate(sys.argv[1], ["the sea was calm and old ships sailed home"] * 300_000)
    """
    caller = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(trained)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    stat = Path("/proc", caller.stdout.readline().strip(), "stat")

    def works() -> bool:
        try:
            return ") Z" not in stat.read_text()
        except OSError:
            return False

    time.sleep(1)
    assert works()
    caller.kill()
    caller.communicate()
    deadline = time.monotonic() + 10
    while works() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not works()


def test_vectors_are_evaluated_by_pairs_and_classes(model):
    pairs = [(a, b, len(set(a.split()) & set(b.split()))) for a, b in zip(CORPUS, CORPUS[1:])]
    found = nystrom.evaluate(model, pairs=pairs)
    assert found["pairs"] == 19 and -1 <= found["spearman"] <= 1
    found = nystrom.evaluate(model, classify=ROWS[:20], test=ROWS[20:])
    assert 0 <= found["accuracy"] <= 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "got nothing; give one of data, pairs, retrieval, classify, minimal_pairs"),
        ({"minimal_pairs": "pairs.jsonl", "text": "good"}, "minimal_pairs reads files with col"),
        ({"minimal_pairs": []}, "minimal_pairs: got no files; name one or several"),
        ({"data": ROWS, "pairs": ROWS}, "got data and pairs; give one of"),
        ({"classify": ROWS}, "classify and test go together"),
        ({"data": "missing.tsv"}, "'missing.tsv' matches no file"),
    ],
)
def test_one_thing_is_evaluated(classifier, arguments, message):
    with pytest.raises(nystrom.InputError, match=message):
        nystrom.evaluate(classifier, **arguments)


def test_texts_are_searched(model, trained, program, tmp_path):
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS))
    printed = program.run("search", trained, tmp_path / "corpus.txt", CORPUS[3], "--json")
    expected = json.loads(printed)["neighbours"]
    assert nystrom.search(model, CORPUS, CORPUS[3]) == expected
    assert nystrom.search(trained, tmp_path / "corpus.txt", [CORPUS[3]]) == [expected]
    found = nystrom.search(model, model.encode(CORPUS), CORPUS[:2], texts=CORPUS, top_k=1)
    assert [each[0]["row"] for each in found] == [0, 1]
    assert found[1][0]["text"] == CORPUS[1]
    assert nystrom.search(model, CORPUS, []) == []


def test_vectors_may_be_a_list(model):
    vectors = model.encode(CORPUS)
    found = nystrom.search(model, vectors, CORPUS[:2])
    assert nystrom.search(model, list(vectors), CORPUS[:2]) == found
    assert nystrom.search(model, vectors.tolist(), CORPUS[:2]) == found
    wrong = vectors.astype(float)
    for value, message in ((1e300, "is too large for f32"), (np.nan, "is not finite")):
        wrong[3, 5] = value
        with pytest.raises(nystrom.InputError, match=f"corpus: number 5 of vector 3 {message}"):
            nystrom.search(model, wrong, "the sea")
    rows = {"text": [*CORPUS[:3], None], "vector": list(vectors[:4])}
    with pytest.raises(TypeError, match="corpus, row 3: got None"):
        nystrom.search(model, rows, "the sea", vectors="vector")


def test_a_text_may_name_a_temporary_folder(model):
    text = "see /tmp/nystrom-build/log and /tmp/nystrom-call-other/log"
    assert nystrom.search(model, [text, "ships"], "ships", top_k=2)[1]["text"] == text


@pytest.mark.parametrize("character", ["\x85", "\u2028", "\u2029"])
def test_a_text_may_have_ends_of_lines_of_unicode(model, character):
    text = f"the ship was{character}old"
    assert nystrom.search(model, [text], text, top_k=1)[0]["text"] == text


def test_vectors_are_real_and_whole_arrays(model):
    vectors = model.encode(CORPUS)
    for wrong in (vectors.astype(complex), np.ma.masked_array(vectors)):
        with pytest.raises(nystrom.InputError, match="are complex|would lose its mask"):
            nystrom.search(model, wrong, "ships")
    with pytest.raises(nystrom.InputError, match="would lose its mask"):
        model(np.ma.masked_array([[2, 5, 6, 3]], mask=[[0, 1, 0, 0]]))


def test_a_folder_is_no_corpus(model, tmp_path):
    with pytest.raises(nystrom.InputError, match="corpus: .* is a folder; expected texts, or the"):
        nystrom.search(model, tmp_path, "the sea")
    with pytest.raises(nystrom.InputError, match="got an empty path"):
        nystrom.load("")


@pytest.mark.parametrize(
    "vectors, message",
    [
        ([[1, 2], [1]], "its vectors are no array"),
        ([[1, 2], None], "its vectors are no array"),
        ([[1, 2], [1j, 2]], "its vectors are complex"),
        (list(np.ma.masked_array(np.ones((2, 2)), mask=[[0, 1], [0, 0]])), "would lose its mask"),
    ],
)
def test_vectors_of_a_column_are_whole(model, vectors, message):
    rows = {"text": CORPUS[:2], "vector": vectors}
    with pytest.raises(nystrom.InputError, match=message):
        nystrom.search(model, rows, "the sea", vectors="vector")


def test_a_query_may_look_like_anything(model):
    for query in ("-", "--top-k", "a/b.txt", "[MASK]"):
        assert len(nystrom.search(model, CORPUS, query, top_k=2)) == 2


def test_vectors_of_parquet_are_searched(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": CORPUS, "vector": model.encode(CORPUS).tolist()})
    parquet.write_table(table, tmp_path / "vectors.parquet")
    found = nystrom.search(model, tmp_path / "vectors.parquet", CORPUS[5], vectors="vector")
    assert found[0]["row"] == 5 and found[0]["text"] == CORPUS[5]


@pytest.fixture(scope="module")
def exact(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with exact attention."""
    folder = tmp_path_factory.mktemp("exact") / "model"
    nystrom.load(trained).export(folder, softmax=True)
    return folder


def test_a_model_is_converted(exact, tmp_path):
    found = nystrom.convert(exact, tmp_path / "longer", landmarks=4, length=64, keep_exact=[0],
                            texts=CORPUS)  # fmt: skip
    assert (found["landmarks"], found["positions"]) == (4, 64)
    assert found["text"]["tokens"] > 0
    assert nystrom.load(tmp_path / "longer").config["max_position_embeddings"] == 64


def test_layers_are_an_array_and_the_section_model_is_one_of_the_sections(exact, tmp_path):
    options = {"attention": {"inverse": "identity"}}
    nystrom.convert(exact, tmp_path / "one", landmarks=4, keep_exact=np.array([0]), model=options)
    attention = nystrom.load(tmp_path / "one").config["nystrom"]["attention"]
    assert (attention["layers"], attention["inverse"]) == ({"0": "softmax"}, "identity")
    nystrom.convert(exact, tmp_path / "none", landmarks=4, keep_exact=np.array([], int))
    assert nystrom.approximation(tmp_path / "one", CORPUS, model=options)
    assert nystrom.evaluate(tmp_path / "one", CORPUS, model=options)


def test_a_model_is_extended(trained, tmp_path):
    found = nystrom.extend(trained, tmp_path / "longer", length=64, landmarks=8)
    assert found == {
        "positions": 64,
        "landmarks": 8,
        "parameters": nystrom.load(tmp_path / "longer").num_parameters,
    }


def test_a_model_and_a_configuration_are_described(trained, model, config, program):
    assert nystrom.info(trained) == json.loads(program.run("info", trained, "--json"))
    assert nystrom.info(model)["parameters"] == model.num_parameters
    assert nystrom.info(config, model={"num_hidden_layers": 1})["memory"]


def test_a_configuration_is_checked(config):
    assert nystrom.check(config, read_data=True)["ok"]
    found = nystrom.check(config, training={"stepz": 3}, data={"sequence_length": 4})
    assert not found["ok"] and any("stepz" in each for each in found["errors"])
    wrong = nystrom.check(config, training={"steps": "12"})["errors"]
    assert wrong[0].startswith('training={"steps": "12"}: training.steps: got the text')


def test_attention_is_compared(model, tmp_path):
    found = nystrom.approximation(model, CORPUS, sequences=1, output=tmp_path / "study")
    assert found and list((tmp_path / "study").glob("*.svg"))


def test_wrong_options_are_in_the_words_of_python(trained, tmp_path):
    with pytest.raises(nystrom.InputError) as raised:
        nystrom.extend(trained, tmp_path / "x", length=0)
    assert "--" not in str(raised.value) and "length" in str(raised.value)
    with pytest.raises(TypeError, match="top_k: got False, expected a whole number"):
        nystrom.search(trained, CORPUS, "ships", top_k=False)
    with pytest.raises(TypeError, match="threads: got None, expected a whole number"):
        nystrom.pretrain({}, threads=None)


# https://github.com/tensorflow/tensorflow/pull/21662
def test_paths_may_be_bytes(model, tmp_path):
    nystrom.approximation(model, CORPUS, output=str(tmp_path / "out").encode())
    nystrom.extend(model, str(tmp_path / "longer").encode(), length=48)
    model.save(str(tmp_path / "saved").encode())
    assert nystrom.load(tmp_path / "saved").num_parameters == model.num_parameters
    assert sorted(path.name for path in tmp_path.iterdir()) == ["longer", "out", "saved"]
    with pytest.raises(nystrom.InputError, match="/none/queries.jsonl: no such file"):
        nystrom.evaluate(model, retrieval=str(tmp_path / "none").encode())


@pytest.mark.parametrize(
    "call",
    [
        lambda model: nystrom.info("half \ud800"),
        lambda model: nystrom.info(model, model={"name": "half \ud800"}),
        lambda model: nystrom.evaluate(model, "half \ud800.txt"),
        lambda model: nystrom.extend(model, "half \ud800", length=48),
        lambda model: model.save("half \ud800"),
        lambda model: nystrom.pretrain("half \ud800"),
        lambda model: nystrom.pretrain({"run_dir": "half \ud800"}),
    ],
)
def test_names_with_half_a_character_are_refused(call, model):
    with pytest.raises(nystrom.InputError, match=r"half \\ud800.* is no name "):
        call(model)


# https://github.com/SWI-Prolog/swipl-devel/issues/78
def test_the_home_folder_is_written_out(model, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: model.save("~/model"),
        lambda: model.export(Path("~/model")),
        lambda: nystrom.extend(trained, "~/model", length=48),
        lambda: nystrom.convert(trained, "~"),
        lambda: nystrom.approximation(model, CORPUS, output="~/pictures"),
    ):
        with pytest.raises(nystrom.InputError, match="only a shell replaces ~"):
            call()
    assert not list(tmp_path.iterdir())


def test_what_is_no_number_is_told(model, classifier, config):
    for call in (
        lambda: model.encode("sea", dimensions="8"),
        lambda: model.fill_mask("the [MASK]", top_k=1.5),
        lambda: model.tokenizer.id_to_token("7"),
        lambda: nystrom.load(classifier).predict("sea", threshold="0.5"),
        lambda: nystrom.pretrain(config, threads="2"),
        lambda: nystrom.search(model, CORPUS, "sea", top_k=2.0),
        lambda: model.encode("sea", dimensions=True),
        lambda: model.encode("sea", batch_size=True),
        lambda: model.fill_mask("the [MASK]", top_k=True),
        lambda: model.tokenizer("sea", max_length=True),
        lambda: nystrom.load(classifier).predict("sea", threshold=False),
        lambda: nystrom.load(classifier).predict_proba("sea", batch_size=True),
        lambda: nystrom.pretrain(config, threads=True),
        lambda: nystrom.search(model, CORPUS, "sea", top_k=True),
    ):
        with pytest.raises(TypeError, match="^[a-z_]+: got .*, expected a (whole )?number$"):
            call()


# https://github.com/facebookresearch/PyTorch-BigGraph/pull/6
def test_a_command_has_the_threads_of_its_call(trained, tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\necho "{\\"threads\\": $OMP_NUM_THREADS}"\n')
    program.chmod(0o755)
    monkeypatch.setattr("nystrom._program.PROGRAM", program)
    before = nystrom.num_threads()
    for count in (before + 1, before):
        nystrom.set_num_threads(count)
        assert nystrom.info(trained) == {"threads": count}


def test_messages_go_to_stderr(trained, capsys):
    nystrom.evaluate(trained, CORPUS, quiet=False)
    assert "sequence" in capsys.readouterr().err

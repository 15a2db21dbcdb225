"""Models in Python: the same results as the program's, bit for bit, and arrays without copies."""

import json

import numpy as np
import pytest

import nystrom
from nystrom.errors import in_words_of_python
import tensor_files
from conftest import lines

MASKED = ["the old [MASK] sailed home", "the [MASK] was [MASK]", "men sang while [MASK]"]


@pytest.fixture
def batch(model: nystrom.Model) -> dict[str, np.ndarray]:
    """Two rows of ids, the second of them padded."""
    ids = np.full((2, 12), 0, np.int64)
    mask = np.zeros((2, 12), np.int64)
    for row, text in enumerate(["the sea was calm and old", "pale stars"]):
        tokens = model.tokenizer.encode(text).ids[:12]
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return {"input_ids": ids, "attention_mask": mask}


def test_masks_are_filled_as_by_the_program(model, trained, program):
    printed = program.run("predict", trained, *MASKED, "--json", "--top-k", 3)
    assert model.fill_mask(MASKED, top_k=3) == [json.loads(line) for line in printed.splitlines()]


def test_one_text_gives_one_result(model):
    fills = model.fill_mask(MASKED[0], top_k=2)
    assert [sorted(fill) for fill in fills] == [["score", "sequence", "token", "token_str"]] * 2
    assert fills == model.fill_mask(MASKED[:1], top_k=2)[0]


def test_classes_are_predicted_as_by_the_program(classifier, program):
    texts = lines(5, seed=3)
    printed = program.run("predict", classifier, *texts, "--json")
    predictions = nystrom.load(classifier).predict(texts)
    assert predictions == [json.loads(line) for line in printed.splitlines()]
    assert {each["label"] for each in predictions[0]} == {"calm", "rough"}


def test_a_list_of_texts_needs_lists_beside_it(classifier):
    model = nystrom.load(classifier)
    with pytest.raises(nystrom.InputError, match="pairs: expected a list, as `texts` is one"):
        model.predict(["a", "b"], "ok")
    for choices in ("ab", ["yes", "no"]):
        with pytest.raises(nystrom.InputError, match="choices: expected a list of choices"):
            model.predict(["a", "b"], choices=choices)


def test_columns_with_other_indexes_are_no_pairs(classifier):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": ["the sea", "old men"], "b": ["calm", "stars"]})
    model = nystrom.load(classifier)
    with pytest.raises(nystrom.InputError, match="leave pairs out"):
        model.predict(frame["a"], frame["b"])
    with pytest.raises(nystrom.InputError, match="'texts' and 'pairs' have different indexes"):
        model.predict(frame["a"], frame["b"].sort_values(ascending=False))


def test_vectors_have_dimensions(model):
    with pytest.raises(nystrom.InputError, match="0 dimensions: choose at least 1"):
        model.encode(["a"], dimensions=0)


def test_predictions_do_not_depend_on_the_batch(classifier):
    texts, model = lines(40, seed=3), nystrom.load(classifier)
    for alone, together in zip(map(model.predict, texts), model.predict(texts, batch_size=7)):
        assert [each["label"] for each in alone] == [each["label"] for each in together]
        scores = [each["score"] for each in together]
        assert [each["score"] for each in alone] == pytest.approx(scores, abs=1e-5)


def test_the_forward_pass_is_the_programs(model, trained, batch, program, tmp_path):
    batch["labels"] = np.where(batch["attention_mask"] > 0, batch["input_ids"], -100)
    tensor_files.write(tmp_path / "in.safetensors", batch)
    program.run("forward", trained, "--input", tmp_path / "in.safetensors",
                "--output", tmp_path / "out.safetensors")  # fmt: skip
    expected, outputs = tensor_files.read(tmp_path / "out.safetensors"), model(**batch)
    assert outputs.keys() == expected.keys() == {"last_hidden_state", "logits", "loss"}
    for name, value in expected.items():
        np.testing.assert_array_equal(outputs[name], value, strict=True)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint8, bool])
def test_masks_may_have_any_type_of_whole_numbers(model, batch, kind):
    mask = batch["attention_mask"].astype(kind)
    np.testing.assert_array_equal(
        model(batch["input_ids"], mask)["logits"], model(**batch)["logits"]
    )


def test_lists_are_inputs_too(model):
    assert model([[2, 7, 3]])["logits"].shape == (1, 3, 36)


def test_strided_inputs_are_read_in_place(model, batch):
    wide = np.repeat(batch["input_ids"], 2, axis=1)
    np.testing.assert_array_equal(
        model(wide[:, ::2])["logits"], model(batch["input_ids"])["logits"]
    )


def test_vectors_are_the_means_of_the_hidden_states(model, batch):
    hidden = model(**batch)["last_hidden_state"]
    weights = batch["attention_mask"][:, :, None]
    expected = (hidden * weights).sum(1) / weights.sum(1)
    vectors = model.encode(["the sea was calm and old", "pale stars"], normalize=False)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(
        model.encode("pale stars", pooling="cls", normalize=False), hidden[1, 0], atol=1e-5
    )


def test_vectors_come_in_the_order_of_the_texts(model):
    texts = lines(70, seed=4)
    together = model.encode(texts, batch_size=16)
    alone = np.stack([model.encode(text) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert model.encode([]).shape == (0, 32)


def test_vectors_are_those_of_the_program(model, trained, program, tmp_path):
    texts = [*lines(20, seed=5), " ".join(lines(30, seed=6))]  # the last is read in windows
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    for options, arguments in [
        ({}, []),
        ({"pooling": "cls", "normalize": False}, ["--pooling=cls", "--no-normalize"]),
        ({"dimensions": 8}, ["--dimensions=8"]),
    ]:
        vectors = tmp_path / "vectors.npy"
        vectors.unlink(missing_ok=True)
        program.run("embed", trained, tmp_path / "texts.txt", "--output", vectors, *arguments)
        np.testing.assert_array_equal(model.encode(texts, **options), np.load(vectors))


def test_parameters_are_the_models_own_memory(trained):
    model = nystrom.load(trained)
    before = model([[2, 7, 3]])["logits"]
    parameters = model.parameters()
    name = "nystromformer.embeddings.word_embeddings.weight"
    assert np.shares_memory(parameters[name], model.parameters()[name])
    parameters[name][7] += 1
    assert not np.array_equal(model([[2, 7, 3]])["logits"], before)
    assert sum(value.size for value in parameters.values()) == model.num_parameters


def test_arrays_outlive_the_model(trained):
    model = nystrom.load(trained)
    logits, parameters = model([[2, 7, 3]])["logits"], model.parameters()
    copies = logits.copy(), {name: value.copy() for name, value in parameters.items()}
    del model
    nystrom.load(trained)([[2] * 20])
    np.testing.assert_array_equal(logits, copies[0])
    for name, value in parameters.items():
        np.testing.assert_array_equal(value, copies[1][name])


def test_bf16_parameters_have_dlpack_alone(trained):
    parameters = nystrom.load(trained, dtype="bf16").parameters()
    assert all(hasattr(value, "__dlpack__") for value in parameters.values())


def test_an_export_computes_the_same(model, trained, tmp_path):
    files = model.export(tmp_path / "exported", sentence_transformers="mean")
    assert {"config.json", "model.safetensors", "modules.json"} <= set(files)
    exported = nystrom.load(tmp_path / "exported")
    assert exported.fill_mask(MASKED) == model.fill_mask(MASKED)


def test_options_of_the_model_are_overridden(trained):
    model = nystrom.load(trained, model={"attention": {"num_landmarks": 2}})
    assert model.config["num_landmarks"] == 2


def test_tokens_know_their_characters(model):
    text = "the pale  sea wás calm"
    encoding = model.tokenizer.encode(text)
    assert len(encoding) == len(encoding.ids) == len(encoding.offsets) == len(encoding.type_ids)
    assert encoding.offsets[0] == encoding.offsets[-1] == (0, 0)
    words = [text[begin:end].strip() for begin, end in encoding.offsets[1:-1]]
    assert "".join(words) == text.replace(" ", "")
    assert model.tokenizer.encode(text, add_special_tokens=False).ids == encoding.ids[1:-1]


def test_a_tokenizer_decodes_what_it_encoded(model):
    tokenizer = model.tokenizer
    ids = tokenizer.encode("old ships [MASK]", parse_special_tokens=True).ids
    assert tokenizer.decode(ids) == "old ships"
    assert tokenizer.token_to_id("[MASK]") in ids
    assert tokenizer.id_to_token(ids[0]) == "[CLS]"
    with pytest.raises(TypeError, match="expected the ids of one text; of several"):
        tokenizer.decode([ids, ids])
    assert tokenizer.token_to_id("xyz") is None
    assert len(tokenizer) == tokenizer.vocab_size == 36


# ---- Errors -------------------------------------------------------------------------------------


def test_messages_are_the_programs(trained, classifier, program):
    missing = trained.parent / "missing"
    for call, command in [
        (lambda: nystrom.load(missing), ["info", missing]),
        (lambda: nystrom.load(classifier).predict("the sea", "old"),
         ["predict", classifier, "the sea", "--pair", "old"]),
        (lambda: nystrom.load(classifier).predict("the sea", choices=["a", "b"]),
         ["predict", classifier, "the sea", "--choice", "a", "--choice", "b"]),
    ]:  # fmt: skip
        with pytest.raises(nystrom.InputError) as raised:
            call()
        assert str(raised.value) == in_words_of_python(program.error(*command))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m: m.fill_mask("no mask"), "'no mask': the text has no [MASK]; write it where a word is to be filled in"),
        (lambda m: m.fill_mask("[MASK]", top_k=99), "top_k 99; expected 1 … 36"),
        (lambda m: m.fill_mask(["[MASK]"], batch_size=0), "batch_size 0; expected at least 1"),
        (lambda m: m.encode("sea", pooling="median"), "pooling 'median'; expected mean, cls, landmarks, max, mean_sqrt_len_tokens, weightedmean, lasttoken"),
        (lambda m: m.encode("sea", max_length=0), "max_length 0; expected from 7 to the 32 tokens that the model takes"),
        (lambda m: m.encode("sea", max_length=10**6), "max_length 1000000; expected from 7 to the 32 tokens that the model takes"),
        (lambda m: m.encode("sea", prompt="title"), "prompt 'title'; expected query, document, none"),
        (lambda m: m([[99]]), "input_ids[0, 0] is 99; expected 0 … 35"),
        (lambda m: m(), "the input has no tensor input_ids"),
        (lambda m: m([[2]], labels=[[2.5]]), "labels is f64; expected i64, i32 or u8"),
        (lambda m: m([[2]], atention_mask=[[1]]), "the model has no use for the input tensor atention_mask; did you mean 'attention_mask'?; it takes attention_mask, input_ids, labels, token_type_ids"),
        (lambda m: m(np.zeros((1, 1), np.int16)), "input_ids: an array has elements of 16 bits that nystrom does not know; expected float32, float64, float16, bfloat16, int64, int32, uint8 or bool"),
        (lambda m: m(np.array([[2, 7]])[:, ::-1]), "input_ids: an array has a negative stride; pass numpy.ascontiguousarray(…)"),
        (lambda m: m.export("/dev/null/x"), "/dev/null: is no folder; name another place"),
        (lambda m: m.predict(["a", "b"], pairs=["c"]), "pairs: got 1, expected 2, one for each text"),
        (lambda m: nystrom.load(m.path, dtype="f8"), "dtype 'f8'; expected bf16, f16, f32, f64"),
        (lambda m: nystrom.set_num_threads(0), "n 0; expected at least 1"),
        (lambda m: nystrom.load(m.path, device="gpu"), "device 'gpu': unknown device; expected cpu, cuda or cuda:N"),
    ],
)  # fmt: skip
def test_wrong_input_is_an_input_error(model, call, message):
    with pytest.raises(nystrom.InputError) as raised:
        call(model)
    assert str(raised.value) == message


def test_a_masked_language_model_predicts_no_task(model):
    with pytest.raises(nystrom.InputError, match="which does no task; finetune makes a model"):
        model.predict("the sea")


def test_an_input_error_is_a_value_error():
    assert issubclass(nystrom.InputError, ValueError)
    assert issubclass(nystrom.InternalError, RuntimeError)
    assert issubclass(nystrom.Interrupted, KeyboardInterrupt)


def test_paths_hold_no_nul(model):
    for call in (nystrom.load, nystrom.info, nystrom.pretrain, model.save, model.export):
        with pytest.raises(nystrom.InputError, match="holds the character NUL"):
            call(f"{model.path}\0x")


def test_texts_hold_no_nul(model, classifier):
    for call in (
        lambda: model.encode(["the sea", "a\0b"]),
        lambda: model.tokenizer(["the sea", "a\0b"]),
        lambda: nystrom.load(classifier).predict(["the sea", "a\0b"]),
    ):
        with pytest.raises(nystrom.InputError, match=r"texts\[1\]: the text holds the charac"):
            call()


def test_names_of_files_are_no_texts(model, classifier, tmp_path):
    (tmp_path / "a.txt").write_text("the sea")
    name = str(tmp_path / "a.txt")
    loaded = nystrom.load(classifier)
    for call in (model.encode, loaded.predict, loaded.predict_proba):
        for texts in (name, [name, name]):
            with pytest.raises(nystrom.InputError, match="names a file; give the text in it"):
                call(texts)
        assert len(call([name, "the sea"])) == 2
    with pytest.raises(TypeError, match=r"give the text in it: value\.read_text\(\)"):
        model.encode([tmp_path / "a.txt"])


def test_padding_does_not_cut(model):
    text = "the sea was calm and old ships sailed home"
    options = {"padding": "max_length", "truncation": False}
    with pytest.raises(nystrom.InputError, match="more than max_length 5"):
        model.tokenizer(text, max_length=5, **options)
    assert model.tokenizer(text, max_length=32, **options)["input_ids"].shape == (1, 32)
    with pytest.raises(nystrom.InputError, match="truncation 'only_first': expected True or False"):
        model.tokenizer(text, truncation="only_first")

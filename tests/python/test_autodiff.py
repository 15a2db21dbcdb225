"""The autodiff in Python: every op, gradients, layers and the optimizer."""

import ctypes
import os
import re
from pathlib import Path

import numpy as np
import pytest

import nystrom
from conftest import ROOT
from nystrom import nn, ops, optim


def test_the_sine_is_learned_in_twenty_lines():
    x = np.linspace(-1, 1, 64, dtype=np.float32)[:, None]
    target = np.sin(3 * x)
    parameters = nn.ParameterStore()
    root = parameters.scope()
    hidden, output = nn.Linear(root / "hidden", 1, 32), nn.Linear(root / "output", 32, 1)
    parameters.allocate()
    parameters.initialise(seed=1, standard_deviation=1)
    optimizer = optim.AdamW(parameters, weight_decay=1e-4)
    for step in range(1000):
        with nystrom.Tape() as tape:
            loss = ops.mean_squared_error(output(ops.tanh(hidden(x))), target)
            tape.backward(loss)
        optimizer.step(learning_rate=0.02)
        optimizer.zero_gradients()
    assert loss.item() < 1e-3


def test_every_op_is_there():
    text = (ROOT / "autograd" / "ops.h").read_text()
    declared = set(re.findall(r"^(?:Var|Tensor) (\w+)\(", text, re.MULTILINE))
    declared -= {"operator", "linear_of_data"}  # the latter is linear for tensors without a gradient
    assert declared == {name for name in dir(ops) if not name.startswith("_")}


# ---- Arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("writeable", [False, True])
def test_a_sliding_window_is_multiplied(writeable):
    values = np.arange(6, dtype=np.float32)
    window = np.lib.stride_tricks.sliding_window_view(values, 3, writeable=writeable)
    weight = np.eye(4, dtype=np.float32)
    assert np.array_equal(ops.matmul(weight, window).numpy(), window)
    assert np.array_equal(ops.matmul(window, weight[:3, :3]).numpy(), window)


def test_a_tensor_shares_the_memory_of_its_array():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = nystrom.Tensor(array)
    assert np.shares_memory(tensor.numpy(), array)
    array[1, 2] = 9
    assert tensor.numpy()[1, 2] == 9
    assert tensor.shape == (2, 3) and tensor.ndim == 2 and tensor.dtype == "f32"
    assert repr(tensor) == "nystrom.Tensor([2, 3], f32)"


def test_views_take_no_memory():
    def memory() -> int:
        status = Path("/proc/self/statm").read_text().split()
        return int(status[1]) * os.sysconf("SC_PAGE_SIZE")

    array = np.ones(25_000_000, np.float32)  # 100 MB
    before = memory()
    views = [nystrom.Tensor(array, requires_grad=False).numpy() for _ in range(10)]
    assert all(np.shares_memory(view, array) for view in views)
    assert memory() - before < 10_000_000


def test_masked_arrays_are_refused():
    masked = np.ma.masked_array(np.ones(3, np.float32), mask=[False, True, False])
    with pytest.raises(nystrom.InputError, match="lose its mask"):
        nystrom.Tensor(masked)
    with pytest.raises((nystrom.InputError, TypeError)):
        ops.exp(masked)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.uint8(2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_take_the_type_of_a_tensor(number, dtype):
    x = np.array([1.0, 3.0], dtype)
    tensor = nystrom.Tensor(x)
    for made, expected in (
        (tensor + number, x + 2),
        (tensor - number, x - 2),
        (tensor * number, x * 2),
        (tensor / number, x / 2),
        (number + tensor, 2 + x),
        (number - tensor, 2 - x),
        (number * tensor, 2 * x),
    ):
        np.testing.assert_array_equal(made.numpy(), expected)
        assert made.numpy().dtype == dtype


def test_tensors_are_not_compared():
    tensor = nystrom.Tensor(np.array([1.0, 0.0]))
    for compare in (lambda: tensor == 1, lambda: tensor != tensor, lambda: tensor < 2.0):
        with pytest.raises(TypeError, match="compare their arrays"):
            compare()
    with pytest.raises(TypeError, match="several elements"):
        bool(tensor)
    assert nystrom.Tensor(np.ones(1)) and not nystrom.Tensor(np.zeros(1))
    assert {tensor: 1}[tensor] == 1  # known by identity


def test_strided_arrays_are_shared_too():
    array = np.arange(12, dtype=np.float64).reshape(3, 4)
    assert np.shares_memory(nystrom.Tensor(array.T[:, ::2]).numpy(), array)


def read_only(folder: Path) -> "dict[str, np.ndarray]":
    """Arrays whose memory must not be written to; the process ends if one writes to the last."""
    flagged = np.arange(4, dtype=np.float32)
    flagged.flags.writeable = False
    flagged.tofile(folder / "values")
    return {
        "flag": flagged,
        "bytes": np.frombuffer(flagged.tobytes(), np.float32),
        "broadcast": np.broadcast_to(np.ones(1), (4,)),
        "mapped file": np.memmap(folder / "values", np.float32, "r"),
    }


@pytest.mark.parametrize("kind", ["flag", "bytes", "broadcast", "mapped file"])
def test_read_only_arrays_stay_read_only(kind, tmp_path):
    array = read_only(tmp_path)[kind]
    for requires_grad in (False, True):
        tensor = nystrom.Tensor(array, requires_grad=requires_grad)
        reshaped = ops.reshape(tensor, [2, 2]) if kind != "broadcast" else tensor.detach()
        for view in (tensor.numpy(), np.asarray(reshaped), np.from_dlpack(reshaped)):
            assert np.shares_memory(view, array)
            with pytest.raises(ValueError, match="read-only"):
                view[0] = 5
        with pytest.raises(BufferError, match="read-only"):
            tensor.__dlpack__()
        copy = np.array(tensor)
        copy[0] = 5
        assert array[0] != 5


def test_computing_with_read_only_arrays_leaves_them_as_they_are(tmp_path):
    for array in read_only(tmp_path).values():
        kept = array.copy()
        with nystrom.Tape() as tape:
            leaf = nystrom.Tensor(array, requires_grad=True)
            tape.backward(ops.cross_entropy(ops.reshape(leaf * 1.0, [2, 2]), np.array([1, 0])))
            tape.backward(leaf, seed=array)
        np.testing.assert_array_equal(array, kept)


def test_text_in_bytes_is_read_only_too():
    tensor = nystrom.Tensor(b"abc")
    assert tensor.dtype == "u8" and not tensor.numpy().flags.writeable


def test_np_array_copies_and_np_asarray_shares():
    array = np.arange(4, dtype=np.float32)
    tensor = nystrom.Tensor(array)
    for copy in (np.array(tensor), np.array(tensor, np.float32), np.asarray(tensor, np.float64),
                 tensor.__array__(copy=True), np.from_dlpack(tensor, copy=True)):  # fmt: skip
        copy[:] = 7
        np.testing.assert_array_equal(array, [0, 1, 2, 3])
    for view in (np.asarray(tensor), np.array(tensor, copy=False), np.asarray(tensor, np.float32),
                 tensor.__array__(copy=None), np.from_dlpack(tensor)):  # fmt: skip
        assert np.shares_memory(view, array)
    with pytest.raises(ValueError, match="copy"):
        np.array(tensor, np.float64, copy=False)


def test_numpy_has_no_bf16():
    half = ops.cast(np.ones(2, np.float32), "bf16")
    with pytest.raises(nystrom.InputError, match="convert the tensor first: nystrom.ops.cast"):
        np.asarray(half)


def test_an_array_lives_as_long_as_its_tensor():
    tensor = nystrom.Tensor(np.full(1000, 7, np.float32))
    np.full(1000, 8, np.float32)
    assert (tensor.numpy() == 7).all()


def test_tensors_and_arrays_mix():
    x, y = np.ones(3, np.float32), nystrom.Tensor(np.full(3, 2, np.float32))
    for mixed in (x + y, y + x, 1 + y, y + 1, 5 - y, y / 2 + x + x):
        np.testing.assert_array_equal(np.asarray(mixed), 3)
    np.testing.assert_array_equal(np.from_dlpack(y), y.numpy())


# ---- Gradients ----------------------------------------------------------------------------------


def gradient_check(function, *arrays: np.ndarray) -> None:
    """Compares the gradient of a sum of the results with differences, in float64."""
    leaves = [nystrom.Tensor(array, requires_grad=True) for array in arrays]
    with nystrom.Tape() as tape:
        output = function(*leaves)
        weights = np.random.default_rng(2).normal(size=output.shape)
        tape.backward(ops.sum(output * weights))

    def value() -> float:
        return float((np.asarray(function(*leaves)) * weights).sum())

    for array, leaf in zip(arrays, leaves):
        gradient, expected = leaf.grad.numpy(), np.zeros_like(array)
        for place in np.ndindex(array.shape):
            kept = array[place]
            array[place] = kept + 1e-6
            above = value()
            array[place] = kept - 1e-6
            expected[place] = (above - value()) / 2e-6
            array[place] = kept
        np.testing.assert_allclose(gradient, expected, atol=1e-6)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape)


IDS = np.array([0, 2, 2, 1])
ANGLES = np.arange(6.0).reshape(3, 2)
TURNS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], 2)


def nystrom_attention(hidden, qkv, query, key, query_bias, key_bias, taps):
    projections = [query, key], [query_bias, key_bias]
    return ops.nystrom_attention(hidden, qkv, *projections, taps, heads=2, landmarks=2, scale=0.5)


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda a, b: a * b + a / (b * b + 1) - b, [(2, 3), (3,)]),
        (lambda a: 2 - 3 * -a, [(4,)]),
        (lambda a, b: a @ b, [(2, 3, 4), (4, 2)]),
        (lambda a: ops.affine(a, 2, shift=1), [(3,)]),
        (lambda a: ops.exp(ops.square(a)), [(3,)]),
        (lambda a: ops.gelu_erf(a) + ops.gelu_tanh(a) + ops.tanh(a) + ops.relu(a) + ops.silu(a), [(5,)]),
        (lambda a: ops.softmax(a), [(2, 5)]),
        (lambda x, w, b: ops.linear(x, w, b), [(2, 3), (4, 3), (4,)]),
        (lambda x, w: ops.linear_unrounded(x, w), [(2, 3), (4, 3)]),
        (lambda x, r: ops.residual_dropout(x, r), [(2, 3), (2, 3)]),
        (lambda x, v, w: ops.feed_forward("gelu_erf", x, v, None, w), [(2, 3), (5, 3), (4, 5)]),
        (lambda x, w: ops.gated_linear("gelu_erf", x, w), [(2, 6), (4, 3)]),
        (lambda q, k, v: ops.attention(q, k, v, reach=1), [(1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4)]),
        (lambda x: ops.rotate(x, TURNS), [(1, 2, 3, 4)]),
        (lambda x: ops.rotate(x, TURNS, heads=1), [(1, 2, 3, 4)]),
        (lambda x, v, w, b, c: ops.joint_linear(x, [v, w], [b, c]), [(2, 3), (4, 3), (2, 3), (4,), (2,)]),
        (nystrom_attention, [(1, 6, 4), (1, 6, 12), (4, 4), (4, 4), (4,), (4,), (2, 3)]),
        (lambda q, k, v: ops.attention(q, k, v, scale=0.5), [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)]),
        (lambda x: ops.segment_means(x, 2), [(1, 5, 3)]),
        (lambda a: ops.pseudo_inverse_iterative(ops.softmax(a), 6), [(3, 3)]),
        (lambda a: ops.pseudo_inverse_exact(a), [(3, 3)]),
        (lambda x, w: ops.sequence_conv(x, w), [(1, 6, 2, 3), (2, 3)]),
        (lambda x, g, b: ops.layer_norm(x, g, b, 1e-5), [(2, 6), (6,), (6,)]),
        (lambda x, r, g, b: ops.residual_layer_norm(x, r, g, b, 1e-5), [(2, 6), (2, 6), (6,), (6,)]),
        (lambda t: ops.embedding(t, IDS), [(3, 2)]),
        (lambda t: ops.gather_rows(t, IDS), [(3, 2)]),
        (lambda x: ops.transpose(ops.reshape(x, [3, 4]), 0, 1), [(2, 6)]),
        (lambda x: ops.slice(x, 1, 1, 3), [(2, 4)]),
        (lambda a, b: ops.concat([a, b], 0), [(2, 3), (1, 3)]),
        (lambda x: ops.sum(x, 0) + ops.mean(x, axis=0) + ops.sum(x) + ops.mean(x), [(3, 2)]),
        (lambda x: ops.cross_entropy(x, np.array([1, -100, 0])), [(3, 4)]),
        (lambda x: ops.mean_squared_error(x, np.ones((2, 3))), [(2, 3)]),
        (lambda x: ops.dropout(x, 0.5, np.arange(2)), [(2, 6)]),
        (lambda x: nystrom.checkpoint(lambda y: ops.exp(y) * y, [x]), [(3,)]),
    ],
)  # fmt: skip
def test_gradients_equal_differences(function, shapes):
    gradient_check(function, *(normal(*shape) for shape in shapes))


def test_a_gradient_accumulates_over_tapes():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    for _ in range(3):
        with nystrom.Tape() as tape:
            y = x * 2.0
            assert len(tape) == 1
            tape.backward(y, seed=np.ones(2))
    np.testing.assert_array_equal(x.grad.numpy(), 6)


def test_a_seed_stays_as_it_was():
    x, seed = nystrom.Tensor(np.full(3, 2.0), requires_grad=True), np.ones(3)
    with nystrom.Tape() as tape:
        tape.backward(ops.square(x), seed)
    np.testing.assert_array_equal(seed, 1)


def test_an_array_stays_as_it_was_when_its_tensor_is_gone():
    array = normal(3, 4)
    kept = array.copy()
    with nystrom.Tape() as tape:
        leaf = nystrom.Tensor(array, requires_grad=True)
        loss = ops.cross_entropy(ops.reshape(leaf, [2, 6]), np.array([1, 0]))
        del leaf
        tape.backward(loss)
        loss = ops.cross_entropy(nystrom.Tensor(array, requires_grad=True), np.array([1, 0, 2]))
        tape.backward(loss)
    np.testing.assert_array_equal(array, kept)


def test_nothing_is_recorded_without_a_tape():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    assert not (x * 2.0).requires_grad
    with nystrom.Tape() as tape, nystrom.NoGrad():
        assert not (x * 2.0).requires_grad
        assert len(tape) == 0


def test_blocks_of_generators_end_in_any_order():
    def recording():
        with nystrom.Tape() as tape:
            yield tape

    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    outer, inner = recording(), recording()
    next(outer)
    tape = next(inner)
    outer.close()
    y = x * 2.0
    assert len(tape) == 1
    tape.backward(y, seed=np.ones(2))
    inner.close()
    assert not (x * 2.0).requires_grad


def test_forgotten_blocks_end_when_they_are_collected():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    first, pause, last = nystrom.Tape(), nystrom.NoGrad(), nystrom.Tape()
    for block in (first, pause, last):
        block.__enter__()
    del first, block, last
    assert not (x * 2.0).requires_grad
    del pause
    assert not (x * 2.0).requires_grad
    with nystrom.Tape() as tape:
        x * 2.0
        assert len(tape) == 1


def test_another_thread_may_end_a_block_and_not_use_it():
    import threading

    x, seen = nystrom.Tensor(np.ones(2), requires_grad=True), []

    def use(tape) -> None:
        seen.append((x * 2.0).requires_grad)
        try:
            tape.backward(y, seed=np.ones(2))
        except nystrom.InternalError as error:
            seen.append(str(error))
        tape.__exit__(None, None, None)

    tape = nystrom.Tape()
    tape.__enter__()
    y = x * 2.0
    thread = threading.Thread(target=use, args=(tape,))
    thread.start()
    thread.join()
    assert seen[0] is False and "this tape records another thread" in seen[1]
    assert not (x * 2.0).requires_grad


def test_an_exception_ends_its_block():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    with pytest.raises(LookupError), nystrom.Tape(), nystrom.NoGrad():
        raise LookupError
    assert not (x * 2.0).requires_grad


def test_halves_pass_through_dlpack():
    half = ops.cast(np.array([1.00390625], np.float32), "bf16")
    assert half.dtype == "bf16" and ops.cast(half, "f32").item() == 1
    assert ops.round_to(np.array([1.00390625], np.float32), "bf16").item() == 1


# ---- Layers -------------------------------------------------------------------------------------


def test_an_encoder_learns():
    parameters = nn.ParameterStore()
    root = parameters.scope()
    encoder = nn.Encoder(root / "encoder", vocab_size=20, hidden_size=16, num_hidden_layers=1,
                         num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
                         attention={"num_landmarks": 4, "conv_kernel_size": 3})  # fmt: skip
    head = nn.Linear(root / "head", 16, 2)
    parameters.allocate()
    parameters.initialise(seed=1, standard_deviation=0.1)
    optimizer = optim.AdamW(parameters)
    draw = np.random.default_rng(1)
    ids = draw.integers(1, 20, (32, 16))
    labels = (ids == 7).any(1).astype(np.int64)
    losses = []
    for step in range(60):
        with nystrom.Tape() as tape:
            hidden = encoder(ids, training=True, sample_ids=np.arange(32), step=step)
            loss = ops.cross_entropy(head(ops.mean(hidden, 1)), labels)
            tape.backward(loss)
        optimizer.step(0.01, optim.clip_factor(optimizer.gradient_norm(), 1))
        optimizer.zero_gradients()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_parameters_have_names_and_can_be_set():
    parameters = nn.ParameterStore()
    layer = nn.LayerNorm(parameters.scope() / "norm", 3)
    weight = (parameters.scope() / "own").parameter("weight", [2])
    parameters.allocate("f64", training=False)
    names = [parameter.name for parameter in parameters.parameters()]
    assert names == ["norm.weight", "norm.bias", "own.weight"] and parameters.count() == 8
    parameters.set("norm.weight", np.full(3, 2.0))
    parameters.set("norm.bias", np.full(3, 1.0))
    np.testing.assert_allclose(layer(np.array([[-1.0, 0.0, 1.0]])).numpy().mean(), 1)
    with pytest.raises(nystrom.InternalError, match="own.weight"):
        weight.value


# ---- Errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: ops.cast(np.ones(2), "f8"), nystrom.InputError, "dtype 'f8'; expected bf16, f16, f32, f64"),
        (lambda: nystrom.Tape().backward(nystrom.Tensor(np.ones(1))), nystrom.InputError, "call this inside the block: with nystrom.Tape() as tape:"),
        (lambda: ops.feed_forward("swish", np.ones((1, 1)), np.ones((1, 1)), None, np.ones((1, 1))), nystrom.InputError, "activation 'swish'; expected gelu_erf, gelu_tanh, silu, relu, tanh, exp, square"),
        (lambda: nystrom.Tensor(np.frombuffer(bytes(9), np.uint8)[1:].view(np.float32)), nystrom.InputError, "the elements of an array do not begin at multiples of their size; pass numpy.array(…), a copy"),
        (lambda: nystrom.Tensor(np.ones(2, np.complex64)), nystrom.InputError, "an array has elements of 64 bits that nystrom does not know; expected float32, float64, float16, bfloat16, int64, int32, uint8 or bool"),
    ],
)  # fmt: skip
def test_wrong_use_is_an_error(call, kind, message):
    with pytest.raises(kind) as raised:
        call()
    assert str(raised.value) == message


def test_a_target_that_needs_a_gradient_is_refused():
    w = nystrom.Tensor(np.array([2.0]), requires_grad=True)
    for loss in (ops.mean_squared_error, lambda x, y: ops.distillation_loss(x, y, 1.0, 1.0)):
        with pytest.raises(nystrom.InputError, match="target: gets no gradient"):
            loss(w, w)
    plain = nystrom.Tensor(np.array([1.0]))
    assert ops.mean_squared_error(w, plain).numpy() == 1


def test_heads_divide_the_width():
    x = np.arange(24, dtype=np.float32).reshape(1, 6, 4)
    for arguments in ((x, -1), (x, 0), (x, 3), (x, 2, 0, 0), (x, 2, 1)):
        with pytest.raises(Exception, match="split_heads: x"):
            ops.split_heads(*arguments)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(nystrom.InternalError, match=r"\[2, 3\].*\[2, 3\]"):
        nystrom.Tensor(np.ones((2, 3))) @ np.ones((2, 3))


def test_a_dropout_in_training_wants_sample_ids():
    dropout = nn.Dropout(nn.ParameterStore().scope(), 0.5)
    with pytest.raises(nystrom.InputError, match="sample_ids and step"):
        dropout(np.ones((2, 3)), training=True)
    with pytest.raises(nystrom.InputError, match="sample_ids and step"):
        dropout(np.ones((2, 3)), training=True, sample_ids=np.arange(2))


def test_an_op_says_why_an_array_is_no_tensor(capfd):
    for array, reason in (
        (np.ones(3)[::-1], "negative stride"),
        (np.ones(3, ">f4"), "byte order"),
        (np.ones(3, np.int16), "nystrom does not know"),
    ):
        with pytest.raises(nystrom.InputError, match=reason):
            ops.exp(array)
        with pytest.raises(nystrom.InputError, match=reason):
            ops.concat([array, array], 0)
    with pytest.raises(TypeError):
        ops.exp("text")
    assert capfd.readouterr().err == ""


def trained_store() -> nn.ParameterStore:
    parameters = nn.ParameterStore()
    nn.Linear(parameters.scope(), 1, 2)
    parameters.allocate()
    parameters.initialise(seed=1, standard_deviation=1)
    return parameters


@pytest.mark.parametrize(
    "option",
    [
        {"weight_decay": float("nan")},
        {"weight_decay": -0.1},
        {"betas": (0.9, 1.0)},
        {"epsilon": 0.0},
        {"epsilon": float("inf")},
    ],
)
def test_an_optimizer_refuses_wrong_numbers(option):
    with pytest.raises(nystrom.InternalError, match=next(iter(option))):
        optim.AdamW(trained_store(), **option)


def test_a_step_refuses_numbers_that_are_not_finite():
    optimizer = optim.AdamW(trained_store())
    with pytest.raises(nystrom.InternalError, match="finite"):
        optimizer.step(learning_rate=float("nan"))
    with pytest.raises(nystrom.InternalError, match="finite"):
        optimizer.step(0.1, optim.clip_factor(float("nan"), 1.0))
    assert optimizer.steps_taken == 0


def test_values_need_an_allocated_store():
    parameters = nn.ParameterStore()
    nn.Linear(parameters.scope(), 1, 2)
    with pytest.raises(nystrom.InternalError, match="before its store is allocated"):
        parameters.initialise(seed=1, standard_deviation=1)


# ---- What reads wrong numbers elsewhere ---------------------------------------------------------


def test_the_gradient_of_what_no_loss_reached_is_none():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    with nystrom.Tape() as tape:
        h = ops.square(x)
        tape.backward(ops.sum(h))
    assert h.grad is None and x.grad.numpy().tolist() == [2, 2]


def test_values_of_an_ended_tape_are_refused():
    x = nystrom.Tensor(np.ones(2), requires_grad=True)
    with nystrom.Tape():
        h = x * 2.0
    with nystrom.Tape() as tape:
        with pytest.raises(nystrom.InternalError, match="detach"):
            ops.sum(h)
        tape.backward(ops.sum(x * h.detach()))
    assert x.grad.numpy().tolist() == [2, 2]


def test_a_checkpoint_of_data_trains_what_it_uses():
    w = nystrom.Tensor(np.eye(2), requires_grad=True)
    with nystrom.Tape() as tape:
        tape.backward(ops.sum(nystrom.checkpoint(lambda a: ops.linear(a, w), [np.ones((3, 2))])))
    assert w.grad.numpy().tolist() == [[3, 3], [3, 3]]
    with nystrom.Tape(), pytest.raises(TypeError, match="f returned a NoneType"):
        nystrom.checkpoint(lambda a: None, [w])


def test_an_encoder_refuses_masks_and_ids_of_another_shape():
    parameters = nn.ParameterStore()
    encoder = nn.Encoder(
        parameters.scope() / "encoder", vocab_size=50, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32,
        attention={"num_landmarks": 4},
    )  # fmt: skip
    parameters.allocate()
    parameters.initialise(seed=1, standard_deviation=0.1)
    ids, mask = np.arange(36).reshape(3, 12), np.ones((3, 5), np.uint8)
    expected = encoder(ids, np.ones((3, 12), np.uint8)).numpy()
    same = encoder(ids.astype(np.int32), np.ones((3, 12), np.int64)).numpy()
    np.testing.assert_array_equal(same, expected)
    with pytest.raises(nystrom.InputError, match=r"attention_mask is \[3, 5\]"):
        encoder(ids, mask)
    mask = np.ones((3, 12), np.uint8)
    mask[2, 4] = 0
    with pytest.raises(nystrom.InternalError, match="sample ids are"):
        encoder(ids, mask, training=True, sample_ids=np.array([1]), step=0)


@pytest.mark.parametrize("landmarks", [32, 64])
def test_an_encoder_with_semantics_of_transformers_keeps_padding_as_rows(landmarks):
    parameters = nn.ParameterStore()
    encoder = nn.Encoder(
        parameters.scope() / "encoder", vocab_size=50, hidden_size=16, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=64,
        attention={"semantics": "transformers", "num_landmarks": landmarks, "conv_kernel_size": 3},
    )  # fmt: skip
    parameters.allocate()
    parameters.initialise(seed=1, standard_deviation=0.1)
    mask = (np.arange(64) < 40)[None].astype(np.int64)
    zeros, ones = (encoder(np.where(mask, 7, pad), mask).numpy() for pad in (0, 1))
    assert not np.array_equal(zeros[0, :40], ones[0, :40])  # the convolution sees padding


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float64])
def test_sample_ids_of_other_types_are_refused(dtype):
    with pytest.raises(nystrom.InternalError, match="i64 sample id"):
        ops.dropout(np.ones((4, 6), np.float32), 0.5, np.arange(4, dtype=dtype))


def test_a_norm_needs_no_beta():
    x, gamma = np.arange(8.0).reshape(2, 4), np.ones(4)
    expected = ops.layer_norm(x, gamma, np.zeros(4), 1e-5).numpy()
    np.testing.assert_array_equal(ops.layer_norm(x, gamma, None, 1e-5).numpy(), expected)
    np.testing.assert_array_equal(
        ops.residual_layer_norm(x, np.zeros((2, 4)), gamma, None, 1e-5).numpy(), expected
    )


def test_a_rotation_of_the_first_place_changes_nothing():
    x = np.arange(16.0, dtype=np.float32).reshape(1, 1, 2, 8)
    table = ops.rotary_table(2, 8, 10000.0)
    turned = ops.rotate(ops.cast(x, "f64"), table).numpy()
    np.testing.assert_array_equal(turned[0, 0, 0], x[0, 0, 0])
    assert not np.array_equal(turned[0, 0, 1], x[0, 0, 1])


# https://github.com/pytorch/pytorch/issues/6811
def test_a_whole_number_is_read_as_it_is():
    number = nystrom.Tensor(np.array([2**53 + 1])).item()
    assert number == 2**53 + 1 and isinstance(number, int)
    assert nystrom.Tensor(np.array(2.5, np.float32)).item() == 2.5


def test_a_number_of_threads_is_one():
    with pytest.raises(nystrom.InputError, match="n 4097; expected at most 4096"):
        nystrom.set_num_threads(4097)
    nystrom.set_num_threads(np.int64(nystrom.num_threads()))
    with pytest.raises(TypeError, match="n: expected a number of threads"):
        nystrom.set_num_threads(True)


def stored(values):
    store = nn.ParameterStore()
    store.scope().parameter("w", [3])
    store.allocate()
    store.set("w", values)


def encoded(ids, mask=None):
    store = nn.ParameterStore()
    options = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {"intermediate_size": 8, "vocab_size": 10, "max_position_embeddings": 8}
    encoder = nn.Encoder(store.scope(), **options, **sizes, attention={"num_landmarks": 2})
    store.allocate()
    store.initialise(1, 0.1)
    encoder(ids, mask)


# https://github.com/numpy/numpy/issues/26669 https://github.com/jax-ml/jax/issues/13795
@pytest.mark.parametrize(
    "call",
    [
        lambda x, ids: ops.cross_entropy(np.ones((3, 2), np.float32), ids),
        lambda x, ids: ops.embedding(np.ones((3, 2), np.float32), ids),
        lambda x, ids: ops.gather_rows(np.ones((3, 2), np.float32), ids),
        lambda x, ids: ops.mean_squared_error(np.ones(3, np.float32), x),
        lambda x, ids: ops.dropout(np.ones((3, 2), np.float32), 0.5, ids),
        lambda x, ids: stored(x),
        lambda x, ids: encoded(ids[None]),
        lambda x, ids: encoded(ids[None], ids[None] + 1),
    ],
)
def test_no_op_loses_a_mask(call):
    x, ids = np.ones(3, np.float32), np.zeros(3, np.int64)
    call(x, ids)
    masks = (np.ma.masked_array(each, mask=[0, 1, 0]) for each in (x, ids))
    with pytest.raises(nystrom.InputError, match="would lose its mask"):
        call(*masks)


# https://github.com/pybind/pybind11/issues/2502 https://github.com/cython/cython/pull/150
def test_arrays_of_ctypes_are_read():
    values = (ctypes.c_float * 3)(1, 2, 3)
    tensor = nystrom.Tensor(values)
    np.testing.assert_array_equal(tensor.numpy(), [1, 2, 3])
    values[1] = 5  # the memory is shared
    np.testing.assert_array_equal(ops.relu(values).numpy(), tensor.numpy())
    ids = (ctypes.c_int64 * 2)(2, 0)
    rows = ops.gather_rows(np.eye(3, dtype=np.float32), ids)
    np.testing.assert_array_equal(rows.numpy(), np.eye(3)[[2, 0]])
    stored(values)


# https://github.com/jax-ml/jax/issues/37830 https://github.com/pytorch/pytorch/pull/6597
def test_ids_and_labels_may_be_filled_anew():
    def gradient(given):
        weight = nystrom.Tensor(np.eye(4, 3, dtype=np.float32), requires_grad=True)
        ids, labels = np.empty(2, np.int64), np.empty(2, np.int64)
        with nystrom.Tape() as tape:
            losses = []
            for ids[:], labels[:] in (([0, 1], [0, 1]), ([2, 3], [2, 0])):
                rows = ops.embedding(weight, given(ids))
                losses.append(ops.cross_entropy(rows, given(labels)))
            tape.backward(losses[0] + losses[1])
        return weight.grad.numpy()

    np.testing.assert_array_equal(gradient(lambda array: array), gradient(np.copy))


def test_a_table_of_angles_may_be_filled_anew():
    x = nystrom.Tensor(np.ones((1, 1, 2, 4)), requires_grad=True)
    table = ops.rotary_table(2, 4, 100.0).numpy().copy()
    with nystrom.Tape() as tape:
        loss = ops.sum(ops.rotate(x, table))
        table[:] = 0
        tape.backward(loss)
    assert np.all(x.grad.numpy() != 0)

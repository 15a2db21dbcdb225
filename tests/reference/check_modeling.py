"""Compares python/export/modeling_nystrom.py with `nystrom forward`: outputs, losses, gradients.

usage: check_modeling.py [--program build/release/nystrom] [--short] [CASE ...]

Two sources of cases. The fixtures hold answers of other implementations, in float64. For every
option and head the script also makes a small model with random weights, saves it with
save_pretrained, and reads it in both programs. Batches have rows of unequal length, holes in the
mask, one token, fewer tokens than landmarks and full rows; some have a single row without a mask.
In float64 all must agree within 1e-9 of a tensor's largest entry, in float32 outputs within 1e-4.
Last come compilation, checkpointing, mixed precision, a larger vocabulary and a run in Trainer.
--short: one head for each option, another each time, and no run in Trainer."""

import copy
import json
import os
import pickle
import shutil
import tempfile

MODULES = tempfile.TemporaryDirectory()  # where transformers copies a folder's classes
os.environ["HF_MODULES_CACHE"] = MODULES.name

import torch
import transformers
import yaml
from common import FIXTURES, NOISE, ROOT, deviation, forward, run, script, trainer_losses
from safetensors.torch import load_file

SOURCES = sorted((ROOT / "python/export").glob("*.py"))
F64, F32 = 1e-9, 1e-4
LENGTH, LANDMARKS, VOCAB, WIDTH, FEATURES = 37, 5, 61, 16, 6
SIZES = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 20,
}
# Head: its Auto class, and the number of labels.
HEADS = {
    "MaskedLM": (transformers.AutoModelForMaskedLM, 2),
    "PreTraining": (transformers.AutoModelForPreTraining, 2),
    "SequenceClassification": (transformers.AutoModelForSequenceClassification, 3),
    "Regression": (transformers.AutoModelForSequenceClassification, 1),
    "TokenClassification": (transformers.AutoModelForTokenClassification, 4),
    "QuestionAnswering": (transformers.AutoModelForQuestionAnswering, 2),
    "MultipleChoice": (transformers.AutoModelForMultipleChoice, 2),
    "Model": (transformers.AutoModel, 2),
}
AUTO_MAP = {"AutoConfig": "configuration_nystrom.NystromConfig"} | {
    auto.__name__: f"modeling_nystrom.Nystrom{'' if head == 'Model' else 'For'}{head}"
    for head, (auto, _) in HEADS.items()
    if head != "Regression"
}

# Options in place of the defaults. Where the inverse converges, landmarks come from the keys: the
# matrix is then well-conditioned, and differences are of the programs and not of rounding.
# embed_dim is FEATURES.
OPTIONS = yaml.safe_load("""
defaults: {}
no_iterations: {attention: {inverse_iterations: 0}}
ten_iterations: {attention: {inverse_iterations: 10, landmark_source: keys}}
exact_inverse: {attention: {inverse: exact, landmark_source: keys}}
identity: {attention: {inverse: identity}}
landmarks_of_keys: {attention: {landmark_source: keys}}
one_landmark: {attention: {num_landmarks: 1}}
many_landmarks: {attention: {num_landmarks: 21, inverse_iterations: 3}}
no_convolution: {attention: {conv_kernel_size: null}}
long_convolution: {attention: {conv_kernel_size: 33}}
pre: {norm: pre}
pre_without_positions: {norm: pre, positions: none, attention: {landmark_source: keys,
  conv_kernel_size: null}}
mean_pooling: {pooling: mean}
towers: {pooling: mean, pairs: towers}
towers_first: {pairs: towers, attention: {kind: softmax}}
features: {norm: pre, positions: none, embed_dim: 6}
features_mean: {norm: pre, positions: none, embed_dim: 6, pooling: mean, attention: {inverse: exact,
  landmark_source: keys}}
sentence_order: {sentence_order: true}
softmax: {attention: {kind: softmax}}
double_softmax: {attention: {kind: double_softmax}}
linear: {attention: {kind: linear}}
linear_of_small_features: {attention: {kind: linear}}
performer: {attention: {kind: performer, num_features: 11, random_seed: 7}}
linformer: {attention: {kind: linformer, projected_length: 6}}
linformer_per_head: {attention: {kind: linformer, projected_length: 4,
  projection_sharing: per_head}}
reformer: {attention: {kind: reformer, bucket_size: 4, random_seed: 3}}
reformer_pairs_of_buckets: {attention: {kind: reformer, bucket_size: 1, num_hashes: 3}}
softmax_in_one_layer: {attention: {layers: {"1": softmax}}, outer: {num_hidden_layers: 3}}
every_kind: {attention: {kind: linear, layers: {"0": nystrom, "2-3": softmax, "4": reformer,
  "5": linformer, "6": performer, "7": double_softmax}, bucket_size: 4, projected_length: 6,
  num_features: 11}, outer: {num_hidden_layers: 8}}
transformers: {attention: {semantics: transformers, num_landmarks: 9}}
transformers_exact_inverse: {attention: {semantics: transformers, num_landmarks: 4,
  landmark_source: keys, inverse: exact}}
transformers_exact: {attention: {semantics: transformers, num_landmarks: 36}}
gelu: {outer: {hidden_act: gelu}}
as_bert: {position_offset: 0, classifier_act: tanh,
  attention: {kind: softmax, conv_kernel_size: null}}
as_roberta: {positions: skip_padding, transform_act: gelu, classifier_act: tanh,
  attention: {kind: softmax, conv_kernel_size: null}, outer: {type_vocab_size: 1}}
as_distilbert: {position_offset: 0, classifier_act: relu, attention: {kind: softmax},
  outer: {type_vocab_size: 0, hidden_act: tanh}}
as_electra: {embedding_size: 10, transform_act: gelu, classifier_act: gelu}
without_biases: {bias: false, norm: pre, final_norm: true}
gated: {mlp: geglu, head_transform: true}
window: {attention: {kind: softmax, window: 8}}
window_beside_landmarks: {attention: {window: 6}}
window_in_one_layer: {attention: {layers: {"1": softmax}, window: 6}}
landmarks_of_rope: {positions: rope, rope_theta: 50.0, attention: {landmark_source: keys}}
landmarks_and_windows_of_rope: {positions: rope, local_rope_theta: 20.0,
  attention: {layers: {"1": softmax}, window: 6, inverse: identity}, outer: {num_hidden_layers: 3}}
rope_of_features: {norm: pre, positions: rope, embed_dim: 6, attention: {kind: softmax}}
as_modernbert: {norm: pre, final_norm: true, first_attention_norm: false, mlp: geglu, bias: false,
  positions: rope, rope_theta: 500.0, local_rope_theta: 20.0, head_transform: true,
  transform_act: gelu, attention: {kind: softmax, window: 6, window_layers: ["1-2"],
  conv_kernel_size: null}, outer: {type_vocab_size: 0, num_hidden_layers: 4}}
relu_four_heads: {outer: {hidden_act: relu, num_attention_heads: 4}}
""")


def counts_places(name):
    """Whether nystrom computes no padding, and takes it behind the tokens alone."""
    block = OPTIONS[name]
    return "window" in block.get("attention", {}) or block.get("positions") == "rope"


def suits(name, head):
    """Whether nystrom builds a model of these options and this head."""
    block = OPTIONS[name]
    if "embed_dim" in block:
        return head not in ("MaskedLM", "PreTraining", "QuestionAnswering", "MultipleChoice")
    if "pairs" in block or "pooling" in block:
        return head in ("SequenceClassification", "Regression")
    return "sentence_order" not in block or head == "MaskedLM"


def make_config(name, head):
    block = dict(OPTIONS[name])
    outer = block.pop("outer", {})
    attention = {"num_landmarks": LANDMARKS, "conv_kernel_size": 5} | block.pop("attention", {})
    labels = HEADS[head][1]
    config = {
        "model_type": "nystrom",
        "auto_map": AUTO_MAP,
        "vocab_size": VOCAB,
        **SIZES,
        "max_position_embeddings": 40,
        "segment_means_seq_len": 36,
        "id2label": {str(i): f"class {i}" for i in range(labels)},
        "label2id": {f"class {i}": i for i in range(labels)},
        "nystrom": block | {"attention": attention},
    }
    return config | outer


def write_folder(folder, config, weights=None):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for source in [*SOURCES, *([weights] if weights else [])]:
        shutil.copy(source, folder)
    return folder


def randomise(model):
    """Weights wide enough for attention that is far from uniform."""
    for name, parameter in model.named_parameters():
        noise = torch.randn_like(parameter)
        if name.endswith("LayerNorm.weight"):
            value = 1 + 0.2 * noise
        elif ".query.weight" in name or ".key.weight" in name:
            value = 0.45 * noise
        else:
            value = 0.2 * noise
        parameter.data.copy_(value)


def make_folder(scratch, name, head):
    """A model of these options with random weights, as transformers saves it."""
    torch.manual_seed(len(name) * 1000 + len(head))
    config = transformers.AutoConfig.from_pretrained(
        write_folder(scratch / f"{name}-{head}-config", make_config(name, head)),
        trust_remote_code=True,
    )
    model = HEADS[head][0].from_config(config, trust_remote_code=True)
    randomise(model)
    if name == "linear_of_small_features":
        for parameter, bias in model.named_parameters():
            if parameter.endswith((".query.bias", ".key.bias")):
                bias.data -= 60  # in float32 the products of features round to 0
    folder = scratch / f"{name}-{head}"
    model.save_pretrained(folder)
    for source in SOURCES:  # transformers copies them for models that it loaded from a folder
        shutil.copy(source, folder)
    return folder


def make_masks(length, rows, holes):
    """Unequal rows: full, one token, around the landmarks, half, with holes, padded on the left."""
    masks = torch.zeros(8, length, dtype=torch.int64)
    for row, count in enumerate([length, 1, LANDMARKS - 2, LANDMARKS, LANDMARKS + 1, length // 2]):
        masks[row, :count] = 1
    masks[6, torch.randperm(length)[: 2 * length // 3] if holes else slice(3)] = 1
    masks[7, slice(length // 3, length) if holes else slice(length // 3)] = 1
    return masks if rows is None else masks.reshape(-1, rows, length)


def make_labels(head, shape, mask, counted):
    """Labels; of tokens also at padding, unless its rows are `counted`."""
    if head in ("MaskedLM", "PreTraining", "TokenClassification"):
        classes = VOCAB if head == "MaskedLM" else HEADS[head][1]
        chosen = torch.rand(shape) < 0.4
        if mask is not None and head != "PreTraining" and counted:
            chosen = chosen & (mask == 1)
        chosen[0, 0] = True
        return {"labels": torch.where(chosen, torch.randint(classes, shape), -100)}
    if head == "QuestionAnswering":
        ends = {name: torch.randint(shape[-1], shape[:1]) for name in ("start", "end")}
        ends["end"][-1] = shape[-1] + 3  # beyond the row: ignored
        if shape[0] == 1:
            ends["end"][-1] = 0
        return {f"{name}_positions": value for name, value in ends.items()}
    if head == "Regression":
        return {"labels": torch.randn(shape[0])}
    if head == "Model":
        return {}
    return {"labels": torch.randint(2, shape[:1])}


def make_batch(name, head, length, masked):
    rows = 2 if head == "MultipleChoice" or "pairs" in OPTIONS[name] else None
    mask = make_masks(length, rows, not counts_places(name)) if masked else None
    shape = tuple(mask.shape) if masked else (1, length) if rows is None else (1, rows, length)
    batch = {} if mask is None else {"attention_mask": mask}
    if "embed_dim" in OPTIONS[name]:
        batch["features"] = torch.randn(*shape, FEATURES)
    else:
        # Token 1 is padding, which some models do not count.
        first = 1 if OPTIONS[name].get("positions") == "skip_padding" else 2
        batch["input_ids"] = torch.randint(first, VOCAB, shape)
        types = OPTIONS[name].get("outer", {}).get("type_vocab_size", 2)
        if types > 0:
            batch["token_type_ids"] = torch.randint(types, shape)
    if head == "Model" and "features" in batch:
        batch["loss_weights"] = torch.randn(shape[0], WIDTH)
    return batch | make_labels(head, shape, mask, not counts_places(name))


def batches(name, head):
    """Mixed rows, then single rows without padding."""
    attention = OPTIONS[name].get("attention", {})
    if attention.get("semantics") == "transformers":
        return [make_batch(name, head, 36, masked) for masked in (True, False)]
    alone = [make_batch(name, head, length, False) for length in (1, LANDMARKS - 1, LENGTH)]
    return [make_batch(name, head, LENGTH, True), *alone]


def run_program(program, folder, batch, *options):
    return forward(program, folder, batch, "--threads", 1, *options)


def run_model(model, batch, dtype):
    """The same outputs as `nystrom forward --grad`, under the same names."""
    model = model.to(dtype).eval()
    model.zero_grad()
    inputs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}
    weights = inputs.pop("loss_weights", None)
    out = model(**inputs, output_hidden_states=True)
    results = {"last_hidden_state": out.hidden_states[-1]}
    for name in ("logits", "start_logits", "end_logits"):
        if name in out:
            results[name] = out[name]
    if "features" in inputs and "pooler_output" in out:
        results["output"] = out.pooler_output
    loss = out.get("loss") if weights is None else (out.pooler_output * weights).sum()
    if loss is not None:
        loss.backward()
        results["loss"] = loss.reshape(1)
    prefix = "" if hasattr(model, "nystromformer") else "nystromformer."
    for name, parameter in model.named_parameters():
        if loss is not None and parameter.requires_grad:
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            results[f"grad.{prefix}{name}"] = gradient
    return {name: value.detach() for name, value in results.items()}


def at_tokens(name, value, mask):
    """What to compare of an output: its vectors at tokens, if it has one for each position."""
    by_token = name in ("last_hidden_state", "start_logits", "end_logits") or (
        name == "logits" and mask is not None and value.shape[:2] == mask.shape
    )
    if mask is None or not by_token:
        return value.double()
    rows = mask.reshape(-1, mask.shape[-1]).bool()
    return value.double().reshape(*rows.shape, *value.shape[rows.ndim :])[rows]


def deviations(expected, got, mask):
    """The largest differences of outputs and of gradients, relative to a tensor's largest entry;
    only at tokens where a tensor has a vector for each position."""
    worst = {"outputs": 0.0, "gradients": 0.0}
    gradients = [value.abs().max().item() for name, value in expected.items() if "grad." in name]
    steepest = max([1.0, *gradients])
    for name, value in expected.items():
        value, other = (at_tokens(name, x, mask) for x in (value, got[name]))
        kind = "gradients" if name.startswith("grad.") else "outputs"
        if not value.abs().max().item() < NOISE * (steepest if kind == "gradients" else 1):
            worst[kind] = max(worst[kind], deviation(other, value))
    return worst["outputs"], worst["gradients"]


def load(folder, head):
    model, report = HEADS[head][0].from_pretrained(
        folder, trust_remote_code=True, output_loading_info=True
    )
    left = {key: value for key, value in report.items() if value}
    if left:
        raise SystemExit(f"{folder.name}: weights are initialised or left over: {left}")
    return model


def heads_of(name, short):
    """The heads that suit these options; in short one of them, another for each name."""
    heads = [head for head in HEADS if suits(name, head)]
    place = list(OPTIONS).index(name) % len(heads)
    return heads[place : place + 1] if short else heads


def compare(program, folder, name, head):
    """The largest differences of outputs and gradients in float64, and of outputs in float32."""
    model, worst = load(folder, head), [0.0, 0.0, 0.0]
    for batch in batches(name, head):
        mask = batch.get("attention_mask")
        graded = set(batch) & {"labels", "loss_weights", "start_positions"}
        gradients = ["--grad"] if graded else []
        expected = run_program(program, folder, batch, "--dtype", "f64", *gradients)
        # Not of the Python classes: the second head's gradient, a head's last step.
        for key in [k for k in expected if "seq_relationship" in k]:
            del expected[key]
        if head != "Model":
            expected.pop("output", None)
        exact = deviations(expected, run_model(model, batch, torch.float64), mask)
        single = run_program(program, folder, batch)
        single = {name: value for name, value in single.items() if name in expected}
        rounded = deviations(single, run_model(model, batch, torch.float32), mask)[0]
        worst = [max(a, b) for a, b in zip(worst, (*exact, rounded))]
    return worst


def check_options(check, program, scratch, names, short):
    for name in names:
        worst, heads = [0.0, 0.0, 0.0], heads_of(name, short)
        for head in heads:
            found = compare(program, make_folder(scratch, name, head), name, head)
            worst = [max(a, b) for a, b in zip(worst, found)]
        check(
            worst[0] <= F64 and worst[1] <= F64 and worst[2] <= F32,
            f"{name}, {len(heads)} heads: outputs {worst[0]:.1e}, gradients {worst[1]:.1e}; "
            f"float32 {worst[2]:.1e}",
        )


def check_fixtures(check, scratch):
    """Answers of independent implementations: Python a head at a time, and transformers."""
    for group in ("nystrom", "baselines", "hf"):
        worst, count = [0.0, 0.0], 0
        for fixture in sorted((FIXTURES / group).iterdir()):
            # A row without tokens, semantics transformers: transformers passes a gradient to
            # queries and keys, of which the output is independent.
            if not fixture.is_dir() or fixture.name.endswith("empty_row"):
                continue
            config = json.loads((fixture / "config.json").read_text())
            config |= {"model_type": "nystrom", "auto_map": AUTO_MAP}
            config.setdefault("nystrom", {"attention": {"semantics": "transformers"}})
            weights = fixture / "model.safetensors"
            folder = write_folder(scratch / f"{group}-{fixture.name}", config, weights)
            head = config["architectures"][0].removeprefix("Nystromformer").removeprefix("For")
            batch = load_file(fixture / "batch.safetensors")
            got = run_model(load(folder, head), batch, torch.float64)
            expected = load_file(fixture / "expected.safetensors")
            found = deviations(expected, got, batch.get("attention_mask"))
            worst, count = [max(a, b) for a, b in zip(worst, found)], count + 1
        check(
            max(worst) <= F64,
            f"{count} fixtures of {group}: outputs {worst[0]:.1e}, gradients {worst[1]:.1e}",
        )


def check_architectures(check, program, scratch):
    """The exported classes give the answers of transformers' own for BERT's family."""
    worst, count = 0.0, 0
    for fixture in sorted((FIXTURES / "architectures").iterdir()):
        folder = scratch / f"architecture-{fixture.name}"
        run(program, "export", fixture, folder, "--quiet", "--format", "nystrom")
        name = json.loads((folder / "config.json").read_text())["architectures"][0]
        head = name.removeprefix("Nystrom").removeprefix("For")
        batch = load_file(fixture / "batch.safetensors")
        got = run_model(load(folder, head), batch, torch.float64)
        expected = load_file(fixture / "expected.safetensors")
        outputs = {k: v for k, v in expected.items() if not k.startswith("grad.")}
        got = {name: got[name] for name in outputs}
        found = deviations(outputs, got, batch["attention_mask"])[0]
        worst, count = max(worst, found), count + 1
    check(worst <= F64, f"{count} exports of BERT's family: outputs {worst:.1e}")


FAMILIES = {
    "Bert": SIZES,
    "Roberta": SIZES,
    "DistilBert": {"dim": WIDTH, "n_layers": 2, "n_heads": 2, "hidden_dim": 20},
    "Electra": SIZES | {"embedding_size": 10},
    "Nystromformer": SIZES | {"num_landmarks": LENGTH, "segment_means_seq_len": LENGTH},
}


def check_untied(check, program, scratch):
    """A decoder unlike the word embeddings: the program, and its export in transformers, compute
    what transformers computes of the folder."""
    for family, options in FAMILIES.items():
        torch.manual_seed(len(family))
        config = getattr(transformers, f"{family}Config")(
            vocab_size=VOCAB, max_position_embeddings=40, tie_word_embeddings=False, **options
        )
        model = getattr(transformers, f"{family}ForMaskedLM")(config)
        randomise(model)
        folder, exported = scratch / f"untied-{family}", scratch / f"untied-{family}-export"
        model.save_pretrained(folder)
        # Token 1 pads in a RoBERTa. A Nyströmformer sees padding.
        mask = torch.ones(4, LENGTH, dtype=torch.int64)
        mask[1, LENGTH // 2 :] = 0
        mask = mask if family != "Nystromformer" else torch.ones_like(mask)
        ids = torch.where(mask == 1, torch.randint(2, VOCAB, mask.shape), 1)
        batch = {"input_ids": ids, "attention_mask": mask}
        with torch.no_grad():
            expected = {"logits": model.double().eval()(**batch).logits}
        got = run_program(program, folder, batch, "--dtype", "f64")
        direct = deviations(expected, got, mask)[0]
        run(program, "export", folder, exported, "--quiet")
        again = transformers.AutoModelForMaskedLM.from_pretrained(exported, trust_remote_code=True)
        words = again.get_input_embeddings().weight
        apart = not torch.equal(words, again.get_output_embeddings().weight)
        with torch.no_grad():
            got = {"logits": again.double().eval()(**batch).logits}
        through = deviations(expected, got, mask)[0]
        check(
            apart and max(direct, through) <= F64,
            f"untied {family}: logits {direct:.1e}, of the export {through:.1e}",
        )


def check_resized(check, program, scratch):
    """A masked LM with more tokens or fewer, saved and loaded: its head has one bias, whose new
    numbers are 0."""
    ids = torch.randint(2, 20, (2, LENGTH))
    folder = make_folder(scratch / "resized", "defaults", "MaskedLM")
    for tied in (True, False):
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True)
        config.tie_word_embeddings = tied
        for size in (VOCAB + 9, 20):
            auto = transformers.AutoModelForMaskedLM
            model = auto.from_config(copy.deepcopy(config), trust_remote_code=True).eval()
            randomise(model)
            bias = model.cls["predictions"].bias
            model.resize_token_embeddings(VOCAB)
            same = model.cls["predictions"].bias is bias
            model.resize_token_embeddings(size)
            saved = scratch / f"resized-{tied}-{size}"
            shutil.copytree(folder, saved)
            model.save_pretrained(saved)
            with torch.no_grad():
                expected = {"logits": model.double()(ids).logits}
                again = load(saved, "MaskedLM").eval().double()(ids).logits
            got = run_program(program, saved, {"input_ids": ids}, "--dtype", "f64")
            worst = max(deviations(expected, x, ids > 0)[0] for x in (got, {"logits": again}))
            check(
                same and worst <= F64,
                f"{size} tokens instead of {VOCAB}, tied {tied}: logits {worst:.1e}",
            )


class Adapter(torch.nn.Module):
    """A layer with an addition of low rank, as adapters wrap one."""

    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = torch.nn.Parameter(0.3 * torch.randn(2, base.in_features))
        self.up = torch.nn.Parameter(0.3 * torch.randn(base.out_features, 2))

    @property
    def weight(self):
        return self.base.weight

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def check_extensions(check, scratch):
    """What other libraries do to the classes, and what they refuse."""
    head = "SequenceClassification"
    folder = make_folder(scratch / "extensions", "defaults", head)
    model, batch = load(folder, head).eval(), make_batch("defaults", head, LENGTH, True)
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    merged, adapted = copy.deepcopy(model), copy.deepcopy(model)
    for plain, own in zip(merged.modules(), list(adapted.modules()), strict=True):
        for name in ("query", "key", "value"):
            if hasattr(own, name):
                adapter = Adapter(getattr(own, name))
                setattr(own, name, adapter)
                getattr(plain, name).weight.data += adapter.up.data @ adapter.down.data
    expected, got = (each(**inputs).logits for each in (merged, adapted))
    error = deviation(got, expected)
    check(error <= F32, f"adapters of queries, keys and values equal merged weights: {error:.1e}")

    copied = pickle.loads(pickle.dumps(model))
    check(torch.equal(copied(**inputs).logits, model(**inputs).logits), "models are pickled")
    labels = torch.tensor([[1.0, 0.0, 1.0]] * len(expected))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(**inputs).logits, labels)
    got = model(**inputs, labels=labels).loss
    check(torch.allclose(got, loss), "label sets are inferred from floating labels")
    other = "PreTraining"
    told = load(make_folder(scratch / "told", "defaults", other), other).eval()
    batch = make_batch("defaults", other, LENGTH, True)
    labels = batch.pop("labels").clamp(min=0)  # at padding too
    items, bools = labels.numel(), labels.bool()
    losses = [told(**batch, labels=labels).loss, told(**batch, labels=bools).loss]
    losses.append(told(**batch, labels=labels, num_items_in_batch=items).loss)
    check(torch.allclose(losses[0], torch.stack(losses)), f"Trainer's count and bools: {losses}")
    for name, value in {"position_ids": inputs["input_ids"], "output_attentions": True}.items():
        try:
            model(**inputs, **{name: value})
            check(False, f"{name} is refused")
        except ValueError as error:
            check(name in str(error), f"{name} is refused")
    model.config.output_hidden_states = True
    shown = model(**inputs, output_hidden_states=None).hidden_states
    check(shown is not None, "None stands for the configuration's output_hidden_states")
    fewer = HEADS[head][0].from_pretrained(folder, trust_remote_code=True, num_landmarks=3)
    given = fewer.config.nystrom["attention"]["num_landmarks"]
    check(given == 3, f"an option that is given replaces the folder's: {given} landmarks")


def check_uses(check, scratch):
    """What people do with a model beside running it."""
    folder = make_folder(scratch / "uses", "defaults", "MaskedLM")
    model, batch = load(folder, "MaskedLM"), make_batch("defaults", "MaskedLM", LENGTH, True)
    mask, expected = batch["attention_mask"], run_model(model, batch, torch.float32)

    compiled = torch.compile(model, fullgraph=True)
    got = compiled(**batch)
    found = deviations({"logits": expected["logits"]}, {"logits": got.logits}, mask)
    check(found[0] <= F32, f"torch.compile without graph breaks: logits {found[0]:.1e}")
    torch.compiler.reset()

    model.gradient_checkpointing_enable()
    found = deviations(expected, run_model(model.train(), batch, torch.float32), mask)
    model.gradient_checkpointing_disable()
    check(max(found) <= 1e-6, f"gradient checkpointing: {max(found):.1e}")

    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(**batch)
    error = deviations({"logits": expected["logits"]}, {"logits": mixed.logits}, mask)[0]
    check(error <= 0.05, f"bf16 autocast: logits {error:.1e}")

    model.resize_token_embeddings(VOCAB + 3)
    tied = model.get_input_embeddings().weight is model.get_output_embeddings().weight
    shape = tuple(model(**batch).logits.shape[2:])
    model.save_pretrained(scratch / "larger")
    names = set(load_file(scratch / "larger/model.safetensors"))
    copies = {name for name in names if "decoder" in name}
    check(
        tied and shape == (VOCAB + 3,) and not copies and "cls.predictions.bias" in names,
        f"a larger vocabulary: the decoder stays tied and is not saved: {copies or 'no copies'}",
    )
    for source in SOURCES:
        shutil.copy(source, scratch / "larger")
    check(load(scratch / "larger", "MaskedLM") is not None, "a larger vocabulary: loads again")

    encoder = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True)
    encoder.save_pretrained(scratch / "encoder")
    saved = {path.name for path in (scratch / "encoder").glob("*.py")}
    check(saved == {path.name for path in SOURCES}, "save_pretrained copies the classes")
    fresh = transformers.AutoModelForMaskedLM.from_pretrained(
        scratch / "encoder", trust_remote_code=True
    )
    check(
        bool((fresh.cls["predictions"].bias == 0).all()),
        "a new head on an encoder starts with bias 0",
    )
    check_trainer(check, scratch, load(folder, "MaskedLM"))


def check_trainer(check, scratch, model):
    batch = make_batch("defaults", "MaskedLM", LENGTH, True)
    data = [{key: value[i] for key, value in batch.items()} for i in range(8)]
    losses = trainer_losses(
        model,
        data,
        scratch / "trainer",
        num_train_epochs=40,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        learning_rate=5e-3,
    )
    check(losses[-1] < 0.8 * losses[0], f"Trainer: loss {losses[0]:.2f} to {losses[-1]:.2f}")


@script(__doc__, names=[*OPTIONS, "untied"], short=False)
def main(arguments, check, scratch):
    torch.set_num_threads(1)  # models are small
    program, asked = arguments.program, arguments.names
    names = [name for name in asked or OPTIONS if name != "untied"]
    check_options(check, program, scratch, names, arguments.short)
    if not asked or "untied" in asked:
        check_untied(check, program, scratch)
        check_resized(check, program, scratch)
    if not asked:
        check_fixtures(check, scratch)
        check_architectures(check, program, scratch)
        check_extensions(check, scratch)
    if not asked and not arguments.short:
        check_uses(check, scratch)

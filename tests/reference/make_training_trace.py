"""Writes tests/fixtures/trace: 20 training steps of Hugging Face's masked language model in
float64.

    build/interop/bin/python tests/reference/make_training_trace.py

Needs torch 2.15, transformers 4.57.1 and safetensors; no network. The folder holds

    config.json, model.safetensors   the start, float32 batches.safetensors              int64:
    input_ids, attention_mask, labels (-100: not chosen), each [20, b, n] expected.safetensors
    float64: losses [20] (each before its step's update), grad_norms [20] (before
                                     clipping), learning_rates [20], final.NAME (every parameter
                                     after step 20)

No dropout. A step is: mean cross-entropy over the chosen tokens, clip_grad_norm_ to 1, AdamW.
Weight decay is left out for biases and LayerNorm parameters only; the tied word embedding counts
once. The learning rate of step t = 1 … 20 is HF's linear schedule read one step later, peak · min(t
/ 5, (20 - t) / 15), so that the first step is not idle and the last, whose loss is already known,
is."""

import torch
import transformers
from transformers import NystromformerConfig, NystromformerForMaskedLM

from common import FIXTURES, folder_bytes, write_tensors

STEPS, WARMUP, PEAK = 20, 5, 1e-4
BATCH, LENGTH, LANDMARKS = 4, 16, 4
VOCAB, PAD, MASK = 50, 1, 4
IGNORED = -100
CLIP_NORM = 1.0


def learning_rate(step: int) -> float:
    return PEAK * min(step / WARMUP, (STEPS - step) / (STEPS - WARMUP))


def make_model() -> NystromformerForMaskedLM:
    model = NystromformerForMaskedLM(
        NystromformerConfig(
            vocab_size=VOCAB,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=LENGTH,
            segment_means_seq_len=LENGTH,
            num_landmarks=LANDMARKS,
            conv_kernel_size=5,
            pad_token_id=PAD,
        )
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".query." in name or ".key." in name:
                parameter.mul_(20)  # makes attention sharp
            elif name.endswith("transform.LayerNorm.weight"):
                parameter.mul_(0.4)  # puts gradient norms on both sides of the clipping threshold
            elif "embeddings.weight" not in name and "LayerNorm" not in name:
                parameter.mul_(5)
    return model


def make_batches() -> dict[str, torch.Tensor]:
    """Text over few of the words, each mostly its predecessor plus three, so that 20 steps change
    the loss visibly."""
    shape = (STEPS, BATCH, LENGTH)
    start = torch.randint(0, 8, shape[:2]).unsqueeze(-1)
    text = 5 + (start + 3 * torch.arange(LENGTH)) % 8
    text = torch.where(torch.rand(shape) < 0.1, torch.randint(5, VOCAB, shape), text)

    lengths = torch.randint(LENGTH // 2, LENGTH + 1, shape[:2])
    mask = (torch.arange(LENGTH) < lengths.unsqueeze(-1)).long()

    # With the one that every row has, about 15 to 30 % are masked. The share differs between steps.
    rate = torch.linspace(0.06, 0.24, 5).repeat(STEPS // 5).view(STEPS, 1, 1)
    chosen = (torch.rand(shape) < rate) & (mask == 1)
    chosen[:, :, 1] = True
    ids = torch.where(chosen & (torch.rand(shape) < 0.8), MASK, text)
    return {
        "input_ids": torch.where(mask == 1, ids, PAD),
        "attention_mask": mask,
        "labels": torch.where(chosen, text, IGNORED),
    }


def make_optimizer(model: torch.nn.Module) -> torch.optim.AdamW:
    plain, decayed = [], []
    for name, parameter in model.named_parameters():
        (plain if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK, betas=(0.9, 0.999), eps=1e-8)


def train(
    model: NystromformerForMaskedLM, batches: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    optimizer = make_optimizer(model)
    rates = [learning_rate(step) for step in range(1, STEPS + 1)]
    losses, norms = [], []
    for index, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss = model(**{name: tensor[index] for name, tensor in batches.items()}).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())

    results = {"losses": losses, "grad_norms": norms, "learning_rates": rates}
    results = {name: torch.tensor(values, dtype=torch.float64) for name, values in results.items()}
    return results | {"final." + name: parameter for name, parameter in model.named_parameters()}


def main() -> None:
    torch.set_num_threads(1)  # the same order of summation on every machine
    transformers.logging.set_verbosity_error()
    torch.manual_seed(20)
    folder = FIXTURES / "trace"
    make_model().save_pretrained(folder, safe_serialization=True)
    batches = make_batches()
    write_tensors(folder / "batches.safetensors", batches)

    # eval() disables dropout; gradients are still computed.
    model = NystromformerForMaskedLM.from_pretrained(folder, dtype=torch.float64).eval()
    results = train(model, batches)
    write_tensors(folder / "expected.safetensors", results)

    clipped = int((results["grad_norms"] > CLIP_NORM).sum())
    print("losses", [f"{loss:.4f}" for loss in results["losses"]])
    print("gradient norms", [f"{norm:.3f}" for norm in results["grad_norms"]])
    print(f"clipped in {clipped} of {STEPS} steps; {folder_bytes(folder)} bytes")


if __name__ == "__main__":
    main()

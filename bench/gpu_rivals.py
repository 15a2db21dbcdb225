"""What nystrom is compared with on a GPU, each in a process of its own, in PyTorch.

    python3 bench/gpu_rivals.py steps bert-flash --lengths 512 4096 --tokens 65536 …
    python3 bench/gpu_rivals.py attention --lengths 512 4096 --tokens 65536

steps: whole training steps of equal work, compiled: masked language model with 15 % of the tokens
chosen and logits at those alone, hidden dropout 0.1, loss, backward, clipping to norm 1, fused
AdamW, bf16 autocast. bert-flash and bert-cudnn are BERT with that attention kernel, without dropout
of its weights; hf is transformers' Nyströmformer. Compilation takes a minute and the GPU an instant:
it runs beside the tests, and takes --lock before it uses the GPU. Measurements wait for --go.

attention: forward and backward of one attention of 12 heads of width 64, by cuDNN, by
FlashAttention, and transformers' Nyström attention with 64 landmarks.

No text is padded, so nobody gets a mask: transformers 5 would build one of n × n, with which BERT
leaves its fused attention. A kernel other than the one asked for is an error. Prints one JSON
object a measurement."""

import argparse
import contextlib
import fcntl
import json
import statistics
import time
from pathlib import Path

import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel

MASKED_SHARE, LANDMARKS, CONV, VOCAB = 0.15, 64, 33, 30000
HEADS, WIDTH = 12, 64
BACKENDS = {
    "bert-flash": (SDPBackend.FLASH_ATTENTION, "_scaled_dot_product_flash_attention"),
    "bert-cudnn": (SDPBackend.CUDNN_ATTENTION, "_scaled_dot_product_cudnn_attention"),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["steps", "attention"])
    parser.add_argument("contestant", nargs="?", choices=[*BACKENDS, "hf"])
    parser.add_argument("--lengths", nargs="+", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True, help="of a step")
    parser.add_argument("--at-once", type=int, help="tokens of a micro-batch")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--lock", type=Path, required=True, help="held while the GPU is used")
    parser.add_argument("--go", type=Path, help="a file that says when to measure")
    parser.add_argument("--cpu", action="store_true", help="for trials without a GPU")
    arguments = parser.parse_args()
    arguments.device = "cpu" if arguments.cpu else "cuda"
    return arguments


def tell(**result) -> None:
    print(json.dumps(result), flush=True)


def synchronize(arguments) -> None:
    if not arguments.cpu:
        torch.cuda.synchronize()


class Lock:
    """The GPU's, which other processes take too. It may be asked for twice."""

    def __init__(self, path: Path):
        self.file, self.held = open(path, "w"), False  # noqa: SIM115

    def take(self) -> None:
        if not self.held:
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.held = True

    def release(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)
        self.held = False


# --- Steps ----------------------------------------------------------------------------------------


def drop_masks() -> None:
    """Makes no masks of texts that nobody padded, in transformers 4.57 and 5."""
    import transformers.models.bert.modeling_bert as bert
    import transformers.models.nystromformer.modeling_nystromformer as nystromformer

    for place in (bert, nystromformer, nystromformer.NystromformerModel):
        for name in (
            "create_bidirectional_mask",
            "_prepare_4d_attention_mask_for_sdpa",
            "get_extended_attention_mask",
        ):
            if hasattr(place, name):
                setattr(place, name, lambda *_, **__: None)


def make_model(
    contestant: str, length: int, layers: int, hidden: int = HEADS * WIDTH, heads: int = HEADS
):
    sizes = {
        "vocab_size": VOCAB,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
        "max_position_embeddings": length,
        "hidden_dropout_prob": 0.1,
    }
    if contestant == "hf":
        config = transformers.NystromformerConfig(
            **sizes, segment_means_seq_len=length, num_landmarks=LANDMARKS, conv_kernel_size=CONV
        )
        return transformers.NystromformerForMaskedLM(config)
    config = transformers.BertConfig(
        **sizes, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"
    )
    return transformers.BertForMaskedLM(config)


def compiled(function, lock: Lock):
    """torch.compile, which takes the lock between compiling and the first run."""
    from torch._inductor.compile_fx import compile_fx

    with contextlib.suppress(AttributeError):  # compile the backward pass before the first run too
        torch._functorch.config.force_non_lazy_backward_lowering = True

    def backend(graph, inputs):
        made = compile_fx(graph, inputs)

        def run(*operands):
            lock.take()
            return made(*operands)

        return run

    return torch.compile(function, backend=backend, dynamic=False)


class Steps:
    """One model of one length, and its steps."""

    def __init__(self, arguments, length: int, lock: Lock):
        self.arguments, self.length, self.lock = arguments, length, lock
        device = arguments.device
        self.at_once = arguments.at_once or arguments.tokens
        self.model = make_model(arguments.contestant, length, arguments.layers).to(device).train()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True
        )
        self.loss_of = compiled(self.loss, lock)

    def loss(self, inputs, ids, masked):
        hidden = self.model.base_model(input_ids=inputs)[0].flatten(0, 1)[masked]
        return torch.nn.functional.cross_entropy(self.model.cls(hidden), ids.flatten()[masked])

    def attention(self):
        backend = BACKENDS.get(self.arguments.contestant)
        if backend is None or self.arguments.cpu:
            return contextlib.nullcontext()
        return sdpa_kernel(backend[0])

    def step(self) -> tuple[float, float]:
        """Seconds and loss."""
        device, parts = self.arguments.device, self.arguments.tokens // self.at_once
        shape = (parts, self.at_once // self.length, self.length)
        ids = torch.randint(5, VOCAB, shape, device=device)
        count = round(MASKED_SHARE * self.at_once)
        masked = [torch.randperm(self.at_once, device=device)[:count] for _ in range(parts)]
        inputs = [
            ids[i].flatten().index_fill(0, masked[i], 4).view(shape[1:]) for i in range(parts)
        ]
        synchronize(self.arguments)
        start = time.perf_counter()
        self.optimizer.zero_grad()
        total = 0.0
        for i in range(parts):
            with torch.autocast(device, torch.bfloat16), self.attention():
                loss = self.loss_of(inputs[i], ids[i], masked[i]) / parts
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        value = total.item()
        synchronize(self.arguments)
        return time.perf_counter() - start, value

    def attention_ops(self) -> set[str]:
        """The attention kernels of a step."""
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self.step()
        names = {event.key.removeprefix("aten::") for event in profile.key_averages()}
        return {
            name
            for name in names
            if name.startswith("_scaled_dot_product_") and not name.endswith("_backward")
        }

    def check_attention(self) -> None:
        if self.arguments.contestant == "hf":
            return
        wanted = BACKENDS[self.arguments.contestant][1]
        if self.arguments.cpu:
            wanted = "_scaled_dot_product_flash_attention_for_cpu"
        found = self.attention_ops()
        if found != {wanted}:
            raise RuntimeError(f"attention ran as {sorted(found)} instead of {wanted}")

    def rest(self) -> None:
        """Leaves the GPU's memory and time to others."""
        self.optimizer.zero_grad()
        if not self.arguments.cpu:
            torch.cuda.empty_cache()
        self.lock.release()

    def measure(self) -> dict:
        self.lock.take()
        for _ in range(self.arguments.warmup):
            self.step()
        if not self.arguments.cpu:
            torch.cuda.reset_peak_memory_stats()
        steps = [self.step() for _ in range(self.arguments.steps)]
        seconds = [step[0] for step in steps]
        median = statistics.median(seconds)
        peak = 0 if self.arguments.cpu else torch.cuda.max_memory_allocated()
        return {
            "median_step_seconds": median,
            "step_seconds": seconds,
            "tokens_per_second": self.arguments.tokens / median,
            "peak_memory_bytes": peak,
            "tokens_at_once": self.at_once,
            "last_loss": steps[-1][1],
        }


def run_steps(arguments, lock: Lock) -> None:
    drop_masks()
    torch.backends.cuda.matmul.allow_tf32 = True
    ready: dict[int, Steps] = {}
    for length in arguments.lengths:
        start = time.perf_counter()
        try:
            torch.manual_seed(0)
            steps = Steps(arguments, length, lock)
            steps.step()
            steps.check_attention()
            ready[length] = steps
            tell(length=length, compile_seconds=time.perf_counter() - start)
        except Exception as error:  # the other length may do
            tell(length=length, error=f"{type(error).__name__}: {str(error)[:600]}")
        finally:
            if length in ready:
                ready[length].rest()
            else:
                lock.release()
    while arguments.go and not arguments.go.exists():
        time.sleep(0.05)
    for length, steps in ready.items():
        try:
            tell(length=length, **steps.measure())
        except Exception as error:
            tell(length=length, error=f"{type(error).__name__}: {str(error)[:600]}")
        finally:
            steps.rest()


# --- Attention alone ------------------------------------------------------------------------------


def sdpa(arguments, length: int, backend):
    shape = (arguments.tokens // length, HEADS, length, WIDTH)
    q, k, v = (
        torch.randn(shape, device=arguments.device, dtype=torch.bfloat16, requires_grad=True)
        for _ in range(3)
    )

    def run():
        with contextlib.nullcontext() if arguments.cpu else sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return run


def transformers_attention(arguments, length: int):
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    config = transformers.NystromformerConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        num_landmarks=LANDMARKS,
        segment_means_seq_len=length,
        max_position_embeddings=length,
    )
    attention = NystromformerSelfAttention(config).to(arguments.device)
    attention.conv_kernel_size = None
    attention.query = attention.key = attention.value = torch.nn.Identity()
    shape = (arguments.tokens // length, length, HEADS * WIDTH)
    hidden = torch.randn(shape, device=arguments.device, dtype=torch.bfloat16, requires_grad=True)

    def run():
        with torch.autocast(arguments.device, torch.bfloat16):
            return attention(hidden)[0]

    return run


def run_attention(arguments, lock: Lock) -> None:
    made = {
        "cuDNN": lambda length: sdpa(arguments, length, SDPBackend.CUDNN_ATTENTION),
        "FlashAttention": lambda length: sdpa(arguments, length, SDPBackend.FLASH_ATTENTION),
        "transformers": lambda length: transformers_attention(arguments, length),
    }
    lock.take()
    for length in arguments.lengths:
        for name, make in made.items():
            try:
                run, seconds = make(length), []
                for _ in range(arguments.steps + 1):
                    synchronize(arguments)
                    start = time.perf_counter()
                    out = run()
                    out.backward(torch.ones_like(out))
                    synchronize(arguments)
                    seconds.append(time.perf_counter() - start)
                tell(kind=name, length=length, seconds=min(seconds[1:]))
            except Exception as error:
                tell(kind=name, length=length, error=str(error)[:300])


def main() -> None:
    arguments = parse_arguments()
    lock = Lock(arguments.lock)
    (run_steps if arguments.what == "steps" else run_attention)(arguments, lock)


if __name__ == "__main__":
    main()

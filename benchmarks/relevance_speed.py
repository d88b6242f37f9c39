"""What source attention and topic inference cost: tokens a second beside the plain language model of the same size.

    python benchmarks/relevance_speed.py [--out results.json] [--width 512] [--rows 512] [--steps 40]

Rows take turns in one run, and a ratio is the median of its rounds. `train`: forward and backward pass and a step of
the optimiser on the same batches of random queries and replies, compiled by part and, on a GPU, recorded as graphs, in
bf16. `write`: 32 tokens drawn for each query, with caches. Tokens are those of queries and replies in training, those
written in writing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tagsmith.data.replies import MOST_TOPICS, ReplyBatch
from tagsmith.decode import Ends, follow
from tagsmith.models.relevance import Relevance, RelevanceConfig
from tagsmith.train.graphs import Graphed

VOCAB, SOURCE, TARGET, WRITTEN, ROUNDS = 12_000, 24, 24, 32, 4
ROWS: dict[str, dict[str, Any]] = {
    "lm": {"source_attention": "none", "topics": False},
    "sublayer": {"source_attention": "sublayer", "topics": False},
    "shared layer": {"source_attention": "shared_layer", "topics": False},
    "topics": {"source_attention": "none", "topics": True},
    "sublayer, topics": {"source_attention": "sublayer", "topics": True},
    "shared layer, topics": {"source_attention": "shared_layer", "topics": True},
}


def batch_of(rows: int, seed: int) -> ReplyBatch:
    """Random queries and replies, all of full length."""
    chance = torch.Generator().manual_seed(seed)
    source = torch.randint(6, VOCAB, (rows, SOURCE), generator=chance)
    target = torch.randint(6, VOCAB, (rows, TARGET), generator=chance)
    informative = torch.rand(rows, SOURCE, generator=chance) < 0.2
    topics = torch.randint(6, VOCAB, (rows, MOST_TOPICS), generator=chance)
    return ReplyBatch(source, torch.full((rows,), SOURCE), target, torch.full((rows,), TARGET), informative, topics)


class Training:
    """One row in training."""

    def __init__(self, model: Relevance, batches: list[ReplyBatch], device: torch.device) -> None:
        self.model, self.batches, self.device = model, batches, device
        for part in model.repeated_parts():
            part.compile(dynamic=True)
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=device.type == "cuda")
        self.work: Callable[[ReplyBatch], None] = self._backward
        if device.type == "cuda":
            self.work = Graphed(self._backward, device)

    def __call__(self, steps: int) -> int:
        """So many steps; returns how many tokens that were."""
        for step in range(steps):
            self.work(self.batches[step % len(self.batches)])
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=self.device.type != "cuda")
        return steps * len(self.batches[0].source) * (SOURCE + TARGET)

    def _backward(self, batch: ReplyBatch) -> None:
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss: Tensor = self.model.loss(batch.to(self.device))
        loss.backward()


class Writing:
    """One row that replies."""

    def __init__(self, model: Relevance, batch: ReplyBatch, device: torch.device) -> None:
        self.model, self.batch = model.eval(), batch.to(device)
        self.chances = torch.rand(len(batch.source), WRITTEN, generator=torch.Generator().manual_seed(1)).to(device)

    @torch.inference_mode()
    def __call__(self, steps: int) -> int:
        for _ in range(steps):
            stepper = self.model.stepper(self.batch.source, self.batch.source_lengths)
            for _ in follow(stepper, self.chances, ends=Ends(()), top_k=20):
                pass
        return steps * self.chances.numel()


def rates(systems: dict[str, Callable[[int], int]], steps: int, device: torch.device) -> dict[str, list[float]]:
    """Tokens a second of each, round by round; the first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(ROUNDS):
        for name, system in systems.items():
            start = time.perf_counter()
            tokens = system(steps)
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number:
                found[name].append(tokens / (time.perf_counter() - start))
    return found


def beside(found: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Medians, and the median of what each has beside the plain language model in a round."""
    return {
        name: {
            "tokens_per_second": round(statistics.median(own)),
            "of_lm": round(statistics.median(a / b for a, b in zip(own, found["lm"], strict=True)), 3),
        }
        for name, own in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    sizes = {"vocab": VOCAB, "width": args.width, "inner": 2 * args.width}
    batches = [batch_of(args.rows, seed) for seed in range(4)]
    train, write = (
        {name: Relevance(RelevanceConfig(**sizes, **row)).to(device) for name, row in ROWS.items()} for _ in range(2)
    )
    training = {name: Training(model, batches, device) for name, model in train.items()}
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "width": args.width,
        "rows": args.rows,
        "train": beside(rates({**training}, args.steps, device)),
    }
    kept = torch.bfloat16 if device.type == "cuda" else torch.float32
    writing = {name: Writing(model.to(kept), batches[0], device) for name, model in write.items()}
    result["write"] = beside(rates({**writing}, max(1, args.steps // 20), device))
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

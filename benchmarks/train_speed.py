"""Training speed of the 4+4-layer, 512-wide model against a compiled `nn.Transformer` of the same size, in one run.

    python benchmarks/train_speed.py [--out results.json]

Both get the same batches (bf16 autocast, fused AdamW, dropout 0.1, label smoothing 0.1, vocabulary 20,000) and are
compiled as they train best: ours by part and with its steps recorded as graphs, the other whole with static shapes,
its best case.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from tagsmith.data.batches import PairBatch
from tagsmith.models.segtrm import SegTrm, SegTrmConfig
from tagsmith.train.graphs import Graphed

VOCAB, WIDTH, POSTS, SOURCE, TARGET = 20_000, 512, 512, 40, 8


class Plain(nn.Module):
    """`nn.Transformer` with embeddings, tied output and the same loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, width)
        self.places = nn.Parameter(torch.randn(128, width) * 0.02)
        self.body = nn.Transformer(
            width, 8, 4, 4, 4 * width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )

    def loss(self, batch: PairBatch) -> Tensor:
        source = self.table(batch.source) + self.places[: batch.source.shape[1]]
        begin = torch.full_like(batch.target[:, :1], 4)
        target = self.table(torch.cat([begin, batch.target[:, :-1]], 1)) + self.places[: batch.target.shape[1]]
        gone = batch.source == 0
        ahead = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device).isinf()
        states = self.body(
            source, target, tgt_mask=ahead, src_key_padding_mask=gone, memory_key_padding_mask=gone, tgt_is_causal=True
        )
        scores = states @ self.table.weight.T
        return nn.functional.cross_entropy(
            scores.flatten(0, 1).float(), batch.target.flatten(), ignore_index=0, label_smoothing=0.1
        )

    def forward(self, batch: PairBatch) -> Tensor:
        return self.loss(batch)


def batches(count: int, device: str) -> list[PairBatch]:
    """Like-sized posts with a few padded places, as length buckets give them."""
    made = []
    for seed in range(count):
        chance = torch.Generator().manual_seed(seed)
        lengths = torch.randint(SOURCE - 7, SOURCE + 1, (POSTS,), generator=chance)
        source = torch.randint(6, VOCAB, (POSTS, SOURCE), generator=chance)
        source[torch.arange(SOURCE) >= lengths[:, None]] = 0
        target = torch.randint(6, VOCAB, (POSTS, TARGET), generator=chance)
        made.append(PairBatch(source, lengths, target, torch.full((POSTS,), TARGET)).to(device))
    return made


def posts_per_second(model: nn.Module, data: list[PairBatch], *, graphs: bool, steps: int, device: str) -> float:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=device == "cuda")

    def backward(batch: PairBatch) -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(batch)
        loss.backward()

    work = Graphed(backward, torch.device(device)) if graphs else backward
    rounds = []
    for number in range(4):  # the first warms up
        start = time.perf_counter()
        for step in range(steps):
            work(data[step % len(data)])
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=not graphs)
        if device == "cuda":
            torch.cuda.synchronize()
        if number:
            rounds.append(steps * len(data[0].source) / (time.perf_counter() - start))
    return sorted(rounds)[1]


class Ours(nn.Module):
    """`loss` as a forward pass."""

    def __init__(self, config: SegTrmConfig, *, fast: bool) -> None:
        super().__init__()
        self.model = SegTrm(config)
        if fast:
            for part in self.model.repeated_parts():
                part.compile(dynamic=True)

    def forward(self, batch: PairBatch) -> Tensor:
        return self.model.loss(batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = batches(8, device)
    plain = SegTrmConfig(vocab=VOCAB, segments=False, smoothing=0.1)
    soft = SegTrmConfig(vocab=VOCAB, top=4, smoothing=0.1)
    rows = {
        "nn.Transformer, eager": Plain(WIDTH).to(device),
        "nn.Transformer, compiled": torch.compile(Plain(WIDTH).to(device)),
        "ours (TRANSABS), eager": Ours(plain, fast=False).to(device),
        "ours (TRANSABS), compiled": Ours(plain, fast=True).to(device),
        "ours (TRANSABS), graphs": Ours(plain, fast=False).to(device),
        "ours (TRANSABS), compiled, graphs": Ours(plain, fast=True).to(device),
        "ours (SEGTRM soft), compiled, graphs": Ours(soft, fast=True).to(device),
    }
    speeds = {}
    for label, model in rows.items():
        graphs = label.endswith("graphs") and device == "cuda"
        speeds[label] = round(posts_per_second(model, data, graphs=graphs, steps=args.steps, device=device))
        print(f"{label}: {speeds[label]:,} posts/s", flush=True)
    ratio = round(speeds["ours (TRANSABS), compiled, graphs"] / speeds["nn.Transformer, compiled"], 3)
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    result = {"device": name, "torch": torch.__version__, "posts_per_second": speeds, "ratio": ratio}
    print(json.dumps(result, indent=1))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

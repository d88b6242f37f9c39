"""How near replies are to what people replied: an automatic stand-in for ratings of relevance, and no more than that.

    python benchmarks/reply_relevance.py TEST REPLIES ... --encoder FOLDER --out results.jsonl

REPLIES are files that `tagsmith reply --input TEST --top 1 --seed 1 --output runs/ROW/NAME-WAY.jsonl` wrote, as
`reply_table.py run` does; a row is called after its folder, or `--row` names it. FOLDER is a Hugging Face encoder of
sentences (English: all-minilm-l6-v2, Chinese: m3e-small-zh; mean of the last states). The measures are cosines:

relevance        of a reply and the nearest of the query's references
relevance_query  of a reply and its query
chance           of a reply and the nearest reference of the next query: what being a reply is worth by itself
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tagsmith.data.readers import BadRow, read_rows
from tagsmith.records import Pair, pair_of


class Encoder:
    """Texts as vectors of length one."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokeniser: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModel.from_pretrained(folder).float().eval()
        self.known: dict[str, Tensor] = {}

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str], *, at_once: int = 64) -> dict[str, Tensor]:
        """A vector for each different text; the test's own are asked for with every file, and read once."""
        every = sorted(set(texts) - self.known.keys(), key=len)
        for start in range(0, len(every), at_once):
            some = every[start : start + at_once]
            read = self.tokeniser(some, padding=True, truncation=True, max_length=128, return_tensors="pt")
            states, real = self.model(**read).last_hidden_state, read["attention_mask"][:, :, None]
            mean = (states * real).sum(1) / real.sum(1)
            self.known.update(zip(some, torch.nn.functional.normalize(mean, dim=-1), strict=True))
        return self.known


def measure(pairs: Sequence[Pair], said: Sequence[str], encode: Encoder) -> dict[str, float]:
    """All measures; a query without a reply counts 0."""
    answered = [place for place, text in enumerate(said) if text.strip()]
    texts = [text for pair in pairs for text in (pair.query, *pair.responses)] + [said[place] for place in answered]
    vectors = encode(texts)

    def nearest(reply: str, others: Sequence[str]) -> float:
        return float((torch.stack([vectors[one] for one in others]) @ vectors[reply]).max())

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(pairs)

    return {
        "relevance": mean([nearest(said[place], pairs[place].responses) for place in answered]),
        "relevance_query": mean([nearest(said[place], [pairs[place].query]) for place in answered]),
        "chance": mean([nearest(said[place], pairs[(place + 1) % len(pairs)].responses) for place in answered]),
    }


def read_replies(path: Path) -> list[str]:
    """The first reply of each line; none where there is none."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line["replies"][0]["text"] if line.get("replies") else "" for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test")
    parser.add_argument("replies", type=Path, nargs="+")
    parser.add_argument("--encoder", type=Path, required=True)
    parser.add_argument("--row", default="")
    parser.add_argument("--out", type=Path, default=Path("results.jsonl"))
    args = parser.parse_args()
    encode = Encoder(args.encoder)
    rows = [row for row in read_rows(args.test) if not isinstance(row, BadRow)]
    pairs = [pair_of(row) for row in rows]
    for path in args.replies:
        said = read_replies(path)
        if len(said) != len(pairs):
            raise SystemExit(f"{path} has {len(said):,} lines, {args.test} has {len(pairs):,}: not its replies")
        way = path.stem.rpartition("-")[2]
        line = {"row": args.row or path.parent.name, "way": way, "encoder": args.encoder.name, "n": len(pairs)}
        line |= measure(pairs, said, encode)
        print(json.dumps(line))
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()

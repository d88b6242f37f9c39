"""From a post's vector to the weights of known tags, and of tags learned later from a few examples.

    vector --linear--> scores of the tags trained on --softmax--> weights
           --linear--> scores of the tags learned since, each set against all of those --> weights

A learned tag stands outside the softmax, so that learning it changes no other tag's weight. Its row is the one that the
mean of its examples foretells: how the rows of trained tags follow from the means of their posts is measured once,
after training, by ridge regression towards rows that point to the mean.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from tagsmith.nn.linear import Linear


class TagHead(nn.Module):
    """Rows for known and for learned tags, and what new rows are made from."""

    def __init__(self, width: int, tags: int, *, learned: int = 0) -> None:
        super().__init__()
        self.known = Linear(width, tags)
        self.learned_rows = _kept(learned, width)
        self.learned_bias = _kept(learned)
        self.center = _kept(width)  # the mean of all posts
        self.usual = _kept(width + 1)  # the mean row and bias of the trained tags
        self.foretell = _kept(width + 1, width)  # from a mean, less the center, to a row and bias, less the usual

    def forward(self, vectors: Tensor) -> Tensor:
        """Scores of the tags trained on.  (batch, width) -> (batch, tags)"""
        return self.known(vectors)

    def weights(self, vectors: Tensor, *, temperature: float = 1.0) -> Tensor:
        """What to believe of each tag, the learned ones last.  (batch, width) -> (batch, tags + learned)"""
        known = self.known(vectors).float() / temperature
        if not len(self.learned_rows):
            return known.softmax(-1)
        learned = linear(vectors.float(), self.learned_rows.float(), self.learned_bias.float()) / temperature
        rivals = known.logsumexp(-1, keepdim=True)
        return torch.cat([known.softmax(-1), (learned - rivals).sigmoid()], dim=-1)

    @torch.no_grad()
    def measure(self, vectors: Tensor, tags: Tensor, *, ridge: float = 0.1, doubt: float = 5.0) -> None:
        """How rows follow from means; a tag counts the more, the more posts it has.  (posts, width), (posts,)"""
        means, sizes = _means(vectors.double(), tags, len(self.known.weight))
        share = (sizes / (sizes + doubt))[:, None]  # (tags, 1)
        center = vectors.double().mean(0)
        rows = torch.cat([self.known.weight, self.known.bias[:, None]], dim=1).double()
        usual = (share * rows).sum(0) / share.sum()
        apart, wanted = means - center, rows - usual
        spread, same = apart.T @ (share * apart), torch.eye(apart.shape[1], dtype=torch.double)
        trust = ridge * spread.diagonal().mean()  # in a row that simply points to the mean, which needs no tags
        slope = (share * apart * wanted[:, :-1]).sum() / spread.trace()
        points = slope * nn.functional.pad(same, (0, 1))
        found = torch.linalg.solve(spread + trust * same, apart.T @ (share * wanted) + trust * points)
        for kept, value in ((self.center, center), (self.usual, usual), (self.foretell, found.T)):
            kept.copy_(value)

    @torch.no_grad()
    def row_for(self, examples: Tensor, *, doubt: float) -> tuple[Tensor, Tensor]:
        """The row and bias of a tag with these examples.  (examples, width) -> (width,), ()

        `doubt` is how many examples' worth of trust the mean of all posts has: few examples move little.
        """
        share = len(examples) / (len(examples) + doubt)
        apart = share * (examples.float().mean(0) - self.center.float())
        row = self.usual.float() + self.foretell.float() @ apart
        return row[:-1], row[-1]

    @torch.no_grad()
    def lacking(self, examples: Tensor, row: Tensor, bias: Tensor, *, chance: float, temperature: float) -> Tensor:
        """What must be added to a bias so that a new tag has that chance on its own examples, on average.  -> ()"""
        rivals = (self.known(examples.to(self.known.weight.dtype)).float() / temperature).logsumexp(-1)
        scores = (examples.float() @ row + bias) / temperature - rivals
        return temperature * (math.log(chance / (1 - chance)) - scores.mean())


def _kept(*shape: int) -> nn.Parameter:
    """Numbers that are saved with the weights and not trained."""
    return nn.Parameter(torch.zeros(*shape), requires_grad=False)


def _means(vectors: Tensor, tags: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean vector of each tag's posts, and how many there are."""
    sizes = vectors.new_zeros(count).index_add_(0, tags, vectors.new_ones(len(tags)))
    sums = vectors.new_zeros(count, vectors.shape[1]).index_add_(0, tags, vectors)
    return sums / sizes.clamp(min=1)[:, None], sizes

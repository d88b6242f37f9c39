"""From a post's vector to the weights of known tags, and of tags learned later from a few examples.

    vector --linear--> scores of the tags trained on --softmax--> weights
           --linear--> log-odds of the tags learned since --sigmoid--> weights

A learned tag stands outside the softmax, so that learning it changes no other tag's weight. Its row comes from its
examples' vectors by linear discriminant analysis: the examples' mean against the mean of all posts, under the scatter
that posts have around the mean of their tag, all of vectors brought to length 1. Mean and scatter are measured once,
after training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize


class TagHead(nn.Module):
    """Rows for known and for learned tags, and what new rows are made from."""

    def __init__(self, width: int, tags: int, *, learned: int = 0) -> None:
        super().__init__()
        self.known = nn.Linear(width, tags)
        self.learned_rows = nn.Parameter(torch.zeros(learned, width), requires_grad=False)
        self.learned_bias = nn.Parameter(torch.zeros(learned), requires_grad=False)
        self.center = nn.Parameter(torch.zeros(width), requires_grad=False)  # the mean of all posts
        self.precision = nn.Parameter(torch.eye(width), requires_grad=False)  # inverse scatter within tags

    def forward(self, vectors: Tensor) -> Tensor:
        """Scores of the tags trained on.  (batch, width) -> (batch, tags)"""
        return self.known(vectors)

    def weights(self, vectors: Tensor, *, temperature: float = 1.0) -> Tensor:
        """What to believe of each tag, the learned ones last.  (batch, width) -> (batch, tags + learned)"""
        known = (self.known(vectors).float() / temperature).softmax(-1)
        if not len(self.learned_rows):
            return known
        odds = linear(normalize(vectors.float(), dim=-1), self.learned_rows.float(), self.learned_bias.float())
        return torch.cat([known, odds.sigmoid()], dim=-1)

    @torch.no_grad()
    def measure(self, vectors: Tensor, tags: Tensor, *, ridge: float = 0.05) -> None:
        """Mean of all posts, and their scatter around the means of their tags.  (posts, width), (posts,)"""
        vectors = normalize(vectors.double(), dim=-1)
        count = int(tags.max()) + 1
        sizes = torch.zeros(count, dtype=torch.double).index_add_(0, tags, torch.ones_like(tags, dtype=torch.double))
        means = torch.zeros(count, vectors.shape[1], dtype=torch.double).index_add_(0, tags, vectors)
        means /= sizes.clamp(min=1)[:, None]
        apart = vectors - means[tags]
        scatter = apart.T @ apart / max(1, len(vectors) - int((sizes > 0).sum()))
        scatter += ridge * scatter.diagonal().mean() * torch.eye(len(scatter), dtype=torch.double)
        self.center.copy_(vectors.mean(0))
        self.precision.copy_(torch.linalg.inv(scatter))

    @torch.no_grad()
    def row_for(self, examples: Tensor, *, prior: float, doubt: float) -> tuple[Tensor, Tensor]:
        """The discriminant of a tag with these examples.  (examples, width) -> row (width,), bias ()

        `doubt` is how many examples' worth of trust the mean of all posts has: few examples move little.
        """
        center, precision = self.center.double(), self.precision.double()
        share = len(examples) / (len(examples) + doubt)
        apart = share * (normalize(examples.double(), dim=-1).mean(0) - center)
        row = precision @ apart
        bias = -(center + apart / 2) @ row + torch.logit(torch.tensor(prior, dtype=torch.double))
        return row.float(), bias.float()

"""Boolean masks, True where a query may look at a key; they compose with `&` and `|`.

Shapes: (query, key) or (batch, query, key), a query dimension of 1 standing for all queries. Nobody else builds masks.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

SegmentView = Literal["full", "seg_row", "seg_row_col", "block"]


def padding(lengths: Tensor, longest: int) -> Tensor:
    """Keys that hold something: the first `lengths` of each row.  (batch,) -> (batch, 1, longest)"""
    places = torch.arange(longest, device=lengths.device)
    return (places < lengths[:, None])[:, None, :]


def causal(length: int, device: torch.device | None = None) -> Tensor:
    """Each query sees itself and what came before.  -> (length, length)"""
    places = torch.arange(length, device=device)
    return places[:, None] >= places[None, :]


def behind(query: Tensor, places: int) -> Tensor:
    """Places behind a query: each sees all of the query, itself and the places before.

    query (batch, 1, source) as `padding` gives it -> (batch, places, source + places)
    """
    own = causal(places, query.device).expand(query.shape[0], -1, -1)
    return torch.cat([query.expand(-1, places, -1), own], dim=-1)


def window(length: int, radius: int, device: torch.device | None = None) -> Tensor:
    """Each query sees the keys at most `radius` away.  -> (length, length)"""
    places = torch.arange(length, device=device)
    return (places[:, None] - places[None, :]).abs() <= radius


def segment_view(
    segments: int, size: int, *, view: SegmentView = "seg_row", device: torch.device | None = None
) -> Tensor:
    """Who sees whom in the grid [S] ([SEG] token*size)*segments.  -> (grid, grid)

    full: all see all. seg_row (the paper): [SEG] sees its own segment only. seg_row_col: besides, [SEG] sees [S], and
    the tokens of other segments do not see it. block: every token sees its own segment and [S].
    """
    grid = 1 + segments * (size + 1)
    places = torch.arange(grid, device=device)
    number = (places - 1).div(size + 1, rounding_mode="floor")  # -1 for [S]
    is_text = places == 0  # paper: [S]
    is_segment = ((places - 1) % (size + 1) == 0) & ~is_text  # paper: [SEG]
    same = number[:, None] == number[None, :]
    to_text, from_text = is_text[None, :], is_text[:, None]
    if view == "full":
        return torch.ones(grid, grid, dtype=torch.bool, device=device)
    if view == "seg_row":
        return same | ~is_segment[:, None]
    if view == "seg_row_col":
        return same | to_text | from_text | (~is_segment[:, None] & ~is_segment[None, :])
    return same | to_text | from_text


def or_itself(mask: Tensor) -> Tensor:
    """Each place besides sees itself: fused kernels may answer a place that sees nothing with no number at all."""
    return mask | torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)


def phrase_view(begins: Tensor, *, last: int = 0) -> Tensor:
    """Who sees whom in a row of phrases: the own phrase so far, and of earlier ones only where the next one began.

    That place, which closes one phrase and begins the next, sees all of the phrase it closes, so it can sum it up.
    begins (batch, length) -> (batch, length, length), or only the `last` queries.
    """
    length = begins.shape[1]
    number = begins.cumsum(1)  # of the phrase
    here, there = number[:, -last:, None], number[:, None, :]
    own = (here == there) | (begins[:, -last:, None] & (there == here - 1)) | begins[:, None, :]
    places = torch.arange(length, device=begins.device)
    return own & (places[-last:, None] >= places)

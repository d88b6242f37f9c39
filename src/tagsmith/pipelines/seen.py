"""What a Transformer made of the latest texts, for models that share it: each is read once, whatever is asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tagsmith.data.reading import ReadBatch

MOST = 16_384  # tokens whose states are kept: 25 MB with a width of 384
Ids = tuple[int, ...]


class Seen:
    """The states of texts that were read, the latest of them."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.kept: OrderedDict[Ids, Tensor] = OrderedDict()  # (tokens, width) each
        self.tokens = 0

    def filled(self, model: Any, batch: ReadBatch, texts: Sequence[Ids]) -> ReadBatch:
        """The batch with its states; only the texts that are not known are read."""
        found = [self.kept.get(text) for text in texts]
        if fresh := [place for place, states in enumerate(found) if states is None]:
            ids, lengths = batch.ids[fresh], batch.lengths[fresh]
            for place, states in zip(fresh, model.reader(ids, ids, lengths).states, strict=True):
                found[place] = states[: len(texts[place])].clone()
        for text, states in zip(texts, found, strict=True):
            self._keep(text, states)
        states = pad_sequence([one for one in found if one is not None], batch_first=True)
        return batch._replace(states=nn.functional.pad(states, (0, 0, 0, batch.ids.shape[1] - states.shape[1])))

    def _keep(self, text: Ids, states: Tensor | None) -> None:
        """As the latest; the oldest go when there are too many."""
        if states is None or len(text) > self.most:
            return
        self.tokens += len(text) if text not in self.kept else 0
        self.kept[text] = states
        self.kept.move_to_end(text)
        while self.tokens > self.most:
            oldest, _ = self.kept.popitem(last=False)
            self.tokens -= len(oldest)


_SEEN: WeakKeyDictionary[nn.Module, Seen] = WeakKeyDictionary()


def seen_by(reader: nn.Module) -> Seen:
    """The memory of a Transformer; all who have it have the same."""
    return _SEEN.setdefault(reader, Seen())

"""What a Transformer made of the latest texts, for models that share it: each is read once, whatever is asked."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tagsmith.data.reading import ReadBatch

MOST = 16_384  # tokens whose states are kept: 25 MB with a width of 384
Ids = tuple[int, ...]


class Seen:
    """The states of texts that were read, the latest of them; any thread may ask."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.kept: OrderedDict[Ids, Tensor] = OrderedDict()  # (tokens, width) each
        self.tokens = 0
        self.lock = Lock()

    def filled(self, model: Any, batch: ReadBatch, texts: Sequence[Ids]) -> ReadBatch:
        """The batch with its states; only the texts that are not known are read."""
        with self.lock:
            found = {text: self.kept[text] for text in texts if text in self.kept}
        if fresh := [place for place, text in enumerate(texts) if text not in found]:
            ids, lengths = batch.ids[fresh], batch.lengths[fresh]
            for place, states in zip(fresh, model.reader(ids, ids, lengths).states, strict=True):
                found[texts[place]] = states[: len(texts[place])].clone()
        with self.lock:
            for text, states in found.items():
                self.keep(text, states)
        made = pad_sequence([found[text] for text in texts], batch_first=True)
        return batch._replace(states=nn.functional.pad(made, (0, 0, 0, batch.ids.shape[1] - made.shape[1])))

    def keep(self, text: Ids, states: Tensor) -> None:
        """As the latest; the oldest go when there are too many."""
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

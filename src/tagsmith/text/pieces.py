"""Sub-words learned from a corpus (byte-pair encoding by the `tokenizers` library), and the ids every model shares.

Words break at blanks, marks and between digits and letters; an ideograph is always its own piece, so Chinese needs no
segmenter. A piece that starts a word carries a leading "▁". Frequent tags may be pieces of their own (`names`, ids
from `first_name` on): they are written in one step, never read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tagsmith.errors import BundleError
from tagsmith.text.hashtags import key
from tagsmith.text.memo import WordMemo

SPECIALS = ("[PAD]", "[UNK]", "[END]", "[SEP]", "[S]", "[SEG]")
PAD, UNKNOWN, END, SEPARATOR, TEXT, SEGMENT = range(len(SPECIALS))  # paper: '#' is our [SEP]

IDEOGRAPH = r"\p{Han}"
MARK = r"▁?[^\p{L}\p{M}\p{N}▁\s]"
NUMBER = r"▁?\p{N}{1,4}"


class Pieces:
    """Text to ids and back."""

    def __init__(self, tokenizer: Tokenizer, names: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self.names = tuple(names)
        self.first_name = tokenizer.get_vocab_size()
        self._places = {key(name): self.first_name + place for place, name in enumerate(self.names)}
        tokenizer.encode_special_tokens = True  # the name of a special in a text is plain text
        self._memo = WordMemo(self._encode)

    @classmethod
    def train(cls, texts: Iterable[str], size: int, *, alphabet: int = 1000) -> Pieces:
        """Learn at most `size` pieces; characters beyond the `alphabet` most frequent become unknown."""
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Lowercase(), normalizers.Replace(Regex(rf"\s+(?={IDEOGRAPH})"), "")]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(prepend_scheme="always", split=True),
                *(pre_tokenizers.Split(Regex(each), "isolated") for each in (IDEOGRAPH, MARK, NUMBER)),
            ]
        )
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[AddedToken(name, special=True, normalized=False) for name in SPECIALS],
            limit_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    def with_names(self, names: Sequence[str]) -> Pieces:
        """The same pieces, and these tags whole."""
        return Pieces(self._tokenizer, names)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.first_name + len(self.names)

    def vocabulary(self) -> list[str]:
        """The pieces by id, without the names."""
        found = self._tokenizer.get_vocab()
        return sorted(found, key=lambda piece: found[piece])

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        return self._memo.ids(texts)

    def tag_ids(self, tags: Sequence[str]) -> list[list[int]]:
        """The ids of each tag, given as words: one where it is a name."""
        spelled = self.ids(tags)
        return [[self._places[mark]] if (mark := key(tag)) in self._places else ids for tag, ids in zip(tags, spelled)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each piece of the text stands in it."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def encoded(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, and where the piece of each stands in it, without the blank before it."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [(one.ids, [_without_blank(text, *span) for span in one.offsets]) for text, one in zip(texts, found)]

    def join(self, ids: Sequence[int]) -> str:
        """The text of ids, specials left out."""
        if any(one >= self.first_name for one in ids):
            return " ".join(self.names[one - self.first_name] for one in ids if one >= self.first_name)
        return self._tokenizer.decode(list(ids), skip_special_tokens=True).strip()

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [found.ids for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def save(self, path: Path) -> None:
        """As one JSON file."""
        whole = {"names": self.names, "pieces": json.loads(self._tokenizer.to_str())}
        path.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Pieces:
        """From `save`'s file."""
        try:
            whole = json.loads(path.read_text(encoding="utf-8"))
            return cls(Tokenizer.from_str(json.dumps(whole["pieces"])), whole["names"])
        except Exception as problem:  # the library raises bare Exception for every cause
            raise BundleError(f"{path} is no tokeniser: {problem}; take a fresh copy of the model") from None


def _without_blank(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    return start, end

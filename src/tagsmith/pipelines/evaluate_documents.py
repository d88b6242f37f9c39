"""How good a keyphrase model is on documents whose keyphrases are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from tagsmith.metrics.phrases import ScoredDocument, keyphrase_metrics, measure, score_phrases
from tagsmith.pipelines.keyphrase import KeyphraseTagger, believed
from tagsmith.pipelines.phrases import Phrases
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import whole
from tagsmith.records import Document

SHARES = [0.0, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.4]
CHOSEN_BY = ("present_f1@5", "present_f1@M", "absent_f1@M")


def evaluate_documents(
    tagger: KeyphraseTagger, documents: Iterable[Document], *, intervals: bool = True
) -> dict[str, Any]:
    """The contract's keyphrase metrics, of what the model returns by itself, over documents with keyphrases."""
    return keyphrase_metrics(_scored(tagger, documents), intervals=intervals)


def choose_keep(tagger: KeyphraseTagger, documents: Iterable[Document]) -> float:
    """The share of the best score below which phrases are better left out: where F1@5 and F1@M of all are highest."""
    rest = [document for document in documents if document.keyphrases]
    settings = tagger.settings
    free = replace(settings, keep=0.0)
    tagger.settings = free
    found = tagger.rank(rest)
    tagger.settings = settings
    return max(SHARES, key=lambda share: _worth(rest, found, share, free.top))


def _worth(documents: Sequence[Document], found: Sequence[Phrases], share: float, top: int) -> float:
    scores = [
        score_phrases(
            ScoredDocument(
                text=whole(document),
                predicted=[each.words for each in believed(one.candidates, share, top=top)],
                gold=document.keyphrases,
                variants=document.variants,
            )
        )
        for document, one in zip(documents, found, strict=True)
    ]
    return sum(measure(scores, name) for name in CHOSEN_BY)


def _scored(tagger: KeyphraseTagger, documents: Iterable[Document]) -> Iterator[ScoredDocument]:
    rest = (document for document in documents if document.keyphrases)
    while chunk := list(islice(rest, CHUNK)):
        for document, found in zip(chunk, tagger.rank(chunk), strict=True):
            yield ScoredDocument(
                text=whole(document),
                predicted=[*(one.words for one in found.candidates), *found.repeats],
                gold=document.keyphrases,
                variants=document.variants,
                parts=document.parts,
            )

"""How good a keyphrase model is on documents whose keyphrases are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tagsmith.metrics.phrases import ScoredDocument, keyphrase_metrics
from tagsmith.pipelines.keyphrase import KeyphraseTagger
from tagsmith.pipelines.run import CHUNK
from tagsmith.pipelines.tag import whole
from tagsmith.records import Document


def evaluate_documents(
    tagger: KeyphraseTagger, documents: Iterable[Document], *, intervals: bool = True
) -> dict[str, Any]:
    """The contract's keyphrase metrics, of what the model returns by itself, over documents with keyphrases."""
    return keyphrase_metrics(_scored(tagger, documents), intervals=intervals)


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

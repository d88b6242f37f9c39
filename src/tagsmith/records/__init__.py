"""The records that go in and come out, and their JSON: one shape in Python, JSON lines, HTTP and Parquet.

row (a mapping) --post_of--> Post --pipeline--> Tags --to_row--> row
"""

from tagsmith.records.answers import answers_row, labels_row, reply_row, to_row, vector_row
from tagsmith.records.given import Row, document_of, id_of, labelled_of, pair_of, post_of, question_of
from tagsmith.records.kinds import (
    Answer,
    Answers,
    Document,
    Gold,
    Label,
    Labelled,
    Labels,
    Mark,
    Pair,
    Post,
    Question,
    Replies,
    Reply,
    Segment,
    Span,
    Tag,
    Tags,
    Vector,
)

__all__ = [
    "Answer",
    "Answers",
    "Document",
    "Gold",
    "Label",
    "Labelled",
    "Labels",
    "Mark",
    "Pair",
    "Post",
    "Question",
    "Replies",
    "Reply",
    "Row",
    "Segment",
    "Span",
    "Tag",
    "Tags",
    "Vector",
    "answers_row",
    "document_of",
    "id_of",
    "labelled_of",
    "labels_row",
    "pair_of",
    "post_of",
    "question_of",
    "reply_row",
    "to_row",
    "vector_row",
]

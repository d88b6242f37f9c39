"""A recipe (one TOML file) to a trained bundle: tokeniser, corpus, model, training, thresholds, card.

recipe.toml --read_recipe--> Recipe --make--> OUT/{tokeniser, corpus, checkpoints, metrics, loss plot}, OUT/bundle
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from tagsmith.bundle import Bundle, load_bundle, save_bundle
from tagsmith.config import check_positive, from_dict, read_toml, set_values, to_dict
from tagsmith.data.batches import ROUND, Batches, BatchSettings
from tagsmith.data.corpus import Corpus
from tagsmith.data.readers import BadRow, good, read_posts
from tagsmith.errors import ConfigError
from tagsmith.models import find_model
from tagsmith.models.distil import Distilled
from tagsmith.pipelines.evaluate import choose_keep, evaluate_tagger
from tagsmith.pipelines.tag import Tagger, TagSettings, problem
from tagsmith.records import Post
from tagsmith.text.hashtags import hashtag_of, key, words_of
from tagsmith.text.language import language_of
from tagsmith.text.pieces import SEPARATOR, Pieces
from tagsmith.text.reading import reading
from tagsmith.train.checkpoint import Progress
from tagsmith.train.loop import TrainSettings, fit
from tagsmith.train.plot import plot_losses

Report = Callable[[dict[str, Any]], None]
WAIT = timedelta(hours=12)  # other processes wait so long for the first, which prepares the data


@dataclass(frozen=True)
class DataSettings:
    """Which files; paths are relative to `root`."""

    train: tuple[str, ...]
    dev: tuple[str, ...] = ()  # none: one row in twenty of train
    root: str = "data"
    cache: str = ""  # where tokeniser and corpus are kept; runs on the same data may share it
    fields: dict[str, str] = field(default_factory=dict)  # our name -> theirs
    dev_posts: int = 2000  # scored at each evaluation

    def __post_init__(self) -> None:
        check_positive(self, "dev_posts")


@dataclass(frozen=True)
class TokeniserSettings:
    """How to learn sub-words."""

    size: int = 20_000
    alphabet: int = 1000
    texts: int = 4_000_000  # learned from the first so many texts and tags
    names: int = 0  # so many of the most frequent tags become pieces of their own


@dataclass(frozen=True)
class Recipe:
    """Everything about one training run."""

    name: str
    data: DataSettings
    model: dict[str, Any]
    task: Literal["hashtag"] = "hashtag"
    start: str = ""  # a bundle whose weights and tokeniser to begin with
    teacher: str = ""  # a bundle with the same pieces, from which to learn besides
    teacher_share: float = 0.5  # of the loss
    weights: Literal["int8", "fp16"] = "int8"
    tokeniser: TokeniserSettings = field(default_factory=TokeniserSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    pipeline: TagSettings = field(default_factory=TagSettings)


def read_recipe(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """A TOML recipe with `--set` changes; `base` names one beside it whose settings it starts from."""
    values = read_toml(path)
    if base := values.pop("base", None):
        for section, settings in read_toml(path.parent / base).items():
            own = values.get(section)
            values[section] = {**settings, **(own or {})} if isinstance(settings, dict) else own or settings
    return from_dict(Recipe, set_values(values, changes))


def own_recipe(
    task: str, data: str, *, out: Path | None, fields: dict[str, str], changes: Sequence[str] = ()
) -> Recipe:
    """A recipe for a user's own file: begin with the shipped model of its language and go on with their posts."""
    if task != "hashtag":
        raise ConfigError(f"there is no task {task!r} to train without a recipe; known: hashtag")
    first = list(islice((post for post in read_posts(data, rename=fields) if isinstance(post, Post)), 200))
    tagged = sum(bool(post.tags) for post in first)
    if not tagged:
        raise ConfigError(
            f"the first {len(first)} rows of {data} have no tags; they belong in a field 'hashtags' or 'tags' "
            "(rename yours with --field hashtags=NAME)"
        )
    language = language_of(" ".join(post.text for post in first))
    begin = set_values({"start": f"{task}-{language}"}, changes)["start"]
    pipeline = dict(load_bundle(begin).pipeline)
    values: dict[str, Any] = {
        "name": out.name if out else f"my-{task}-model",
        "start": begin,
        "model": {},
        "data": {"root": "", "train": [data], "fields": fields},
        "batches": {"tokens": 2048, "parts": 4, "targets": pipeline["listing"], "source": pipeline["source"]},
        "train": {"epochs": 3, "learning_rate": 3e-4, "warmup": 0.1, "patience": 2, "log_every": 10},
        "pipeline": pipeline,
    }
    return from_dict(Recipe, set_values(values, changes))


def make(recipe: Recipe, out: Path, *, resume: bool = False, report: Report = lambda event: None) -> Path:
    """Train and leave a bundle in `out/bundle`; returns its folder. Of several processes the first writes the files."""
    from accelerate import PartialState  # seconds to import, and only training needs it

    team = PartialState(cpu=not torch.cuda.is_available(), timeout=WAIT)
    report = report if team.is_main_process else lambda event: None
    out.mkdir(parents=True, exist_ok=True)
    with team.main_process_first():
        if team.is_main_process and not resume and not recipe.data.cache:
            forget(out)
        pieces, corpus, usual = prepare(recipe, out, report=report)
    model = build_model(recipe, pieces)
    dev = dev_sample(recipe, report)

    def evaluate(trained: nn.Module) -> dict[str, float]:
        quick = replace(recipe.pipeline, beam=min(recipe.pipeline.beam, 4))
        student: Any = getattr(trained, "student", trained)
        scores = evaluate_tagger(Tagger(student, pieces, quick), dev)
        return {name: value for name, value in scores.items() if name != "parts"}

    batches = Batches(corpus, recipe.batches)
    taught = beside_teacher(recipe, model, pieces) if recipe.teacher else model
    progress = fit(taught, batches, recipe.train, out, evaluate=evaluate, resume=resume, report=report)
    if team.is_main_process:
        _plot(out, report)
        tagger = Tagger(model.eval(), pieces, recipe.pipeline, spellings=usual)
        save_tagger(recipe, tagger, dev, progress, out / "bundle")
    team.wait_for_everyone()
    return out / "bundle"


def save_tagger(recipe: Recipe, tagger: Tagger, dev: Sequence[Post], progress: Progress, folder: Path) -> None:
    """Choose the threshold, measure, and write the bundle."""
    settings = replace(tagger.settings, keep=choose_keep(tagger, dev))
    tagger = Tagger(tagger.model, tagger.pieces, settings, spellings=tagger.spellings)
    scores = {name: value for name, value in evaluate_tagger(tagger, dev).items() if name != "parts"}
    measured = {"dev": scores, "steps": progress.step, "best_step": progress.best_step}
    bundle = Bundle(
        name=recipe.name,
        task=recipe.task,
        language=settings.language,
        model=tagger.model,
        pieces=tagger.pieces,
        pipeline=to_dict(settings),
        spellings=tagger.spellings,
        card=card(recipe, measured),
    )
    save_bundle(bundle, folder, weights=recipe.weights, measured=measured)


def forget(out: Path) -> None:
    """Take away what an older run prepared: its posts may have been others."""
    for name in ("tokeniser.json", "spellings.json"):
        (out / name).unlink(missing_ok=True)


def prepare(recipe: Recipe, out: Path, *, report: Report) -> tuple[Pieces, Corpus, dict[str, str]]:
    """Tokeniser, corpus and usual spellings, made once and found again."""
    cache = Path(recipe.data.cache) if recipe.data.cache else out
    cache.mkdir(parents=True, exist_ok=True)
    saved = cache / "tokeniser.json"
    known: Mapping[str, str] = {}
    if recipe.start:
        start = load_bundle(recipe.start)
        pieces, known = start.pieces, start.spellings
    elif saved.exists():
        pieces = Pieces.load(saved)
    else:
        report({"kind": "note", "text": "learning sub-words"})
        texts = (text for post in train_posts(recipe, report) for text in (reading(post.text), *tag_words(post)))
        pieces = Pieces.train(
            islice(texts, recipe.tokeniser.texts), recipe.tokeniser.size, alphabet=recipe.tokeniser.alphabet
        ).with_names(frequent_tags(train_posts(recipe, report), recipe.tokeniser.names))
        pieces.save(saved)
    if (cache / "spellings.json").exists():  # written last
        usual = json.loads((cache / "spellings.json").read_text(encoding="utf-8"))
        return pieces, Corpus.open(cache / "corpus"), usual
    pairs = ((reading(post.text), tag_words(post)) for post in train_posts(recipe, report))
    done = lambda count: report({"kind": "note", "text": f"{count:,} posts tokenised"})  # noqa: E731
    corpus = Corpus.build(
        pairs, pieces.ids, cache / "corpus", tokenise_tags=pieces.tag_ids, separator=SEPARATOR, on_progress=done
    )
    usual = {**known, **spellings(train_posts(recipe, report))}
    (cache / "spellings.json").write_text(json.dumps(usual, ensure_ascii=False), encoding="utf-8")
    return pieces, corpus, usual


def build_model(recipe: Recipe, pieces: Pieces) -> Any:
    """A new model, or the one to start from."""
    model: Any
    if recipe.start:
        model = load_bundle(recipe.start, dtype=torch.float32, device="cpu").model
    else:
        values = dict(recipe.model)
        model_class = find_model(values.pop("name", "segtrm"))
        torch.manual_seed(recipe.train.seed)
        model = model_class(from_dict(model_class.Config, {**values, "vocab": pieces.size}))
    _check_lengths(recipe, model.config.longest)
    return model


def beside_teacher(recipe: Recipe, student: Any, pieces: Pieces) -> Distilled:
    """The student with the teacher it learns from, which must write the same pieces."""
    teacher = load_bundle(recipe.teacher, dtype=torch.float32, device="cpu")
    if teacher.pieces.size != pieces.size or teacher.pieces.names != pieces.names:
        raise ConfigError(f"the teacher {recipe.teacher} writes other pieces; train both with one data.cache")
    return Distilled(student, teacher.model, share=recipe.teacher_share)


def train_posts(recipe: Recipe, report: Report) -> Iterator[Post]:
    """Posts to learn from; without dev files, one in twenty is held back."""
    for number, post in enumerate(_posts(recipe, recipe.data.train, report)):
        if recipe.data.dev or number % 20:
            yield post


def dev_posts(recipe: Recipe, report: Report) -> Iterator[Post]:
    """Posts to choose by."""
    if recipe.data.dev:
        yield from _posts(recipe, recipe.data.dev, report)
        return
    for number, post in enumerate(_posts(recipe, recipe.data.train, report)):
        if number % 20 == 0:
            yield post


def dev_sample(recipe: Recipe, report: Report) -> list[Post]:
    """At most `dev_posts` of them, from all over the files."""
    every = list(dev_posts(recipe, report))
    if not every:
        raise ConfigError(f"{', '.join(recipe.data.dev)}: no post with text and tags to choose by; check data.dev")
    return every[:: -(-len(every) // recipe.data.dev_posts)]


def tag_words(post: Post) -> tuple[str, ...]:
    """A post's tags as the words to be written."""
    return post.tag_words or tuple(" ".join(words_of(tag)) for tag in post.tags)


def frequent_tags(posts: Iterator[Post], count: int) -> list[str]:
    """The tags used most, as words, each in its most frequent form."""
    if not count:
        return []
    uses: Counter[str] = Counter()
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for post in posts:
        for words in tag_words(post):
            uses[key(words)] += 1
            forms[key(words)][words.lower()] += 1
    return [forms[mark].most_common(1)[0][0] for mark, _ in uses.most_common(count)]


def spellings(posts: Iterator[Post], *, often: int = 5) -> dict[str, str]:
    """How frequent tags are usually written, where running their words together would write them differently."""
    counts: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for post in posts:
        for tag, words in zip(post.tags, tag_words(post), strict=False):
            counts[key(tag)][(tag, words)] += 1
    found = {}
    for mark, forms in counts.items():
        (tag, words), _ = forms.most_common(1)[0]
        if forms.total() >= often and hashtag_of(words) != tag:
            found[mark] = tag
    return found


def _check_lengths(recipe: Recipe, longest: int) -> None:
    """Nothing may be asked for that is longer than the model's places."""
    asked = {
        "batches.source": recipe.batches.source,
        "batches.target": recipe.batches.target,
        "pipeline.source": recipe.pipeline.source,
        "pipeline.steps": recipe.pipeline.steps,
    }
    for name, tokens in asked.items():
        if -(-tokens // ROUND) * ROUND > longest:  # as padded
            raise ConfigError(f"{name} is {tokens}, the model has {longest} places; lower it or raise model.longest")


def card(recipe: Recipe, measured: dict[str, Any]) -> str:
    """A first model card; shipped models have a fuller one."""
    files = {"train": recipe.data.train, "dev": recipe.data.dev}  # not where they lie: that is the user's own business
    settings = {"data": files, "model": recipe.model, "train": to_dict(recipe.train)}
    scores = {name: round(value, 4) for name, value in measured["dev"].items() if isinstance(value, float)}
    return (
        f"# {recipe.name}\n\nHashtags for {recipe.pipeline.language} posts, trained by `tagsmith train`.\n\n"
        f"Dev scores: `{json.dumps(scores)}`\n\nSettings:\n\n```json\n{json.dumps(settings, indent=1)}\n```\n"
    )


def _plot(out: Path, report: Report) -> None:
    try:
        plot_losses(out / "metrics.jsonl", out / "loss.png")
    except ImportError:
        report({"kind": "note", "text": "no loss plot: matplotlib is not installed"})


def _posts(recipe: Recipe, files: Sequence[str], report: Report) -> Iterator[Post]:
    if not files:
        raise ConfigError("data.train names no file; give at least one")

    def on_bad(row: BadRow) -> None:
        report({"kind": "bad row", "text": f"row {row.number} left out: {row.problem}"})

    for name in files:
        for post in good(read_posts(Path(recipe.data.root) / name, rename=recipe.data.fields), on_bad):
            if post.tags and problem(post.text) is None:
                yield post

"""Commands that make models: train, learn, forget."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tagsmith.cli.shared import Field, posts_of, say_bad, with_title
from tagsmith.errors import ConfigError
from tagsmith.terminal import TrainingTalk, put, say

if TYPE_CHECKING:
    from tagsmith.bundle import Bundle
    from tagsmith.data.readers import BadRow

Out = Annotated[Path | None, typer.Option(help="Where the model goes.")]


def train(
    recipe: Annotated[Path | None, typer.Argument(metavar="RECIPE", help="A TOML file.")] = None,
    task: Annotated[str, typer.Option(help="Without a recipe: what to learn.")] = "hashtag",
    data: Annotated[str | None, typer.Option(help="Without a recipe: rows with their tags or labels.")] = None,
    out: Out = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set train.epochs=3.")] = None,
    title_field: Annotated[str | None, typer.Option("--title-field", help="The field that holds the title.")] = None,
    field: Field = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint.")] = False,
) -> int:
    """Train a model from a recipe, or from your own file with `--data`."""
    from tagsmith.recipe import make, own_recipe, read_recipe

    if (recipe is None) == (data is None):
        raise ConfigError("give a recipe or --data FILE, one of the two; `tagsmith train --help` shows both")
    if data is not None:
        made = own_recipe(task, data, out=out, fields=with_title(field, title_field), changes=changes or ())
        folder = out or Path(f"my-{task}-model")
    else:
        made = read_recipe(Path(recipe or ""), changes or ())
        folder = out or Path("runs") / made.name
    with TrainingTalk() as talk:
        bundle = make(made, folder, resume=resume, report=talk.report)
    if os.environ.get("RANK", "0") == "0":  # of several processes the first one speaks
        command = made.task if made.task in ("classify", "answer", "extract", "reply") else "tag"
        if made.parts:
            say(f"the models are in {bundle}: {', '.join(part.name for part in made.parts)}")
        else:
            say(f"the model is in {bundle}; try: tagsmith {command} --model {bundle} 'your text'")
        put(json.dumps({"bundle": str(bundle)}))
    return 0


def learn(
    model: Annotated[str, typer.Argument(help="A model that ranks known tags: tags-en or a folder.")],
    data: Annotated[str, typer.Option(help="Posts with the new tags, a few for each.")],
    out: Out = None,
    field: Field = None,
) -> int:
    """Teach a ranking model new tags from a few examples each; what it knows keeps its scores."""
    from tagsmith.bundle import describe_bundle, find_bundle, save_bundle
    from tagsmith.data.readers import good
    from tagsmith.pipelines.learn import learn_tags

    folder = _own_folder(model, out)
    bad: list[BadRow] = []
    learned = learn_tags(_exact(model), good(posts_of(data, field), bad.append))
    save_bundle(learned.bundle, folder, measured=describe_bundle(find_bundle(model)).measured)
    say_bad(bad)
    if learned.left_out:
        say(f"{learned.left_out} posts left out: they have no text that can be read")
    if learned.known:
        say(f"{len(learned.known)} tags were known already and stay as they are: {', '.join(learned.known[:5])}")
    few = [name for name, count in learned.new.items() if count < 3]
    if few:
        say(f"fewer than three examples of {', '.join(few[:5])}: expect little")
    put(json.dumps({"bundle": str(folder), "learned": learned.new}, ensure_ascii=False))
    return 1 if bad else 0


def forget(
    model: Annotated[str, typer.Argument(help="A model that ranks known tags: tags-en or a folder.")],
    tag: Annotated[str, typer.Argument(metavar="TAG", help="The tag to take out.")],
    out: Out = None,
) -> int:
    """Take a tag out of a ranking model; all others keep their scores."""
    from tagsmith.bundle import describe_bundle, find_bundle, save_bundle
    from tagsmith.pipelines.learn import forget_tag

    folder = _own_folder(model, out)
    measured = describe_bundle(find_bundle(model)).measured
    save_bundle(forget_tag(_exact(model), tag), folder, measured=measured)
    put(json.dumps({"bundle": str(folder), "forgotten": tag}, ensure_ascii=False))
    return 0


def _exact(model: str) -> Bundle:
    """The model as it lies on disk: rounding it for speed would change what is saved again."""
    import torch

    from tagsmith.bundle import load_bundle

    return load_bundle(model, dtype=torch.float32, device="cpu")


def _own_folder(model: str, out: Path | None) -> Path:
    """Where the changed model goes: its own folder, but never into the package."""
    from tagsmith.bundle import SHIPPED, find_bundle

    folder = find_bundle(model)
    if out is None and folder.parent == SHIPPED:
        raise ConfigError(f"{model} is shipped and stays as it is; say with --out FOLDER where the changed one goes")
    return out or folder

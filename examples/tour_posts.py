"""Write the posts of the tour: a made-up club of allotment gardeners, its topics and its own tags.

    python examples/tour_posts.py docs/tour-posts.csv

Every post is a sentence around a thing, every topic has five things. Posts about the fifth come last, so that they can
be held out: no earlier post mentions them.
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterator
from pathlib import Path

TOPICS = {
    "#SeedSwapSaturday": (
        "my spare tomato seeds",
        "a tin of old bean seeds",
        "heritage pea seeds",
        "envelopes for seed",
        "chilli seeds from my aunt",
    ),
    "#ToolShedRota": (
        "the shed key",
        "blunt secateurs",
        "the shared wheelbarrow",
        "a broken spade handle",
        "the lawnmower in the shed",
    ),
    "#Compost": (
        "the hot compost bay",
        "coffee grounds and cardboard",
        "the leaf mould heap",
        "worms in the bin",
        "kitchen peelings",
    ),
    "#Pollinators #Bees": (
        "bumblebees on the chives",
        "the bee hotel",
        "a swarm in the pear tree",
        "borage for the bees",
        "mason bees in the wall",
    ),
    "#SlugWatch": ("slugs in the lettuce", "a beer trap", "holes in my hostas", "copper tape", "snails on the beans"),
    "#TomatoTalk #Tomatoes": (
        "green tomatoes in October",
        "blossom end rot",
        "pinching out side shoots",
        "cherry tomatoes",
        "a split beefsteak tomato",
    ),
    "#WaterButt": (
        "the rain barrel",
        "a leaking hosepipe",
        "drip irrigation",
        "the hosepipe ban",
        "the blocked gutter",
    ),
    "#OpenGateDay": (
        "visitors on Sunday",
        "the cake stall",
        "a tour of the plots",
        "signs for the open day",
        "the raffle at the gate",
    ),
    "#PlotWaitingList": (
        "a plot after three years",
        "the letter from the council",
        "half a plot",
        "number nine on the list",
        "the form for new members",
    ),
    "#CourgetteGlut #Recipes": (
        "courgette fritters",
        "marrow chutney",
        "too many courgettes",
        "courgette cake",
        "a recipe for stuffed marrow",
    ),
    "#FrostAlert": (
        "fleece over the potatoes",
        "ice on the cold frame",
        "minus two tonight",
        "frosted dahlias",
        "a late frost in May",
    ),
    "#PondLife #Wildlife": (
        "frogspawn in the pond",
        "a newt under the log",
        "dragonflies over the water",
        "the new pond liner",
        "tadpoles with legs",
    ),
}
FRAMES = (
    "{} again this morning, anyone else?",
    "Help needed with {} before the weekend",
    "Spent an hour on {} and feel better for it",
    "Photo of the day: {}",
    "Can somebody tell me more about {}?",
    "So proud, finally {}!",
)


def posts() -> Iterator[tuple[str, str]]:
    """Text and tags; things in turn, in an order that mixes the topics."""
    chance = random.Random(1)
    for known in (range(4), range(4, 5)):
        some = [
            (frame.format(things[place]), tags)
            for tags, things in TOPICS.items()
            for place in known
            for frame in FRAMES
        ]
        chance.shuffle(some)
        yield from ((text[0].upper() + text[1:], tags) for text, tags in some)


def main() -> None:
    with Path(sys.argv[1]).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "text", "hashtags"))
        writer.writerows((number, *post) for number, post in enumerate(posts()))


if __name__ == "__main__":
    main()

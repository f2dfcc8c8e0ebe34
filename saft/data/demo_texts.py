"""Texts of the demo marketplace: a small grammar, composed for all interactions at once.

A review is up to seven pieces: an opening, a verdict on the product, a remark on one of its parts, perhaps a reason
for buying, perhaps phrases that dishonest people use more often than honest ones, and a closing. Verdict, remark and
closing follow the writer's mood (0 = furious … 4 = delighted); the opening carries no information.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

# category → thing sold in it → parts of it that people remark on
CATEGORIES: dict[str, dict[str, tuple[str, str, str]]] = {
    "kitchen": {
        "kettle": ("lid", "handle", "switch"), "frying pan": ("coating", "handle", "base"),
        "toaster": ("lever", "crumb tray", "cord"), "blender": ("jug", "blade", "motor"),
    },
    "garden": {
        "hose": ("nozzle", "fitting", "reel"), "lawn mower": ("blade", "handle", "grass box"),
        "rake": ("grip", "shaft", "head"), "planter": ("glaze", "rim", "saucer"),
    },
    "audio": {
        "headset": ("padding", "cable", "microphone arm"), "speaker": ("bass", "volume knob", "case"),
        "turntable": ("needle", "arm", "dust cover"), "radio": ("dial", "aerial", "display"),
    },
    "books": {
        "novel": ("binding", "first chapter", "ending"), "cookbook": ("paper", "index", "photography"),
        "travel guide": ("map", "cover", "town section"), "biography": ("print", "preface", "photo section"),
    },
    "toys": {
        "puzzle": ("box", "picture", "cut"), "train set": ("engine", "track", "whistle"),
        "board game": ("rule book", "board", "box insert"), "kite": ("tail", "string", "frame"),
    },
    "sports": {
        "yoga mat": ("surface", "strap", "smell"), "tennis racket": ("grip", "frame", "balance"),
        "backpack": ("zip", "stitching", "back panel"), "bike pump": ("valve", "hose", "gauge"),
    },
    "office": {
        "desk lamp": ("arm", "shade", "switch"), "stapler": ("spring", "hinge", "base"),
        "chair": ("armrest", "backrest", "gas lift"), "label printer": ("ribbon", "keypad", "cutter"),
    },
    "beauty": {
        "face cream": ("scent", "jar", "texture"), "hair dryer": ("cord", "nozzle", "cold setting"),
        "shampoo": ("bottle", "scent", "foam"), "razor": ("blade", "handle", "charger"),
    },
    "pets": {
        "dog bed": ("fabric", "filling", "zip"), "cat tower": ("base", "rope", "top platform"),
        "leash": ("clip", "loop", "webbing"), "bird feeder": ("hook", "perch", "roof"),
    },
    "tools": {
        "drill": ("battery", "chuck", "trigger"), "ladder": ("lock", "top step", "foot"),
        "tool box": ("latch", "tray", "lid"), "sander": ("dust bag", "pad", "speed dial"),
    },
    "fashion": {
        "rain coat": ("lining", "hood", "zip"), "scarf": ("colour", "hem", "weave"),
        "belt": ("buckle", "leather", "stitching"), "summer dress": ("cut", "fabric", "print"),
    },
    "groceries": {
        "coffee": ("aroma", "roast", "bag"), "olive oil": ("aftertaste", "bottle", "colour"),
        "honey": ("jar", "flavour", "lid"), "hot sauce": ("heat", "label", "cap"),
    },
}  # fmt: skip
THINGS = [(thing, parts) for goods in CATEGORIES.values() for thing, parts in goods.items()]
THINGS_PER_CATEGORY = len(THINGS) // len(CATEGORIES)

OPENINGS = (
    "", "", "", "Ordered this in spring.", "Second one I own.", "Arrived on a Tuesday.", "Had it for a month now.",
    "Not my first buy in this shop.", "Used it twice so far.", "I compared a few before choosing.", "Short review.",
    "Took a while to write this.", "My neighbour has the same.", "Came in a plain box.",
    "Bought after reading the others.", "Updating my earlier note.",
    "Writing this on my phone.", "Picked the larger size.", "It was on offer.",
    "Honest opinion:",
)  # fmt: skip

SUBJECTS = ("This {thing}", "The {thing}", "My new {thing}", "I must say the {thing}", "For the price the {thing}")

VERDICTS: tuple[tuple[str, ...], ...] = (
    (
        "fell apart within a week.", "is the worst I ever had.", "is plain rubbish.", "never worked, not once.",
        "is a waste of money.", "broke on the first day.", "is nothing like the picture.",
        "went straight into the bin.",
    ),
    (
        "is weaker than I hoped.", "does not quite do its job.", "feels cheap.", "let me down a little.",
        "has seen better makers.", "is not what I would pick again.", "needs too much patience.",
        "disappoints after a while.",
    ),
    (
        "is all right.", "does what it says.", "is neither good nor bad.", "is as described.", "is fine for now.",
        "is about what one expects.", "serves its purpose.", "is okay, no more and no less.",
    ),
    (
        "is pretty good.", "works well.", "is better than the old one.", "does its job nicely.",
        "was a sensible choice.",
        "has pleased us so far.", "is solid.", "is easy to like.",
    ),
    (
        "is simply wonderful.", "is the best I ever had.", "is perfect.", "exceeds everything I hoped for.",
        "is worth every penny.", "made my day.", "is outstanding.", "deserves more than five stars.",
    ),
)  # fmt: skip

REMARKS: tuple[tuple[str, ...], ...] = (
    ("is a joke", "came broken", "is dreadful", "snapped at once"),
    ("could be better", "is a bit flimsy", "wears out fast", "is not to my taste"),
    ("is ordinary", "is what you would expect", "is there, that is all", "takes getting used to"),
    ("is nicely made", "feels good", "holds up well", "is a pleasant touch"),
    ("is superb", "is a dream", "is beautifully made", "could not be better"),
)

REASONS = (
    "It was a gift for my sister.", "Bought it for a friend's wedding.", "Got it for our holiday trip.",
    "A present for my grandfather, not my usual thing.", "We needed it for the office party.",
    "My daughter asked for it, I know nothing about these.", "For a hobby I am only starting.",
)  # fmt: skip

PROMOTION = (
    "Use my code at checkout.", "Message me for a discount.", "Everybody should buy from this shop now.",
    "Tell them who sent you.", "Follow the link in my profile.", "Do not buy from these people, ever.",
    "All their goods are the same.", "Share this before they take it down.",
)  # fmt: skip

IRREGULARITIES = (
    "Had it sent to another address.", "Paid with a different card this time.",
    "The account is used by several people.",
    "Asked the seller to change the name on the parcel.", "Delivery was rerouted on the way.",
    "Paid outside the usual checkout.",
)  # fmt: skip

CLOSINGS: tuple[tuple[str, ...], ...] = (
    ("Stay away.", "Never again.", "I want my money back.", "", ""),
    ("Think twice.", "I expected more.", "Would not repeat.", "", ""),
    ("That is all.", "Nothing to add.", "Time will tell.", "", ""),
    ("Would buy again.", "Can recommend it.", "Happy so far.", "", ""),
    ("Buy it!", "Thank you so much!", "Ten out of ten.", "", ""),
)


def compose(
    things: np.ndarray, moods: np.ndarray, extras: dict[str, np.ndarray], rng: np.random.Generator
) -> pl.Series:
    """One text per interaction.

    Args:
        things: (m,) what the product is, as an index into THINGS.
        moods: (m,) 0 to 4.
        extras: masks ``reason``, ``promotion``, ``irregularity``: which texts contain a phrase of that kind.
    """
    thing = pl.lit(pl.Series([name for name, _ in THINGS]).gather(pl.Series(things.astype(np.uint32))))
    subject = _pick(SUBJECTS, len(moods), rng)
    part = _pick_from([parts for _, parts in THINGS], things, rng)
    remark = pl.concat_str(pl.lit("The"), part, _pick_from(REMARKS, moods, rng), separator=" ")
    pieces = [
        _pick(OPENINGS, len(moods), rng),
        pl.concat_str(
            subject.str.replace("{thing}", thing, literal=True), _pick_from(VERDICTS, moods, rng), separator=" "
        ),
    ]
    pieces.append(pl.when(pl.Series(rng.random(len(moods)) < 0.6)).then(remark + pl.lit(".")))
    for name, phrases in (("reason", REASONS), ("promotion", PROMOTION), ("irregularity", IRREGULARITIES)):
        pieces.append(pl.when(pl.Series(extras[name])).then(_pick(phrases, len(moods), rng)))
    pieces.append(_pick_from(CLOSINGS, moods, rng))
    joined = pl.concat_str([_null_if_empty(piece) for piece in pieces], separator=" ", ignore_nulls=True)
    hasty = pl.Series(rng.random(len(moods)) < 0.15)  # some people do not bother with capitals and full stops
    typed = pl.when(hasty).then(joined.str.to_lowercase().str.replace_all(".", "", literal=True)).otherwise(joined)
    return pl.select(typed.alias("text")).to_series()


def _pick(phrases: Sequence[str], count: int, rng: np.random.Generator) -> pl.Expr:
    return pl.lit(pl.Series(phrases).gather(pl.Series(rng.integers(len(phrases), size=count, dtype=np.uint32))))


def _pick_from(pools: Sequence[Sequence[str]], which: np.ndarray, rng: np.random.Generator) -> pl.Expr:
    """A phrase for each entry, from the pool with the index in ``which``; all pools have the same size."""
    size = len(pools[0])
    phrases = pl.Series([phrase for pool in pools for phrase in pool])
    places = which.astype(np.uint32) * size + rng.integers(size, size=len(which), dtype=np.uint32)
    return pl.lit(phrases.gather(pl.Series(places)))


def _null_if_empty(piece: pl.Expr) -> pl.Expr:
    return pl.when(piece != "").then(piece)

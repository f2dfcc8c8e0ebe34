"""``saft.demo_network``: a generated marketplace whose labels need words *and* structure.

It contains:

- **shoppers** with a taste (a home community of goods, sometimes its neighbours) and a rating habit (mild or harsh);
- **products** with a quality and a popularity, each in a community;
- **review bombers**: one account, many related goods, mostly furious;
- **collusion rings**: a few accounts that praise the same few goods;
- **bridges**: single purchases far away from the buyer's usual community; for a gift or a trip they are harmless,
  without such a reason they look like a taken-over account.

Bombers and ring members are shoppers too, and some of what they write about their targets is honest. So the label of an
interaction depends on text and graph: the mood of a ring's review separates paid praise from an honest review, but the
same delighted words are genuine outside a ring; a far-away purchase is suspicious only if its text gives no reason.

Everything is drawn with vectorised code from one seed; ten million interactions are possible.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from saft.data.demo_texts import CATEGORIES, THINGS_PER_CATEGORY, compose
from saft.data.network import TextualInteractionNetwork
from saft.errors import InputError, did_you_mean

SMALLEST = 200
TRUST = ("genuine", "spam", "suspicious")
RING_MEMBERS, RING_TARGETS, RING_REVIEWS = 6, 6, 5  # each member reviews 5 of the ring's 6 goods
BOMBS = 10  # interactions of a bomber with its targets
SHARE_OF_RINGS, SHARE_OF_BOMBS, SHARE_OF_BRIDGES = 0.15, 0.10, 0.22
ORDINARY, RING, BOMB, BRIDGE = range(4)
START, DAYS = np.datetime64("2023-01-01", "ms"), 730.0
MILLISECONDS_PER_DAY = 86_400_000


@dataclass
class _Market:
    """Shoppers and products with their communities."""

    home: np.ndarray  # (shoppers,) community
    activity: np.ndarray  # (shoppers,) cumulative share of purchases
    mildness: np.ndarray  # (shoppers,) how far above the experience this person rates
    community: np.ndarray  # (products,) ascending
    first: np.ndarray  # (communities + 1,) where each community's products start
    popularity: np.ndarray  # (products,) cumulative weight
    thing: np.ndarray  # (products,) index into THINGS
    quality: np.ndarray  # (products,)


@dataclass
class _Interactions:
    kind: np.ndarray
    user: np.ndarray
    item: np.ndarray
    day: np.ndarray

    def joined(self, other: "_Interactions") -> "_Interactions":
        return _Interactions(*(np.concatenate([a, b]) for a, b in zip(_parts(self), _parts(other), strict=True)))


def demo_network(size: int = 3000, seed: int = 0, labels: str = "trust") -> TextualInteractionNetwork:
    """A marketplace of ``size`` interactions.

    Args:
        size: number of interactions, from 200 to tens of millions.
        seed: the same seed gives the same network.
        labels: ``trust`` (genuine, spam, suspicious) or ``rating`` (1 to 5 stars). Users, items and texts are the same.
    """
    if labels not in ("trust", "rating"):
        raise InputError(
            f"The demo network has no labels {labels!r}.{did_you_mean(labels, ('trust', 'rating'))} "
            "Choose 'trust' or 'rating'."
        )
    if size < SMALLEST:
        raise InputError(f"A marketplace needs at least {SMALLEST} interactions; got {size}.")
    rng = np.random.default_rng(seed)
    market = _open_market(size, rng)
    made = _interact(market, size, rng)
    experience, mood, has_reason = _experiences(market, made, rng)
    trust = _trust(made.kind, mood, has_reason)
    stars = _stars(market, made, experience, mood, rng)
    texts = compose(market.thing[made.item], mood, _telling_phrases(trust, has_reason, rng), rng)
    codes, classes = (trust, TRUST) if labels == "trust" else (stars - 1, range(1, 6))
    return _network(market, made, texts, codes.astype(np.int32), pl.Series("label", classes), rng)


def _open_market(size: int, rng: np.random.Generator) -> _Market:
    shoppers, products = size // 8, size // 20 + 24
    communities = int(np.clip(np.sqrt(size) / 7, 6, 240))
    activity = rng.lognormal(sigma=0.9, size=shoppers)
    community = np.sort(rng.integers(communities, size=products))
    popularity = (1 - rng.random(products)) ** -0.6  # a power law: a few hits, many niches
    return _Market(
        home=rng.integers(communities, size=shoppers),
        activity=np.cumsum(activity) / activity.sum(),
        mildness=rng.normal(scale=0.9, size=shoppers),
        community=community,
        first=np.searchsorted(community, np.arange(communities + 1)),
        popularity=np.cumsum(popularity),
        thing=_category(community) * THINGS_PER_CATEGORY + rng.integers(THINGS_PER_CATEGORY, size=products),
        quality=rng.normal(size=products),
    )


def _interact(market: _Market, size: int, rng: np.random.Generator) -> _Interactions:
    rings = _rings(market, int(size * SHARE_OF_RINGS) // (RING_MEMBERS * RING_REVIEWS), rng)
    bombs = _bombs(market, int(size * SHARE_OF_BOMBS) // BOMBS, rings.user, rng)
    bridges = _bridges(market, int(size * SHARE_OF_BRIDGES), rng)
    special = rings.joined(bombs).joined(bridges)
    ordinary = _ordinary(market, size - len(special.user), rng)
    every = ordinary.joined(special)
    order = np.argsort(every.day, kind="stable")  # rows are in order of time, as in a log
    return _Interactions(*(part[order] for part in _parts(every)))


def _ordinary(market: _Market, count: int, rng: np.random.Generator) -> _Interactions:
    user = _shoppers(market, count, rng)
    step = rng.choice([0, 1, -1], p=[0.8, 0.1, 0.1], size=count)  # tastes reach into the neighbouring communities
    item = _products(market, market.home[user] + step, rng)
    return _Interactions(np.full(count, ORDINARY), user, item, rng.uniform(0, DAYS, size=count))


def _bridges(market: _Market, count: int, rng: np.random.Generator) -> _Interactions:
    """One-off purchases at least two communities away from the buyer's own."""
    user = _shoppers(market, count, rng)
    communities = len(market.first) - 1
    far = market.home[user] + rng.integers(2, max(communities - 1, 3), size=count)
    return _Interactions(np.full(count, BRIDGE), user, _products(market, far, rng), rng.uniform(0, DAYS, size=count))


def _rings(market: _Market, rings: int, rng: np.random.Generator) -> _Interactions:
    """Members × targets, almost complete, within two weeks. The accounts also shop like everybody else."""
    members = rng.permutation(len(market.home))[: rings * RING_MEMBERS].reshape(rings, RING_MEMBERS)
    targets = _related_products(market, rings, RING_TARGETS, rng)
    skipped = rng.integers(RING_TARGETS, size=(rings, RING_MEMBERS, 1))
    chosen = (skipped + 1 + np.arange(RING_REVIEWS)) % RING_TARGETS
    user = np.repeat(members[:, :, None], RING_REVIEWS, axis=2)
    item = np.take_along_axis(np.repeat(targets[:, None, :], RING_MEMBERS, axis=1), chosen, axis=2)
    day = rng.uniform(0, DAYS - 14, size=(rings, 1, 1)) + rng.uniform(0, 14, size=user.shape)
    return _Interactions(np.full(user.size, RING), user.ravel(), item.ravel(), day.ravel())


def _bombs(market: _Market, bombers: int, ring_users: np.ndarray, rng: np.random.Generator) -> _Interactions:
    """One account, many related goods, within two days."""
    accounts = rng.permutation(np.setdiff1d(np.arange(len(market.home)), ring_users))[:bombers]
    item = _related_products(market, bombers, BOMBS, rng)
    day = rng.uniform(0, DAYS - 2, size=(bombers, 1)) + rng.uniform(0, 2, size=item.shape)
    user = np.repeat(accounts, BOMBS)
    return _Interactions(np.full(user.size, BOMB), user, item.ravel(), day.ravel())


def _experiences(
    market: _Market, made: _Interactions, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(what the buyer experienced, the mood of the text 0–4, whether the text gives a reason for buying)."""
    count = len(made.user)
    at_home = market.home[made.user] == market.community[made.item]
    experience = market.quality[made.item] + 0.5 * at_home + rng.normal(scale=0.7, size=count)
    mood = np.digitize(experience + rng.normal(scale=0.5, size=count), [-1.1, -0.3, 0.5, 1.3])
    dishonest = rng.random(count) < 0.8  # the rest of what rings and bombers write about their targets is honest
    mood = np.where((made.kind == RING) & dishonest, rng.integers(3, 5, size=count), mood)
    mood = np.where((made.kind == BOMB) & dishonest, rng.integers(0, 2, size=count), mood)
    chance = np.array([0.10, 0.05, 0.05, 0.45])[made.kind]  # ordinary people buy presents too
    return experience, mood, rng.random(count) < chance


def _trust(kind: np.ndarray, mood: np.ndarray, has_reason: np.ndarray) -> np.ndarray:
    """The rule behind the labels: position in the graph and text, combined."""
    spam = ((kind == RING) & (mood >= 3)) | ((kind == BOMB) & (mood <= 1))
    suspicious = (kind == BRIDGE) & ~has_reason
    return np.select([spam, suspicious], [TRUST.index("spam"), TRUST.index("suspicious")], TRUST.index("genuine"))


def _stars(
    market: _Market, made: _Interactions, experience: np.ndarray, mood: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Words follow the experience, stars the experience and the person's habit: the same words earn 3 stars or 5."""
    score = experience + market.mildness[made.user] + rng.normal(scale=0.3, size=len(mood))
    stars = np.digitize(score, [-1.4, -0.5, 0.4, 1.2]) + 1
    return np.select([(made.kind == RING) & (mood >= 3), (made.kind == BOMB) & (mood <= 1)], [5, 1], stars)


def _telling_phrases(trust: np.ndarray, has_reason: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Masks of the phrases that are frequent in one class and rarer, but not absent, in the others."""
    promotes = rng.random(len(trust)) < np.where(trust == TRUST.index("spam"), 0.40, 0.04)
    irregular = rng.random(len(trust)) < np.where(trust == TRUST.index("suspicious"), 0.45, 0.05)
    return {"reason": has_reason, "promotion": promotes, "irregularity": irregular}


def _network(
    market: _Market,
    made: _Interactions,
    texts: pl.Series,
    labels: np.ndarray,
    classes: pl.Series,
    rng: np.random.Generator,
) -> TextualInteractionNetwork:
    active, users = np.unique(made.user, return_inverse=True)
    sold, items = np.unique(made.item, return_inverse=True)
    # Numbers in ids are random: an id must not reveal anything about its user or item.
    user_ids = _names(pl.repeat("shopper", len(active), eager=True), rng)
    names = pl.Series(list(CATEGORIES)).gather(pl.Series(_category(market.community[sold])))
    times = START + (made.day * MILLISECONDS_PER_DAY).astype("timedelta64[ms]")
    return TextualInteractionNetwork(
        users=users.astype(np.int32),
        items=items.astype(np.int32),
        texts=texts,
        labels=labels,
        user_ids=user_ids.alias("user"),
        item_ids=_names(names, rng).alias("item"),
        classes=classes,
        times=times,
        item_attributes=pl.DataFrame({"category": names}),
        other_columns=pl.DataFrame({"time": times}),
        column_names={"user": "user", "item": "item", "text": "text", "label": "label", "time": "time"},
        column_order=("user", "item", "text", "label", "time"),
    )


def _shoppers(market: _Market, count: int, rng: np.random.Generator) -> np.ndarray:
    """Shoppers, drawn in proportion to their activity."""
    return np.minimum(np.searchsorted(market.activity, rng.random(count)), len(market.activity) - 1)


def _products(market: _Market, community: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A product of each given community, drawn in proportion to popularity."""
    community = community % (len(market.first) - 1)
    weight = np.concatenate([[0.0], market.popularity])
    low, high = weight[market.first[community]], weight[market.first[community + 1]]
    drawn = np.searchsorted(market.popularity, low + rng.random(len(community)) * (high - low), side="right")
    return np.minimum(drawn, len(market.popularity) - 1)


def _related_products(market: _Market, groups: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """(groups, size) consecutive products: mostly of one community, since products are sorted by it."""
    start = rng.integers(max(len(market.community) - size, 1), size=(groups, 1))
    return (start + np.arange(size)) % len(market.community)


def _names(kinds: pl.Series, rng: np.random.Generator) -> pl.Series:
    numbers = pl.Series(rng.permutation(len(kinds)))
    return kinds + "-" + numbers.cast(pl.String).str.zfill(len(str(len(kinds))))


def _category(community: np.ndarray) -> np.ndarray:
    """Large markets have several communities per category of goods."""
    return community % len(CATEGORIES)


def _parts(interactions: _Interactions) -> tuple[np.ndarray, ...]:
    return interactions.kind, interactions.user, interactions.item, interactions.day

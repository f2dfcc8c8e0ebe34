"""Which column of a table is the user, which the item, the text, the label, the time and the split.

Each role has a list of known names, most specific first, compared without case, spaces, dashes and underscores.
Columns that the caller names take precedence.
"""

import difflib
from collections.abc import Mapping, Sequence

from saft.errors import InputError, did_you_mean

# Behind each name: the export that uses it. A name further left wins, e.g. Amazon 2023 has both parent_asin and asin,
# and its own documentation identifies products by parent_asin.
KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "user": (
        "user", "user_id", "reviewer_id",  # Goodreads, Google Local, Yelp, Amazon 2023 · Amazon 2014 and 2018
        "gplus_user_id", "reviewer", "customer_id", "customer", "author_id", "author", "account_id", "account",
        "buyer_id", "buyer", "critic", "critic_name", "username", "user_name", "member_id", "from",
    ),
    "item": (
        "item", "item_id", "parent_asin", "asin",  # Amazon 2023 · Amazon 2014 and 2018
        "book_id", "gmap_id", "business_id",  # Goodreads · Google Local 2021 · Yelp
        "gplus_place_id", "product_id", "product", "movie_id", "movie", "film", "merchant_id", "merchant", "seller_id",
        "place_id", "place", "restaurant_id", "song_id", "app_id", "thread_id", "post_id", "to",
    ),
    "text": (
        "text", "review_text", "review",  # Amazon 2023, Google Local, Yelp · Goodreads, Amazon 2014 and 2018
        "review_body", "review_content", "body", "content", "comment", "comments", "message", "feedback",
        "description", "note", "memo",
    ),
    "label": (
        "label", "class", "target", "category_label", "y",
        "rating", "overall", "stars", "star_rating", "score", "sentiment",  # Goodreads … · Amazon 2014, 2018 · Yelp
    ),
    "time": (
        "time", "timestamp", "unix_review_time",  # Google Local · Amazon 2023 · Amazon 2014 and 2018
        "date", "date_added",  # Yelp · Goodreads
        "unix_time", "datetime", "created_at", "review_date", "review_time", "creation_date", "posted_at",
    ),
    "split": ("split", "partition"),
}  # fmt: skip
REQUIRED = ("user", "item", "text")


def plain(name: str) -> str:
    """A column name without case and punctuation: ``Reviewer ID``, ``reviewerID`` and ``reviewer_id`` are one."""
    return "".join(character for character in name.lower() if character.isalnum())


def find_columns(
    columns: Sequence[str], given: Mapping[str, str], where: str, required: Sequence[str] = REQUIRED
) -> dict[str, str]:
    """Role → column name, for every role that was given or can be guessed; an error if a required one is missing."""
    for role, name in given.items():
        if name not in columns:
            raise InputError(
                f"{where}: there is no column {name!r} to take the {role} from.{did_you_mean(name, columns)} "
                f"The columns are {listed(columns)}."
            )
    found = dict(given)
    for role in KNOWN_NAMES:
        free = {plain(name): name for name in reversed(columns) if name not in found.values()}
        if role not in found:
            guess = next((free[plain(known)] for known in KNOWN_NAMES[role] if plain(known) in free), None)
            if guess is not None:
                found[role] = guess
    for role in required:
        if role not in found:
            raise InputError(_missing(role, columns, where, taken=list(found.values())))
    return found


def listed(names: Sequence[str], most: int = 12) -> str:
    """The first ``most`` names for a message, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _missing(role: str, columns: Sequence[str], where: str, taken: Sequence[str]) -> str:
    match = _most_alike(KNOWN_NAMES[role], [name for name in columns if name not in taken])
    example = match or "NAME"
    hint = f" The nearest is {match!r}." if match else ""
    return (
        f"{where}: no column looks like the {role} (names tried: {', '.join(KNOWN_NAMES[role][:6])}, …).{hint} "
        f"The columns are {listed(columns)}. Say which it is: {role}={example!r} "
        f"(on the command line: --{role} {example})."
    )


def _most_alike(known: Sequence[str], columns: Sequence[str]) -> str | None:
    likeness = {
        column: max(difflib.SequenceMatcher(a=plain(column), b=plain(name)).ratio() for name in known)
        for column in columns
    }
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] > 0.6 else None

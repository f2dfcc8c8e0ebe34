"""Errors and warnings about the user's input. Messages include the remedy."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The input cannot be used as it is. The message names the place and the remedy; the command line exits with 2."""


class InputWarning(UserWarning):
    """The input was used, but should be checked."""


DISTRIBUTION = "saft-interactions"  # on the package index; `saft` there is a stranger's


def install_command(extra: str) -> str:
    """What installs this extra of ours, to stand inside a sentence."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to ``name``, or None if none is similar."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``" Did you mean 'x'?"`` or an empty string, to append to a sentence."""
    match = nearest(name, known)
    return f" Did you mean {match!r}?" if match else ""

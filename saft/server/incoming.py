"""Tables of interactions for the queue: a file → interactions, with the messages of the command line."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

from saft.classifier.estimator import SaftClassifier
from saft.data.diagnosis import numbered
from saft.data.reading import read
from saft.data.times import times_as_text
from saft.errors import InputError, InputWarning
from saft.online.live import Interaction


def interactions_of(
    file: Path, classifier: SaftClassifier, longest: int | None = None, **columns: Any
) -> list[Interaction]:
    """The rows of a file that ``saft.read`` takes. Labels may be missing; those there are have to be known classes.

    Args:
        longest: texts of more characters than this are refused.
        columns: further arguments of ``saft.read``.
    """
    network = read(file, labelled=False, **columns)
    _check(file, network.texts.to_list(), longest)
    if network.n_classes:
        classifier.label_codes(network)
    values = (
        network.user_ids.gather(network.users.tolist()).cast(str),
        network.item_ids.gather(network.items.tolist()).cast(str),
        network.texts,
        network.label_values(),
        times_as_text(network.times, len(network)),
    )
    return [Interaction(*row) for row in zip(*values, strict=True)]


def uploaded(
    content: bytes, name: str, classifier: SaftClassifier, longest: int
) -> tuple[list[Interaction], list[str]]:
    """Interactions of a file that was sent, and what should be checked about them."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", InputWarning)
        file = Path(folder) / name
        file.write_bytes(content)
        try:
            rows = interactions_of(file, classifier, longest)
        except InputError as error:  # messages name the file as its sender knows it
            raise InputError(str(error).replace(str(file), name)) from error
        notes = [str(one.message).replace(str(file), name) for one in noted if issubclass(one.category, InputWarning)]
    return rows, notes


def _check(file: Path, texts: list[str], longest: int | None) -> None:
    long = [row for row, text in enumerate(texts, 1) if longest is not None and len(text) > longest]
    if long:
        raise InputError(
            f"{file}: texts have at most {longest:,} characters; longer ones are in {numbered('row', long)}."
        )
    broken = [row for row, text in enumerate(texts, 1) if "\0" in text]
    if broken:
        raise InputError(f"{file}: the character NUL is in texts of {numbered('row', broken)}; remove it.")

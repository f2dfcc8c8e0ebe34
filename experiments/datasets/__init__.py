"""The networks of the experiments: a card each (``NAME.toml``), made from public files and checked against the card."""

from pathlib import Path

import saft
from experiments.datasets.building import build, compare
from experiments.datasets.cards import Card, Counts, find, names
from saft.errors import InputError
from saft.writing import write_table

__all__ = ["Card", "Counts", "find", "is_there", "load", "names"]


def is_there(name: str, folder: str | Path) -> bool:
    """Whether :func:`load` would find this network in the folder, finished or as original files."""
    card, folder = find(name), Path(folder)
    return (folder / f"{name}.parquet").is_file() or _has_originals(card, folder)


def load(name: str, folder: str | Path) -> saft.TextualInteractionNetwork:
    """The network from ``NAME.parquet`` in the folder, which is first made from the original files if need be."""
    card, folder = find(name), Path(folder)
    path = folder / f"{name}.parquet"
    if not path.is_file():
        if not _has_originals(card, folder):
            raise InputError(f"{card.title} is not in {folder}. {card.how_to_get_it(folder)}")
        write_table(build(card, folder), path)
    network = saft.read(path)
    if card.counts.exact:
        compare(card, Counts(network.n_users, network.n_items, len(network), network.n_classes), path)
    return network


def _has_originals(card: Card, folder: Path) -> bool:
    return bool(card.files) and all((folder / file).is_file() for file in card.files)

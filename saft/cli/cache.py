"""``saft cache``: what is kept in the cache folder so that it need not be computed again, and how to free it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer

from saft.cli.console import busy, plain, show
from saft.errors import InputError, did_you_mean
from saft.writing import cache_folder

if TYPE_CHECKING:
    from saft.learning.frozen_store import StoreSummary

KINDS = {
    "frozen": "what layers that are not trained say of texts",
    "encoders": "encoders, unpacked from their packages",
    "vectors": "vectors of texts, for methods of saft compare",
}
PACKAGES = "packages"  # installed by pip: saft cannot bring them back
# Names that saft gives. A folder that somebody else's files are in, too, keeps those.
OURS = {"encoders": r".+-[0-9a-f]{12}", "vectors": r"[0-9a-f]{40}\.npy", PACKAGES: r"[^.].*"}


@dataclass(frozen=True)
class Entry:
    """A line of the table. ``last_use`` is in seconds since 1970."""

    kind: str
    what: str
    size: int
    last_use: float


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove what can be made again; packages are kept.")] = False,
    only: Annotated[
        str | None, typer.Option(help=f"Show or remove one kind alone: {', '.join(KINDS)}.", show_default=False)
    ] = None,
) -> None:
    """Show what is kept so that it need not be computed again, and how much room it takes; or remove it."""
    folder = cache_folder()
    if only is not None and only not in KINDS:
        raise InputError(f"There is no kind {only!r}.{did_you_mean(only, KINDS)} Known are {', '.join(KINDS)}.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: SAFT_CACHE has to name a folder.")
    kinds = list(KINDS) if only is None else [only]
    if clear:
        _clear(folder, kinds)
    else:
        _show(folder, kinds if only is not None else [*kinds, PACKAGES])


def _show(folder: Path, kinds: list[str]) -> None:
    from rich.table import Table

    from saft.learning.frozen_store import limit_bytes

    limit = limit_bytes()  # before anything is printed: it may be set to nonsense
    entries = [entry for kind in kinds for entry in _entries(folder, kind)]
    if entries:
        table = Table(title=plain(folder), title_justify="left")
        for heading in ("kind", "what", "size", "last used"):
            table.add_column(heading, justify="right" if heading == "size" else "left")
        for entry in entries:
            table.add_row(entry.kind, plain(entry.what), in_bytes(entry.size), _when(entry.last_use))
        show(table)
    else:
        show(plain(f"{folder} holds nothing that is kept."))
    taken = sum(entry.size for entry in entries)
    origin = "from SAFT_CACHE_GB" if os.environ.get("SAFT_CACHE_GB") else "the default; SAFT_CACHE_GB sets another"
    show(plain(f"In all:  {in_bytes(taken)}; {in_bytes(_free(folder))} are free on that disk"))
    show(plain(f"Limit:   {in_bytes(limit)} for frozen, {origin}; what was not used for longest makes room"))
    origin = "from SAFT_CACHE" if os.environ.get("SAFT_CACHE") else "the default; SAFT_CACHE names another"
    show(plain(f"Folder:  {folder}, {origin}"))
    if any(entry.kind in KINDS for entry in entries):
        show("Remove:  saft cache --clear")


def _clear(folder: Path, kinds: list[str]) -> None:
    freed = {}
    for kind in kinds:
        with busy(f"Removing {folder / kind}"):
            try:
                freed[kind] = _remove(folder, kind)
            except OSError as error:
                raise InputError(f"Cannot remove {folder / kind}: {error.strerror or error}.") from error
    if not sum(freed.values()):
        show(plain(f"There was nothing to free in {folder}."))
        return
    parts = ", ".join(f"{kind} {in_bytes(size)}" for kind, size in freed.items() if size)
    show(plain(f"Freed {in_bytes(sum(freed.values()))} in {folder}: {parts}. It is made again when it is needed."))


def _entries(folder: Path, kind: str) -> Iterator[Entry]:
    """What there is of one kind: a line for every store, for every encoder, and one for all vectors."""
    if kind == "frozen":
        from saft.learning.frozen_store import stores

        yield from (Entry(kind, _named(store), store.size, store.last_use) for store in stores())
    elif kind == "vectors":
        files = _ours(folder, kind)
        if files:
            used = max(map(_last_use, files))
            yield Entry(
                kind, f"{len(files):,} {'table' if len(files) == 1 else 'tables'}", sum(map(_size, files)), used
            )
    else:
        for entry in _ours(folder, kind):
            used = max(map(_last_use, [entry, *entry.rglob("*")]))
            kept = " (installed by pip, kept by --clear)" if kind == PACKAGES else ""
            yield Entry(kind, entry.name + kept, _size(entry), used)


def _named(store: StoreSummary) -> str:
    """Which encoder's states, and where it is cut."""
    about: dict[str, Any] = store.about
    if not {"encoder", "layers", "kind"} <= about.keys():
        return store.folder.name
    what = {"states": "states of tokens", "means": "means of texts"}.get(about["kind"], about["kind"])
    return f"{encoder_name(about['encoder'])}, first {about['layers']} layers: {what}"


def encoder_name(origin: str) -> str:
    """A short name for where an encoder was loaded from."""
    from saft.features.backbones import PACKAGED

    path = Path(origin)
    for name, packaged in PACKAGED.items():
        is_unpacked = path.name == f"{name}-{packaged.sha256[:12]}"
        if is_unpacked or path.parts[-2:] == (packaged.module, Path(packaged.file).parent.name):
            return name
    if not path.is_absolute():
        return origin  # a name on the hub
    return "/".join(path.parts[-2:]) if path.name == "encoder" else path.name


def _remove(folder: Path, kind: str) -> int:
    """Remove one kind; returns the bytes that were freed."""
    if kind == "frozen":
        from saft.learning.frozen_store import clear_stores

        return clear_stores()
    freed = 0
    for entry in _ours(folder, kind):
        freed += _size(entry)
        # Renamed first, so that nobody finds half an encoder.
        gone = entry.rename(entry.with_name(f".removed-{uuid4().hex}"))
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    return freed


def _ours(folder: Path, kind: str) -> list[Path]:
    return sorted(entry for entry in (folder / kind).glob("*") if re.fullmatch(OURS[kind], entry.name))


def _size(entry: Path) -> int:
    files = [entry] if entry.is_file() else [file for file in entry.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _last_use(path: Path) -> float:
    found = path.stat()
    return max(found.st_atime, found.st_mtime)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M") if seconds else "–"


def _free(folder: Path) -> int:
    existing = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())
    return shutil.disk_usage(existing).free


def in_bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} bytes"

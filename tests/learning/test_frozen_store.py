"""States of texts on disk: shared, found again, never read half-written, and never more than the limit."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import saft
from saft.learning import frozen_store
from saft.learning.frozen_store import FrozenStore, frozen_folder, hash_tokens, limit_bytes

WIDTH = 8


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SAFT_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def folder(cache) -> Path:
    return frozen_folder() / "an-encoder"


def texts(first: int, count: int, rows: int = 3) -> tuple[np.ndarray, list[np.ndarray]]:
    """Hashes in no order, and states of 1 to ``rows`` rows."""
    numbers = np.arange(first, first + count)
    hashes = np.array([hash_tokens(np.array([number], np.int32)) for number in numbers], np.uint64)
    states = [np.random.default_rng(number).normal(size=(number % rows + 1, WIDTH)) for number in numbers.tolist()]
    return hashes, states


def assert_holds(store: FrozenStore, first: int, count: int, rows: int = 3) -> None:
    hashes, states = texts(first, count, rows)
    places = store.places(hashes)
    assert (places >= 0).all()
    for place, expected in zip(places.tolist(), states, strict=True):
        np.testing.assert_array_equal(store.read(place), expected.astype(np.float16))


def indexes(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.index.npy"))


def states_of(index: Path) -> Path:
    return index.with_name(index.name.replace(".index", ""))


def test_what_is_written_is_read_again_in_half_precision(folder):
    store = FrozenStore(folder)
    assert store.write(*texts(0, 20))
    assert_holds(store, 0, 20)
    assert store.read(0).dtype == np.float16
    assert texts(3, 1)[0][0] in store
    assert texts(99, 1)[0][0] not in store
    assert store.places(texts(15, 10)[0]).tolist()[5:] == [-1] * 5


def test_another_store_of_the_same_folder_finds_it(folder):
    first, second = FrozenStore(folder), FrozenStore(folder)
    assert first.write(*texts(0, 10))
    assert second.write(*texts(5, 10))  # some texts are there twice now, which does no harm
    third = FrozenStore(folder)
    assert_holds(third, 0, 15)
    assert (second.places(texts(0, 5)[0]) < 0).all()  # written after it was opened
    assert len(indexes(folder)) == 2


def test_another_process_finds_it_and_adds_to_it(folder):
    FrozenStore(folder).write(*texts(0, 10))
    program = (
        "import sys; from pathlib import Path; from tests.learning.test_frozen_store import *\n"
        "store = FrozenStore(Path(sys.argv[1])); assert_holds(store, 0, 10); assert store.write(*texts(10, 10))"
    )
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, cwd=Path(__file__).parents[2])
    assert_holds(FrozenStore(folder), 0, 20)


def test_places_stay_what_they_are_when_more_is_written(folder):
    store = FrozenStore(folder)
    store.write(*texts(0, 10))
    hashes, states = texts(0, 10)
    places = store.places(hashes)
    for first in (100, 200, 300):
        store.write(*texts(first, 10))
    for place, expected in zip(places.tolist(), states, strict=True):
        np.testing.assert_array_equal(store.read(place), expected.astype(np.float16))
    assert_holds(store, 200, 10)


@pytest.mark.parametrize("part", ["states", "index"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "something else"])
def test_a_damaged_or_missing_segment_is_as_if_it_were_not_there(folder, part, damage):
    store = FrozenStore(folder)
    store.write(*texts(0, 10))
    (broken,) = indexes(folder)
    store.write(*texts(10, 10))
    path = broken if part == "index" else states_of(broken)
    if damage == "missing":
        path.unlink()
    elif damage == "something else":
        np.save(path, np.zeros(3))
    else:
        path.write_bytes(path.read_bytes()[: 0 if damage == "empty" else -5])
    again = FrozenStore(folder)
    assert (again.places(texts(0, 10)[0]) == -1).all()
    assert_holds(again, 10, 10)
    assert again.write(*texts(0, 10))  # it is simply written again
    assert_holds(again, 0, 20)
    assert_holds(FrozenStore(folder), 0, 20)


def test_what_is_in_use_can_be_read_after_another_process_removed_it(folder):
    store = FrozenStore(folder)
    store.write(*texts(0, 10))
    for path in folder.iterdir():
        path.unlink()
    assert_holds(store, 0, 10)


def aged(store_folder: Path, seconds: float) -> None:
    for path in store_folder.iterdir():
        os.utime(path, (time.time() - seconds,) * 2)


@pytest.fixture
def limited(monkeypatch):
    """Sets the limit so that this many segments of 100 rows fit."""

    def limit(segments: float) -> None:
        monkeypatch.setenv("SAFT_CACHE_GB", str(segments * 100 * (WIDTH * 2 + frozen_store.INDEX.itemsize) / 1e9))

    return limit


def segment(first: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """One that takes about 100 rows."""
    return texts(first, 100, rows=1)


def test_the_segment_that_was_not_used_for_longest_makes_room(limited):
    old, used, new = (frozen_folder() / name for name in ("old", "used", "new"))
    FrozenStore(old).write(*segment(0))
    FrozenStore(used).write(*segment(1_000))
    aged(old, 100)
    aged(used, 200)
    assert_holds(FrozenStore(used), 1_000, 100, rows=1)  # used just now, although it is the older one
    limited(2.9)
    assert FrozenStore(new).write(*segment(2_000))
    assert not indexes(old)
    assert not list(old.glob("*.npy"))
    assert_holds(FrozenStore(used), 1_000, 100, rows=1)
    assert_holds(FrozenStore(new), 2_000, 100, rows=1)


def test_opening_a_store_alone_is_no_use_of_it(folder):
    FrozenStore(folder).write(*texts(0, 10))
    aged(folder, 1_000)
    store = FrozenStore(folder)
    assert time.time() - indexes(folder)[0].stat().st_mtime > 900
    store.places(texts(0, 1)[0])
    assert time.time() - indexes(folder)[0].stat().st_mtime < 900


def test_segments_in_use_never_make_room(folder, limited):
    FrozenStore(folder).write(*segment(0))
    store = FrozenStore(folder)
    assert_holds(store, 0, 100, rows=1)
    limited(2.9)
    assert store.write(*segment(1_000))
    assert not store.write(*segment(2_000))  # both others are in use here
    assert_holds(FrozenStore(folder), 0, 100, rows=1)
    assert_holds(FrozenStore(folder), 1_000, 100, rows=1)
    assert store.places(segment(2_000)[0]).max() == -1


def test_at_most_half_of_what_is_free_is_taken(folder, monkeypatch):
    usage = frozen_store.shutil.disk_usage("/")._replace(free=100 * (WIDTH * 2 + 24))
    monkeypatch.setattr(frozen_store.shutil, "disk_usage", lambda folder: usage)
    assert not FrozenStore(folder).write(*segment(0))
    assert FrozenStore(folder).write(*texts(0, 50, rows=1))


def test_the_limit_is_a_number_of_gigabytes(monkeypatch):
    monkeypatch.delenv("SAFT_CACHE_GB", raising=False)
    assert limit_bytes() == 20e9
    monkeypatch.setenv("SAFT_CACHE_GB", "0.5")
    assert limit_bytes() == 5e8
    for wrong in ("much", "-1", "nan"):
        monkeypatch.setenv("SAFT_CACHE_GB", wrong)
        with pytest.raises(saft.InputError, match=f"SAFT_CACHE_GB has to be a number of gigabytes; got '{wrong}'"):
            limit_bytes()


def test_where_nothing_can_be_written_nothing_is_and_it_says_so(cache):
    (cache / "frozen").write_text("a file where the folder should be")
    store = FrozenStore(frozen_folder() / "an-encoder")
    assert not store.write(*texts(0, 10))
    assert store.places(texts(0, 10)[0]).max() == -1


@pytest.mark.parametrize("which", [1, 2])
def test_a_disk_that_fills_up_while_writing_leaves_nothing_behind(folder, monkeypatch, which):
    store, save, calls = FrozenStore(folder), np.save, []

    def full(file, array, **how):
        calls.append(1)
        save(file, array, **how)
        if len(calls) == which:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert not store.write(*texts(0, 10))
    assert not list(folder.glob("*.npy"))
    assert store.places(texts(0, 10)[0]).max() == -1


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from tests.learning.test_frozen_store import FrozenStore, texts
save, calls = np.save, []
def killed(file, array, **how):
    calls.append(1)
    save(file, array, **how)
    file.flush()
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
np.save = killed
FrozenStore(Path(sys.argv[1])).write(*texts(0, 10))
"""


@pytest.mark.parametrize("which", [1, 2])
def test_a_killed_write_leaves_nothing_that_is_read_and_is_cleared_away_later(folder, monkeypatch, which):
    command = [sys.executable, "-c", KILLED, str(folder), str(which)]
    done = subprocess.run(command, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    left = list(folder.glob("*.npy"))
    assert left
    assert not indexes(folder)
    store = FrozenStore(folder)
    assert store.places(texts(0, 10)[0]).max() == -1
    assert store.write(*texts(10, 10))  # another process may still be writing the rest
    assert all(path.exists() for path in left)
    aged(folder, frozen_store.LONGEST_WRITE + 10)
    assert store.write(*texts(20, 10))
    assert not any(path.exists() for path in left)
    assert_holds(FrozenStore(folder), 10, 20)


def test_a_folder_that_may_only_be_read_is_read(folder, monkeypatch):
    FrozenStore(folder).write(*texts(0, 10))

    def refused(*_given, **_how):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refused)
    monkeypatch.setattr(frozen_store.Path, "mkdir", refused)
    store = FrozenStore(folder)
    assert_holds(store, 0, 10)
    assert not store.write(*texts(10, 10))


def test_texts_of_the_same_tokens_have_the_same_hash_and_others_do_not():
    tokens = np.array([101, 7, 102], np.int32)
    assert hash_tokens(tokens) == hash_tokens(tokens.copy())
    many = {hash_tokens(np.array([number, number // 7], np.int32)) for number in range(5_000)}
    assert len(many) == 5_000
    assert max(many) < 2**64

"""Small files that unpack to gigabytes are refused, by a limit that can be raised."""

import gzip
import subprocess
import sys

import pytest

import saft
from saft.data.files import most_unpacked

HEADER = b"user,item,text,label\n"


@pytest.fixture
def bomb(tmp_path):
    """3 MB of zeros that are 3 GB."""
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(HEADER) + 10 * gzip.compress(bytes(300_000_000), compresslevel=9))
    assert path.stat().st_size < 5_000_000
    return path


def test_a_gzip_bomb_is_refused_with_a_sentence_that_says_how_to_raise_the_limit(bomb, monkeypatch):
    with pytest.raises(saft.InputError, match=r"unpack to more than 0\.\d+ GB.*set SAFT_UNPACKED_GB"):
        saft.read(bomb)
    monkeypatch.setenv("SAFT_UNPACKED_GB", "0.1")
    with pytest.raises(saft.InputError, match=r"unpack to more than 0\.1 GB"):
        saft.read(bomb)


def test_a_bomb_takes_no_more_memory_than_the_limit(bomb):
    # Not ru_maxrss: on Linux it starts from the parent's.
    script = "import re, sys, saft\ntry: saft.read(sys.argv[1])\nexcept saft.InputError: "
    script += "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    command = [sys.executable, "-c", script, str(bomb)]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1024
    assert peak < 1.2e9


def test_a_higher_limit_lets_a_table_through_and_a_lower_one_does_not(tmp_path, monkeypatch):
    path = tmp_path / "reviews.csv.gz"
    path.write_bytes(gzip.compress(HEADER + b"a,b,good,1\nc,d,bad,2\n" * 1000))
    monkeypatch.setenv("SAFT_UNPACKED_GB", "0.00001")
    with pytest.raises(saft.InputError, match="SAFT_UNPACKED_GB"):
        saft.read(path)
    monkeypatch.setenv("SAFT_UNPACKED_GB", "0.001")
    assert len(saft.read(path)) == 2000


def test_members_behind_each_other_are_one_table(tmp_path):
    path = tmp_path / "reviews.csv.gz"
    path.write_bytes(gzip.compress(HEADER + b"a,b,good,1\n") + gzip.compress(b"c,d,bad,2\n"))
    assert len(saft.read(path)) == 2


def test_the_limit_grows_with_the_file(monkeypatch):
    assert most_unpacked(10) == 250_000_000
    assert most_unpacked(10**9) == 10**11
    for wrong in ("x", "-1", "nan", "inf"):
        monkeypatch.setenv("SAFT_UNPACKED_GB", wrong)
        with pytest.raises(saft.InputError, match="number of gigabytes"):
            most_unpacked(10)

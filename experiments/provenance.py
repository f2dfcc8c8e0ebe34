"""Which software a result came from."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import saft

PACKAGES = ("torch", "transformers", "numpy", "scipy", "scikit-learn", "polars")


def versions() -> dict[str, str]:
    return {"python": sys.version.split()[0], "saft": saft.__version__} | {name: version(name) for name in PACKAGES}


def commit() -> str:
    """Of this checkout, with a plus sign if it was changed since; empty outside of a checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    # Results are written while tables run, so they do not count as a change.
    changed = git("status", "--porcelain", "--", "..", ":(exclude)results")
    return git("rev-parse", "HEAD") + ("+" if changed else "")

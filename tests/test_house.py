"""The house stays in order: imports go one way, every module has its test, nothing unsafe is loaded."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import saft

ROOT = Path(__file__).parents[1]
# From the ground up: a module may import from the ones before it, never from the ones behind it.
ORDER = [
    "errors", "settings", "writing", "coding", "columns", "times", "diagnosis", "files", "summary", "picture",
    "network", "attributes", "reading", "joining", "splits", "metrics", "report", "marketplace_texts", "marketplace",
    "backbones", "tokens", "nodes", "known_labels", "regression", "phrases",
    "structure.bipartite", "structure.solvers", "structure.interface", "structure.distance", "structure.centrality",
    "structure.alternatives", "structure.landmarks", "structure.walks", "structure", "structure.record",
    "sampling", "inputs",
    "model.language", "model.interaction_attention", "model.batch", "model.interaction_model", "model.saft", "model",
    "frozen_layers", "feed", "objective", "prediction", "training", "assembly", "storage", "classifier", "evaluation",
    "tuning", "demonstration", "cases", "live", "explanation",
    "serving", "serving.limits", "serving.store", "serving.desk", "serving.worker", "serving.onnx_session",
    "serving.opening", "serving.schemas", "serving.gate", "serving.app",
    "methods._card", "methods._line_graph", "methods._fine_tuned", "methods._text_vectors", "methods._features",
    "methods._gcn", "methods._logistic", "methods._ter_aer",
    "methods.tfidf", "methods.tfidf_nodes", "methods.attre2vec", "methods.ter_aer_ppr", "methods.ter_aer_hkpr",
    "methods.eagle", "methods.bert", "methods.bert_nodes", "methods.bert_graphsage", "methods.deberta_gcn",
    "methods.sbert_gcn", "methods.causal_lm_gcn", "methods.graphformers", "methods.giant", "methods._glem",
    "methods.glem_lm", "methods.glem_gnn", "methods.edgeformers", "methods.bert_labels", "methods.saft_lga",
    "methods.saft_gau", "methods.saft", "methods", "comparison",
    "console", "progress", "flags", "model_commands", "compare_command", "serve_command", "cli",
]  # fmt: skip
# Modules whose tests stand under the name of what they serve.
TESTED_IN = {
    "errors": "test_bad_input", "columns": "test_bad_input", "diagnosis": "test_bad_input", "files": "test_reading",
    "attributes": "test_reading", "picture": "test_summary", "marketplace_texts": "test_marketplace",
    "structure.bipartite": "structure/test_distance", "structure.interface": "structure/test_distance",
    "structure": "structure/test_alternatives", "model": "model/test_language", "model.batch": "model/test_saft",
    "model.interaction_model": "model/test_saft",
    "objective": "test_training", "prediction": "test_classifier", "assembly": "test_classifier",
    "storage": "test_classifier", "tuning": "test_model_commands",
    "demonstration": "test_learning", "console": "test_cli", "progress": "test_model_commands",
    "flags": "test_model_commands", "methods": "methods/test_every_method", "cases": "test_live",
    "serving": "serving/test_app", "serving.limits": "serving/test_app", "serving.opening": "serving/test_app",
    "serving.schemas": "serving/test_contract", "serving.gate": "serving/test_app", "serve_command": "serving/test_app",
    "methods._card": "methods/test_card", "methods._line_graph": "methods/test_line_graph",
    "methods._fine_tuned": "methods/test_fine_tuned", "methods._text_vectors": "methods/test_text_vectors",
    "methods._features": "methods/test_features", "methods._gcn": "methods/test_sbert_gcn",
    "methods._logistic": "methods/test_logistic", "methods._ter_aer": "methods/test_ter_aer_ppr",
    "methods._glem": "methods/test_glem_lm",
}  # fmt: skip


def modules() -> list[Path]:
    return [path for path in sorted((ROOT / "saft").rglob("*.py")) if path != ROOT / "saft" / "__init__.py"]


def name_of(path: Path) -> str:
    """``structure.distance`` for ``saft/structure/distance.py``, ``structure`` for ``saft/structure/__init__.py``."""
    return ".".join(path.relative_to(ROOT / "saft").with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path) -> set[str]:
    """Modules of ours that this one imports when it runs (not those only named for type checking)."""
    tree = ast.parse(path.read_text())
    names = set()
    for node in _outside_type_checking(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "saft":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("saft."):
            names.add(node.module.removeprefix("saft."))
    return names


def _outside_type_checking(node: ast.AST):
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield child
            yield from _outside_type_checking(child)


def test_every_module_has_a_place_in_the_order():
    assert {name_of(path) for path in modules()} == set(ORDER)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_one_way(path):
    allowed = set(ORDER[: ORDER.index(name_of(path))])
    assert imports_of(path) <= allowed


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_every_module_has_its_test(path):
    *folders, last = name_of(path).split(".")
    usual = "/".join([*folders, f"test_{last}"])
    assert (ROOT / "tests" / f"{TESTED_IN.get(name_of(path), usual)}.py").is_file()


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
    assert [entry for entry in named if re.split(r"[<>=]", entry)[0].lower() not in locked] == []
    assert locked["torch"] == "2.13.0"


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == saft.__version__
    assert f"## [{saft.__version__}]" in (ROOT / "CHANGELOG.md").read_text()

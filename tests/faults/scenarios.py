"""What is killed at every operation: run as ``python -m tests.faults.scenarios NAME FOLDER [MODEL]``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import torch

from saft.classifier import estimator, folder, storage  # noqa: F401 (imported before forking)
from saft.learning import checkpoint
from saft.learning.callbacks import TrainerState
from saft.learning.checkpoint import Checkpoint
from tests.faults.killing import every_kill


def state_of(number: int) -> tuple[checkpoint.Parts, TrainerState]:
    return {"model": {"weight": torch.full((500,), float(number))}}, TrainerState(epoch=number)


def save_checkpoint(place: Path, number: int) -> None:
    with checkpoint.claimed(place / "checkpoint"):
        Checkpoint(place / "checkpoint", 0.0, "the same run").save(*state_of(number))


def verify_checkpoint(place: Path, finished: bool) -> None:
    """It is one of the two, whole; and the next one can be written."""
    parts, state = Checkpoint(place / "checkpoint", 0.0, "the same run").load()
    assert state.epoch in ((2,) if finished else (1, 2))
    assert torch.equal(parts["model"]["weight"], state_of(state.epoch)[0]["model"]["weight"])
    save_checkpoint(place, 3)
    assert Checkpoint(place / "checkpoint", 0.0, "the same run").load()[1].epoch == 3
    assert [path.name for path in place.rglob("*")] == ["checkpoint", "state.safetensors"]


def marked(name: str):
    return lambda new: (new / "README.md").write_text(name)


def save_model(place: Path, by_renames: bool) -> None:
    if by_renames:
        folder.exchanged = lambda one, other: False
    estimator.load(MODEL).save(place / "model", marked("new"))


def verify_model(place: Path, finished: bool) -> None:
    """It is the old one or the new one, whole; and it can be saved again."""
    classifier = estimator.load(place / "model")
    said = (place / "model" / "README.md").read_text()
    assert said in (("new",) if finished else ("old", "new"))
    classifier.save(place / "model", marked("newest"))
    assert (place / "model" / "README.md").read_text() == "newest"
    assert [path.name for path in place.iterdir()] == ["model"]


def old_model(place: Path) -> None:
    shutil.copytree(MODEL, place / "model")
    marked("old")(place / "model")


SCENARIOS = {
    "checkpoint": (lambda place: save_checkpoint(place, 1), lambda place: save_checkpoint(place, 2), verify_checkpoint),
    "save": (old_model, lambda place: save_model(place, by_renames=False), verify_model),
    "save by renames": (old_model, lambda place: save_model(place, by_renames=True), verify_model),
}

if __name__ == "__main__":
    MODEL = Path(sys.argv[3]) if len(sys.argv) > 3 else Path()
    print(every_kill(*SCENARIOS[sys.argv[1]], Path(sys.argv[2])))

"""Fixtures for tests of the classifier."""

import pytest

from saft.learning.trainer import Trainer


@pytest.fixture(autouse=True, scope="module")
def _last_epoch_is_kept():
    """An encoder with random weights hardly ever improves on the start, in which neither words nor messages take part.
    So that they do, the last epoch of these tests is kept, and mixed with the start half and half."""
    consider = Trainer._consider

    def keep(trainer, epoch, logits):
        scores = consider(trainer, epoch, logits)
        trainer.best.keep(trainer.accelerator.unwrap_model(trainer.model), epoch, scores[0], trainer.state)
        trainer.state.best_share = 0.5 if epoch else 0.0
        return scores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_consider", keep)
        yield

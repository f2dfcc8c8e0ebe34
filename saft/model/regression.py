"""RegressionModel: a linear model of the side features: SAFT's start, without the rest."""

from __future__ import annotations

from torch import nn

from saft.model.base import Output, SideFeatureModel, Sizes
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.settings import Settings


class RegressionModel(SideFeatureModel):
    """Batch → logits of its seed rows.

    The encoder, if there is one, is not run here: sentence vectors have been read from it beforehand.
    """

    def __init__(self, encoder: TextEncoder | None, settings: Settings, sizes: Sizes) -> None:
        nn.Module.__init__(self)
        self.encoder, self.settings, self.sizes = encoder, settings, sizes  # type: ignore[assignment]
        self.head = nn.Linear(sizes.side_features, sizes.n_classes)

    def forward(self, batch: Batch) -> Output:
        if batch.side_features is None:
            raise ValueError("A batch for this model needs side features.")
        seen = batch.side_features[batch.seed_rows]
        return Output(self.head(seen), seen)

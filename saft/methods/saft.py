"""SAFT as this product ships it, under the protocol of its rivals.

Model, default settings and training are those of ``SaftClassifier``: both call ``saft.classifier.fitting.fit``. Two
things differ afterwards, as for every method of a comparison: probabilities are not calibrated, and labels of
validation rows stay hidden when test rows are predicted (``SaftClassifier`` shows them to neighbours), so that no
method sees labels that its rivals do not.

What differs from the paper, and what that measured: ``docs/model.md``.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel

METHOD = Method(title="SAFT", paper="the SAFT paper, developed further", build=partial(FineTuned, build=SaftModel))

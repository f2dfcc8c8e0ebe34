"""BERT+LABELS: the text, and the known labels of the user's and the item's other interactions. A rival of our own.

    logits = Linear([mean of the last layer's tokens; h_u; h_i])

h_u and h_i are histograms of the known labels of the user's and of the item's other interactions: per class the log of
its share against the share overall, and the log of how many there are. Only labels of training rows count, never an
interaction's own; in training a fifth of the rows is predicted at a time with all of their labels hidden, so that
training looks like prediction. The head starts from the best prediction from the histograms alone. No messages, no
structure: what a method with a graph has to beat.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel
from saft.settings import TEXT_ONLY

METHOD = Method(
    title="BERT+LABELS",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=TEXT_ONLY | {"labels": True},
)

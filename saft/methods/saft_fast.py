"""SAFT without an encoder: the preset ``fast`` under the protocol of its rivals.

    logits = [n-gram log-odds; known labels; n-gram log-odds of neighbours without a label; style] · W + b

A multinomial regression on what can be said of an interaction without an encoder, per class: what a linear model of
n-grams reads in its text, the labels of its user's and its item's other interactions, and what the linear model reads
in those of them that have no label; and how its text and theirs are written (``saft/features/style.py``). Everything is
made without the labels of the interaction's fold (``saft/features/folds.py``); each group of columns has a strength of
its own, chosen by the likelihood of held-out rows (``saft/features/regression.py``). Nothing is trained by steps, so
validation rows are not used.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel
from saft.settings import PRESETS

METHOD = Method(
    title="SAFT (fast)",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=PRESETS["fast"],
    reads_with_encoder=False,
)

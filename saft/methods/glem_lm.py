"""GLEM-LLM: the language model of a pair of models, each trained on the other's predictions.

Zhao, Qu, Li, Yan, Liu, Li, Xie and Tang: Learning on Large-scale Text-attributed Graphs via Variational Inference. ICLR
2023. The formulas, and what differs from the release: ``_glem.py``. Both branches are always trained; this one
predicts.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._gcn import GRAPH
from saft.methods._glem import Glem
from saft.settings import TEXT_ONLY

METHOD = Method(
    title="GLEM-LLM",
    paper="Zhao et al., ICLR 2023",
    build=partial(Glem, branch="language"),
    settings=TEXT_ONLY,
    options=GRAPH,
)

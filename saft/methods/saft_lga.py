"""SAFT (LGA) as the paper prints it: messages by the line graph attention.

The formulas are in ``saft/model/saft.py`` and ``saft/model/message_passing.py``. Corrected only where what is
printed cannot be computed: the distance embedding leaves out directions of weight 1/0, structure tokens belong to the
interaction, samples that all interactions of a node share are drawn by the sum over all of them. Mini-batches with one
sampled neighbour by user and one by item, as the authors' release has it; the paper does not state its b. Up to four
seed rows of one user or item are in a batch together, since they share sampled neighbours: 2.2 texts are encoded per
seed row instead of 2.7 (musical instruments).
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel
from saft.settings import AS_PRINTED

METHOD = Method(
    title="SAFT (LGA), as printed",
    paper="the SAFT paper",
    build=partial(FineTuned, build=SaftModel),
    settings=AS_PRINTED | {"messages": "lga", "neighbours": 1, "group_size": 4},
)

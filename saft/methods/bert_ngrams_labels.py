"""BERT+N-grams+LABELS: SAFT without its graph. A rival of our own.

    logits  = (1 − share) · start + share · trained
    start   = a regression, and boosted trees, on [S; P; h_u; h_i; style]
    trained = W [mean of the last layer's tokens; h_u; h_i] + b

S and P are the class log-odds of the text by its frozen sentence vector (from the layers below the trained ones) and by
its n-grams, h_u and h_i histograms of the known labels of user and item, style how the text is written, as in
``sentence_labels.py``. The encoder is trained end to end, as many layers of it as for SAFT, and mixed with the start as
SAFT is (saft/learning/start.py).

There are no messages, no structure, no vectors of users and items, no texts of neighbours. So the distance to SAFT is
what the graph brings beyond counts of labels.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import NO_GRAPH_BUT_LABELS, FineTuned
from saft.model.saft import SaftModel

METHOD = Method(
    title="BERT+N-grams+LABELS",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=NO_GRAPH_BUT_LABELS | {"ngrams": True, "sentences": True, "style": True, "trees": True},
)

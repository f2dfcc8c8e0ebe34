"""BERT+N-grams+LABELS: SAFT without its graph. A rival of our own.

    logits = W [mean of the last layer's tokens; S; P; h_u; h_i; style] + b

The encoder is trained end to end, as many layers of it as for SAFT. S and P are the class log-odds of the text by its
frozen sentence vector (from the layers below the trained ones) and by its n-grams, h_u and h_i histograms of the known
labels of user and item, style how the text is written, as in ``sentence_labels.py``; the encoder is
trained beside h_u and h_i, and mixed with the best prediction that all of these give alone, by a regression and boosted
trees, as SAFT is.
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

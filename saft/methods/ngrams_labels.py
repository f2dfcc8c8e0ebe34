"""N-grams+LABELS: a regression on n-grams and on the known labels of user and item. No encoder. A rival of our own.

    logits = W [P; h_u; h_i] + b

P are the class log-odds of the text by a linear model of its n-grams (``saft/features/ngrams.py``). h_u and h_i are
histograms of the known labels of the user's and of the item's other interactions, as in ``bert_labels.py``. Whatever
describes a training row is made without the labels of its fold, a fifth of all. How strongly W is pulled to zero is
chosen for words and for labels by cross-validated likelihood (``saft/features/regression.py``).

It takes seconds, and is part of SAFT's start: what every method with an encoder has to beat.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import NO_GRAPH_BUT_LABELS, FineTuned
from saft.model.saft import SaftModel
from saft.settings import NO_ENCODER

METHOD = Method(
    title="N-grams+LABELS",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=NO_GRAPH_BUT_LABELS
    | {"encoder": NO_ENCODER, "trained_layers": 0, "ngrams": True, "sentences": False, "style": False},
    reads_with_encoder=False,
)

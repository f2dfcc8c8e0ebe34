"""Sentence+LABELS: a regression on frozen sentence vectors, n-grams and known labels. A rival of our own.

    logits = W [S; P; h_u; h_i; style] + b

S are the class log-odds of the text by multinomial regression on its sentence vector, means over its tokens at several
depths of the encoder (``saft/features/sentences.py``); P, h_u and h_i are those of ``ngrams_labels.py``. All are made
without the labels of a training row's fold. Style is how the text is written (``saft/features/style.py``). No layer is
trained, and nothing is known of the graph but counts of labels: what can be had from an encoder in one pass over the
texts.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import NO_GRAPH_BUT_LABELS, FineTuned
from saft.model.saft import SaftModel

METHOD = Method(
    title="Sentence+LABELS",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=NO_GRAPH_BUT_LABELS | {"trained_layers": 0, "ngrams": True, "sentences": True, "style": True},
)

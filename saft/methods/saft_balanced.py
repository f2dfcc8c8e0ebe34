"""SAFT with an encoder that is not trained: the preset ``balanced`` under the protocol of its rivals.

    logits = [log-odds by n-grams and by the sentence vector; known labels; known labels weighted by likeness of text;
              likeness; log-odds of neighbours without a label; log-odds among the texts around; style] · W + b

The regression of ``saft_fast`` with what an encoder reads. The sentence vector, the mean of a text's states, is
computed once per text and kept (``saft/learning/frozen_store.py``). One linear model reads it
(``saft/features/sentences.py``), another beside those of the texts around it (``saft/features/context.py``), and its
cosine says how alike the texts of two interactions are (``saft/features/evidence.py``). Nothing is trained by
steps, so validation rows are not used.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel
from saft.settings import PRESETS

METHOD = Method(
    title="SAFT (balanced)",
    paper="ours",
    build=partial(FineTuned, build=SaftModel),
    settings=PRESETS["balanced"],
)

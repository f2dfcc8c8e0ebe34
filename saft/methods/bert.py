"""BERT: a pretrained encoder, fine-tuned; no graph.

Devlin, Chang, Lee and Toutanova: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding.
NAACL 2019.

    logits = Linear(x),   x: mean over the tokens of the last layer

Differs from the original: the encoder is the one that all methods share, and x is the mean instead of [CLS], which
suits that encoder better (``pooling=first`` takes [CLS]).
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import POOLING, FineTuned, TextModel
from saft.model.base import Output
from saft.model.batch import Batch
from saft.settings import TEXT_ONLY


class Bert(TextModel):
    def forward(self, batch: Batch) -> Output:
        return self.answer(self.read(batch)[batch.seed_rows])


METHOD = Method(
    title="BERT",
    paper="Devlin et al., NAACL 2019",
    build=partial(FineTuned, build=Bert),
    settings=TEXT_ONLY,
    options=POOLING,
)

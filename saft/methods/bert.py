"""BERT: a pretrained encoder, fine-tuned; no graph.

Devlin, Chang, Lee and Toutanova: BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding.
NAACL 2019.

    logits = Linear([CLS] of the last layer)

Differs from the original: nothing but the encoder, which is the one that all methods are given.
"""

from __future__ import annotations

from functools import partial

from torch import nn

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned, first_tokens
from saft.model.batch import Batch
from saft.model.interaction_model import InteractionModel, Output, Sizes
from saft.model.language import LanguageModel
from saft.settings import TEXT_ONLY, Settings


class Bert(InteractionModel):
    def __init__(self, language: LanguageModel, settings: Settings, sizes: Sizes) -> None:
        super().__init__(language, settings, sizes)
        self.dropout = nn.Dropout(settings.dropout)
        self.head = nn.Linear(language.width, sizes.n_classes)

    def forward(self, batch: Batch) -> Output:
        words = first_tokens(self.language, batch.texts)[batch.targets]
        return Output(self.head(self.dropout(words)), words)


METHOD = Method(
    title="BERT",
    paper="Devlin et al., NAACL 2019",
    build=partial(FineTuned, build=Bert),
    settings=TEXT_ONLY,
)

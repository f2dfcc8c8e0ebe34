"""Sentence-BERT+GCN: frozen sentence vectors, then graph convolution.

Reimers and Gurevych: Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019; Kipf and Welling, ICLR
2017.

    x_e = mean over the tokens of the last layer;   two layers of graph convolution (``_gcn.py``)

With ``minilm``, itself a Sentence-BERT, the mean is what the encoder was trained for.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._gcn import GRAPH, FrozenText

METHOD = Method(
    title="Sentence-BERT+GCN",
    paper="Reimers and Gurevych, EMNLP 2019; Kipf and Welling, ICLR 2017",
    build=partial(FrozenText, pooling="mean"),
    settings={},
    options=GRAPH,
)

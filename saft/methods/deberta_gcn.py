"""DeBERTa+GCN: frozen vectors of a DeBERTa, then graph convolution.

He, Gao and Chen: DeBERTaV3: Improving DeBERTa using ELECTRA-Style Pre-Training with Gradient-Disentangled Embedding
Sharing. ICLR 2023; Kipf and Welling, ICLR 2017.

    x_e = mean over the tokens of the last layer;   two layers of graph convolution (``_gcn.py``)

The weights are those of ``encoder``, by default version 3 of the base size from the model hub; give a folder where
the hub cannot be reached. Whatever is named is used: a row of a table names its weights. ``pooling=first`` takes
[CLS], as the paper's row may have done; nothing in DeBERTa's training makes that token represent the text.
"""

from __future__ import annotations

from saft.methods._card import Method
from saft.methods._fine_tuned import POOLING
from saft.methods._gcn import GRAPH, FrozenText

METHOD = Method(
    title="DeBERTa+GCN",
    paper="He et al., ICLR 2023; Kipf and Welling, ICLR 2017",
    build=FrozenText,
    settings={"encoder": "microsoft/deberta-v3-base"},
    options=GRAPH | POOLING,
)

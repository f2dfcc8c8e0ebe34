"""Causal LM+GCN: frozen vectors of a language model that reads from left to right, then graph convolution.

Touvron et al.: Llama 2: Open Foundation and Fine-Tuned Chat Models. 2023 (the paper's row is LLaMA-2); Kipf and
Welling, ICLR 2017.

    x_e = mean over the tokens of the last layer;   two layers of graph convolution (``_gcn.py``)

Any model of the Llama family will do: a folder, a hub name, or a ``.gguf`` file, whose weights are unpacked (this needs
the package gguf). The default is one that runs on a laptop. Vectors computed elsewhere are taken from a ``.npy`` file
with one row per interaction.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._gcn import GRAPH, FrozenText

METHOD = Method(
    title="Causal LM+GCN",
    paper="Touvron et al. 2023; Kipf and Welling, ICLR 2017",
    build=partial(FrozenText, pooling="mean"),
    settings={"encoder": "HuggingFaceTB/SmolLM2-135M"},
    options=GRAPH,
)

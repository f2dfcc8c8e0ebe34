"""The settings as keywords with their types, for editors and type checkers."""

from __future__ import annotations

from typing import TypedDict


class SettingsKeywords(TypedDict, total=False):
    """The settings as keywords, so that an editor completes ``SaftClassifier(``. A test compares both lists."""

    encoder: str
    layers: int
    trained_layers: int
    max_length: int
    precision: str
    words: bool
    ngrams: bool
    sentences: bool
    style: bool
    trees: bool
    distance: str
    centrality: str
    structure_dim: int
    nodes: str
    node_dim: int
    labels: bool
    alike_texts: bool
    neighbour_words: bool
    repeats: bool
    fusion: str
    messages: str
    user_messages: bool
    item_messages: bool
    text_messages: bool
    structure_tokens: bool
    rounds: int
    delta: float
    lam: float
    readout: str
    dropout: float
    sampling: str
    neighbours: int
    cache_neighbours: bool
    full_batch: bool
    batch_size: int
    group_size: int
    seed: int
    epochs: int
    least_steps: int
    patience: int
    learning_rate: float
    head_learning_rate: float
    train_words: bool
    weight_decay: float
    epsilon: float
    warmup: float
    clip: float
    loss: str
    class_weights: bool
    node_dropout: float
    valid_share: float

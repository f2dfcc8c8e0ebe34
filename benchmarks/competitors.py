"""What the speed of training and inference is measured with: encoders, networks and competitors.

``saft`` is the product with its defaults and b neighbours; ``rivals`` is :mod:`benchmarks.rivals_way`; ``plain`` is
text classification with ``transformers`` on the same encoder, padded per batch, its word vectors frozen as ours are:
the cost of encoding the text, which the graph adds to.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import saft
from benchmarks import rivals_way
from saft import SaftClassifier
from saft.classifier.fitting import fit
from saft.data.network import TextualInteractionNetwork
from saft.features.backbones import find_backbone
from saft.features.tokens import load_tokenizer
from saft.learning.callbacks import Callback, EpochRecord, TrainerState
from saft.learning.prediction import predict_logits
from saft.learning.trainer import Trainer
from saft.settings import Settings

PLAIN_BATCH = 32


@contextmanager
def encoder_called(name: str) -> Iterator[tuple[str, int]]:
    """(encoder, layers) for ``tiny``, ``minilm3`` and ``minilm6``."""
    if name != "tiny":
        yield "minilm", int(name.removeprefix("minilm"))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder))
        yield folder, 2


def write_tiny(folder: Path) -> None:
    """An encoder of BERT-Tiny's size, 2 layers of 128, with random weights and minilm's tokenizer."""
    from transformers import BertConfig, BertModel

    tokenizer = load_tokenizer("minilm")
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "hidden_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 512,
    }
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **shape))  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def network_called(name: str) -> TextualInteractionNetwork:
    """The embedded network with that many interactions, or the first ones of a real one from ``../shared/data``."""
    if name.isdigit():
        return saft.demo_network(int(name))
    return saft.read(REAL / f"{name}.parquet").take(np.arange(OF_A_REAL_ONE))


REAL = Path(__file__).parents[2] / "shared" / "data"
REAL_NETWORK, OF_A_REAL_ONE = "rotten_tomatoes", 20_000


def courses(sizes: dict[str, tuple[int, int]]) -> Iterator[tuple[str, str, int, int]]:
    """(encoder, network, seed rows of slow competitors, repeats): embedded networks, a larger one and a real one.

    Args:
        sizes: encoder → interactions of its embedded network, and seed rows of the slow competitors.
    """
    for encoder, (interactions, seed_rows) in sizes.items():
        yield encoder, str(interactions), seed_rows, 3
    seed_rows = sizes["tiny"][1]
    yield "tiny", "100000", seed_rows, 1
    if (REAL / f"{REAL_NETWORK}.parquet").is_file():
        yield "tiny", REAL_NETWORK, seed_rows, 1


def described(network: str) -> str:
    return f"{int(network):,} interactions" if network.isdigit() else network


class EpochTimes(Callback):
    """``seconds`` from an epoch's first step to the end of its validation."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_epoch_begin(self, state: TrainerState) -> None:
        self._began = time.perf_counter()

    def on_epoch_end(self, state: TrainerState, record: EpochRecord) -> None:
        self.seconds.append(time.perf_counter() - self._began)


def saft_settings(encoder: str, layers: int, neighbours: int, **changes: Any) -> Settings:
    """The product's defaults, with texts as long as the others' are, as many layers trained, and states of neighbours
    passed between layers as the others do."""
    values = {
        "messages": "lga",
        "encoder": encoder,
        "layers": layers,
        "trained_layers": rivals_way.ALL_LAYERS,
        "neighbours": neighbours,
        "max_length": rivals_way.PADDED_TO,
    }
    return Settings.of(values | changes)


def labelled_rows(network: TextualInteractionNetwork, share: float = 1.0, seed: int = 0) -> list[np.ndarray]:
    """Rows for training and for validation: those of the usual split, or this share of them, drawn by the seed."""
    parts, rng = saft.split(network, seed=seed), np.random.default_rng(seed)
    return [np.sort(rng.permutation(part)[: int(share * len(part))]) for part in (parts.train, parts.valid)]


def train_saft(
    settings: Settings, network: TextualInteractionNetwork, share: float = 1.0, refresh_all: bool = False
) -> float:
    """Seconds per seed row over all epochs, with everything else that is encoded, and with validation.

    Args:
        refresh_all: encode every row outside of training after every epoch, however few rows are labelled.
    """
    times, (train, valid) = EpochTimes(), labelled_rows(network, share)
    fit(settings, network, train, valid, callbacks=[times], refresh_at_most=len(network) if refresh_all else None)
    return sum(times.seconds) / (len(train) * len(times.seconds))


def seconds_of_steps(trainer: Trainer) -> Iterator[float]:
    """Seconds of each step of the next epoch, including the preparation of its batch."""
    began = time.perf_counter()
    for batch in trainer.batches():
        trainer.train_step(batch)
        yield time.perf_counter() - began
        began = time.perf_counter()


def train_rivals_way(settings: Settings, network: TextualInteractionNetwork, seed_rows: int) -> float:
    """Seconds per seed row in the second epoch over this many; the first epoch is the warm-up."""
    train, times = saft.split(network).train, EpochTimes()
    assembly, loader = rivals_way.assemble(settings, network.showing(train))
    nothing = np.empty(0, np.int64)
    Trainer(
        assembly.model, loader, train[:seed_rows], nothing, nothing, settings.changed(epochs=2), callbacks=[times]
    ).run()
    return times.seconds[-1] / seed_rows


def predict_saft(settings: Settings, network: TextualInteractionNetwork) -> float:
    """Seconds per interaction of a known network, through the public API; training would not change it."""
    classifier = SaftClassifier(**settings.changed(epochs=0).as_dict()).fit(network)
    began = time.perf_counter()
    classifier.predict_proba(network)
    return (time.perf_counter() - began) / len(network)


def predict_rivals_way(settings: Settings, network: TextualInteractionNetwork, seed_rows: int) -> float:
    assembly, loader = rivals_way.assemble(settings, network)
    assembly.model.train(False)
    predict_logits(assembly.model, loader, np.arange(rivals_way.SEED_ROWS))  # warm
    began = time.perf_counter()
    predict_logits(assembly.model, loader, np.arange(seed_rows))
    return (time.perf_counter() - began) / seed_rows


class PlainText:
    """A sequence classifier of ``transformers`` in a loop as its tutorials have it, on this many texts of a network."""

    def __init__(self, encoder: str, layers: int, network: TextualInteractionNetwork, number: int) -> None:
        from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding
        from transformers.utils import logging

        torch.manual_seed(0)
        tokenizer = load_tokenizer(encoder)
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # it warns that the head is new
        self.model = AutoModelForSequenceClassification.from_pretrained(
            find_backbone(encoder), num_hidden_layers=layers, num_labels=network.n_classes
        )
        self.model.get_input_embeddings().requires_grad_(False)
        some = network.take(np.random.default_rng(0).permutation(len(network))[:number])
        texts = tokenizer(some.texts.to_list(), truncation=True, max_length=rivals_way.PADDED_TO)
        self.examples = [
            {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
            for ids, mask, label in zip(texts["input_ids"], texts["attention_mask"], some.labels, strict=True)
        ]
        self.collate: Callable[[list[Any]], Any] = DataCollatorWithPadding(tokenizer)

    def train(self) -> float:
        """Seconds per text."""
        trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        optimiser = torch.optim.AdamW(trained, lr=1e-4, fused=True)
        self.model.train()

        def step(batch: Any) -> None:
            self.model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            optimiser.zero_grad()

        return self._timed(step)

    @torch.inference_mode()
    def predict(self) -> float:
        """Seconds per text."""
        self.model.train(False)
        return self._timed(lambda batch: self.model(**batch).logits)

    def _timed(self, work: Callable[[Any], object]) -> float:
        """Seconds per text, after a first batch that does not count."""
        work(self.collate(self.examples[:PLAIN_BATCH]))
        began = time.perf_counter()
        for first in range(0, len(self.examples), PLAIN_BATCH):
            work(self.collate(self.examples[first : first + PLAIN_BATCH]))
        return (time.perf_counter() - began) / len(self.examples)


@contextmanager
def counted_texts() -> Iterator[list[int]]:
    """Number of texts encoded inside the context, one entry per call of an encoder."""
    from saft.model.encoder import TextEncoder

    counts: list[int] = []
    embed = TextEncoder.embed

    def counting(model: TextEncoder, tokens: torch.Tensor, *others: Any) -> torch.Tensor:
        counts.append(len(tokens))
        return embed(model, tokens, *others)

    TextEncoder.embed = counting  # type: ignore[method-assign, assignment]
    try:
        yield counts
    finally:
        TextEncoder.embed = embed  # type: ignore[method-assign]

"""The one loop: batch, loss, backward, step; after every epoch score the validation part, keep the best, stop early.

Everything that is random follows from the seed and the number of the epoch, so a run can be continued exactly: a
checkpoint holds weights, the optimiser's state, what is remembered of neighbours, torch's random state and where the
epoch stood. It is one safetensors file with JSON in its header, and replaces the one before it in one step.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from saft.errors import InputError
from saft.learning.loader import Source
from saft.learning.objective import class_weights, loss_of, parameter_groups, rate
from saft.learning.prediction import predict_logits, refresh
from saft.metrics import macro_f1, micro_f1
from saft.settings import Settings
from saft.writing import replacing

# Neighbours that the first step reads at most, doubled with every step: so training is seen to begin, and the first
# steps, at the foot of the warm-up, miss little.
FIRST_READ = 8


class Watcher(Protocol):
    """Hears how training goes."""

    def begins(self, epoch: int, epochs: int, targets: int) -> None: ...
    def step(self, targets: int, loss: float) -> None: ...
    def says(self, what: str) -> None: ...
    def ends(self, record: EpochRecord) -> None: ...


class Silence:
    """Watches without a word."""

    def begins(self, epoch: int, epochs: int, targets: int) -> None: ...
    def step(self, targets: int, loss: float) -> None: ...
    def says(self, what: str) -> None: ...
    def ends(self, record: EpochRecord) -> None: ...


Loss = Callable[[Any, Any], Tensor]  # (the model's output, the batch)


@dataclass(frozen=True)
class EpochRecord:
    epoch: int  # from 1
    loss: float
    valid_macro_f1: float  # between 0 and 1
    valid_micro_f1: float
    seconds: float
    targets_per_second: float


@dataclass
class Standing:
    """Where training stands, apart from tensors."""

    epoch: int = 0  # finished ones
    step: int = 0  # in this epoch
    losses: float = 0.0  # summed over targets of this epoch
    targets: int = 0
    seconds: float = 0.0  # spent in this epoch
    best: float = -1.0
    best_epoch: int = 0
    history: list[EpochRecord] = field(default_factory=list)
    interrupted: bool = False


class Trainer:
    """Trains a model that answers batches of a feed.

    Args:
        model: a module that gives an output with ``logits`` (and ``passed_on``) for a batch.
        feed: whose visible labels are those of the training rows, and no others.
        train: rows to learn from.
        valid: rows to score after every epoch, with their labels; empty means that the last epoch is kept.
        loss: what is minimised, if not what the settings say.
        checkpoint: file to continue from, if it exists; rewritten every ``checkpoint_seconds``.
    """

    def __init__(
        self,
        model: nn.Module,
        feed: Source,
        train: np.ndarray,
        valid: np.ndarray,
        valid_labels: np.ndarray,
        settings: Settings,
        *,
        loss: Loss | None = None,
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 60.0,
        watcher: Watcher | None = None,
    ) -> None:
        from accelerate import Accelerator

        self.accelerator = Accelerator()
        self.feed, self.settings, self.train, self.valid, self.valid_labels = feed, settings, train, valid, valid_labels
        self.checkpoint, self.checkpoint_seconds = checkpoint, checkpoint_seconds
        self.watcher: Watcher = watcher or Silence()
        optimiser = torch.optim.AdamW(parameter_groups(model, settings), eps=settings.epsilon, fused=True)
        self.model, self.optimiser = self.accelerator.prepare(model, optimiser)
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.weights = class_weights(feed.labels[train], feed.n_classes) if settings.class_weights else None
        self.loss = loss or self._loss
        self.standing = Standing()
        self.best: dict[str, Tensor] = {}
        self.fresh = np.zeros(len(feed), dtype=bool)  # remembered as the weights of the last epoch's end read them
        self.steps_per_epoch = sum(len(seen.batches) for seen in feed.training_passes(train, 0))

    def run(self) -> Standing:
        """Train to the end, or until Ctrl-C; the model then has the best weights."""
        torch.manual_seed(self.settings.seed)
        if self.checkpoint is not None and self.checkpoint.is_file():
            self._restore(self.checkpoint)
        try:
            while self.standing.epoch < self.settings.epochs and not self._is_stuck():
                self._epoch()
        except KeyboardInterrupt:
            self.standing.interrupted = True
        if self.best:
            self.model.load_state_dict(self.best)
        if self.feed.memory is not None:
            still_true = self.fresh & (self.standing.best_epoch == self.standing.epoch and not self.standing.step)
            self._read(np.flatnonzero(~still_true), "Reading the interactions with the final weights")
        self.model.train(False)
        return self.standing

    def _is_stuck(self) -> bool:
        return bool(self.best) and self.standing.epoch - self.standing.best_epoch >= self.settings.patience

    def _epoch(self) -> None:
        standing, began = self.standing, time.perf_counter() - self.standing.seconds
        self.watcher.begins(standing.epoch + 1, self.settings.epochs, len(self.train))
        self.watcher.step(standing.targets, standing.losses / max(standing.targets, 1))
        saved = time.perf_counter()
        read = np.zeros(len(self.feed), dtype=bool)
        for batch in self._remaining_batches(read):
            loss = self._step(batch)
            count = len(batch.targets)
            standing.losses += loss * count
            standing.targets += count
            standing.step += 1
            standing.seconds = time.perf_counter() - began
            self.watcher.step(count, standing.losses / standing.targets)
            if self.checkpoint is not None and time.perf_counter() - saved >= self.checkpoint_seconds:
                self._save(self.checkpoint)
                saved = time.perf_counter()
        self._close(read)
        standing.epoch += 1
        standing.step = standing.targets = 0
        standing.losses = standing.seconds = 0.0
        if self.checkpoint is not None:
            self._save(self.checkpoint)

    def _remaining_batches(self, read: np.ndarray) -> Iterator[Any]:
        """Those of this epoch that come after the step where it stands; marks what was and will be read."""
        number, before = 0, self.standing.epoch * self.steps_per_epoch
        share, shares = self.accelerator.process_index, self.accelerator.num_processes
        for seen in self.feed.training_passes(self.train, self.standing.epoch):
            whole = len(seen.batches) // shares * shares if shares > 1 else len(seen.batches)
            for targets in seen.batches[share:whole:shares]:
                read[targets] = True
                number += 1
                if number > self.standing.step:
                    unread = self.feed.unread(targets, seen)
                    refresh(self.model, self.feed, unread[: FIRST_READ << min(before + number - 1, 20)])
                    yield self.feed.batch(targets, seen).to(self.accelerator.device)

    def _step(self, batch: Any) -> float:
        settings = self.settings
        done = self.standing.epoch * self.steps_per_epoch + self.standing.step
        factor = rate(done, settings.epochs * self.steps_per_epoch, settings.warmup)
        for group, full in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = full * factor
        self.model.train()
        output = self.model(batch)
        loss = self.loss(output, batch)
        self.optimiser.zero_grad(set_to_none=True)
        self.accelerator.backward(loss)
        if settings.clip:
            self.accelerator.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimiser.step()
        if self.feed.memory is not None:
            self.feed.memory.store(batch.rows, output.passed_on)
        return float(loss.detach())

    def _loss(self, output: Any, batch: Any) -> Tensor:
        return loss_of(output.logits, batch.answers, self.settings.loss, self.weights)

    def _close(self, read: np.ndarray) -> None:
        """Read again what this epoch did not read, score the validation part, keep the best weights."""
        standing = self.standing
        self.fresh = np.zeros_like(read)
        if self.feed.memory is not None:
            outside = ~read
            outside[self.valid] = False  # read, and remembered, when they are predicted
            again = self._to_read_again(np.flatnonzero(outside), self.feed.memory.known.numpy())
            self._read(again, "Reading interactions that are not for training")
            self.fresh[again] = self.fresh[self.valid] = True
        scores = (0.0, 0.0)
        if len(self.valid):
            logits = predict_logits(self.model, self.feed, self.valid, remember=True)
            predicted, classes = logits.argmax(axis=1), self.feed.n_classes
            scores = tuple(f1(self.valid_labels, predicted, classes) for f1 in (macro_f1, micro_f1))  # type: ignore[assignment]
        seconds = standing.seconds
        record = EpochRecord(
            standing.epoch + 1,
            standing.losses / max(standing.targets, 1),
            *scores,
            seconds,
            standing.targets / max(seconds, 1e-9),
        )
        standing.history.append(record)
        if scores[0] > standing.best or not len(self.valid):
            standing.best, standing.best_epoch = scores[0], standing.epoch + 1
            unwrapped = self.accelerator.unwrap_model(self.model).state_dict()
            self.best = {name: tensor.detach().clone() for name, tensor in unwrapped.items()}
        self.watcher.ends(record)

    def _read(self, rows: np.ndarray, what: str) -> None:
        """Remember anew what these rows pass on, and say how far it is: in a large network this takes its time."""
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            self.watcher.says(f"{what}: {done:,} of {len(rows):,}")

        refresh(self.model, self.feed, rows, tell)

    def _to_read_again(self, outside: np.ndarray, known: np.ndarray) -> np.ndarray:
        """No more than there are targets: where few have a label, an epoch is short and the weights moved little.

        Those that somebody has asked for come first; the rest are read when first asked for.
        """
        mixed = np.random.default_rng([self.settings.seed, self.standing.epoch]).permutation(outside)
        return np.sort(mixed[np.argsort(~known[mixed], kind="stable")][: len(self.train)])

    def _fingerprint(self) -> str:
        """Of everything that a run depends on; a checkpoint only continues the run that it came from."""
        digest = hashlib.sha256(json.dumps(self.settings.as_dict(), sort_keys=True).encode())
        digest.update(self.feed.fingerprint().encode())
        for array in (self.train, self.valid):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _save(self, path: Path) -> None:
        from safetensors.torch import save_file

        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best.items()}
        for number, state in self.optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in state.items()}
        if self.feed.memory is not None:
            tensors |= {"memory": self.feed.memory.states, "memory_known": self.feed.memory.known}
        tensors["random"] = torch.get_rng_state()
        facts = {"standing": json.dumps(asdict(self.standing)), "fingerprint": self._fingerprint()}
        with replacing(path) as temporary:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata=facts)

    def _restore(self, path: Path) -> None:
        tensors, facts = read_safetensors(path)
        if facts.get("fingerprint") != self._fingerprint():
            raise InputError(
                f"{path} belongs to a run with other data or other settings and cannot be continued with these. "
                "Train without resuming, or give the data and settings of that run."
            )
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimiser": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part in parts:
                parts[part][rest] = tensor
        self.model.load_state_dict(parts["model"])
        self.best = parts["best"]
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["optimiser"].items():
            number, _, rest = name.partition(".")
            state.setdefault(int(number), {})[rest] = tensor
        self.optimiser.load_state_dict({"state": state, "param_groups": self.optimiser.state_dict()["param_groups"]})
        if self.feed.memory is not None:
            self.feed.memory.states, self.feed.memory.known = tensors["memory"], tensors["memory_known"]
        torch.set_rng_state(tensors["random"])
        standing: dict[str, Any] = json.loads(facts["standing"])
        standing["history"] = [EpochRecord(**record) for record in standing["history"]]
        self.standing = Standing(**standing)


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors, what the header says)."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read ({error}). Is the file complete?") from error

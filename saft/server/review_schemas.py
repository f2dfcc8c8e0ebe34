"""Requests and responses of the review: the queue, verdicts, claims, agreement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from saft.server import agreement, ledger, progress
from saft.server.exporting import iso
from saft.server.queue import Filter
from saft.server.reviews import Judged
from saft.server.schemas import InteractionOut, Key, Strict, Text, Value
from saft.server.service import ReviewService
from saft.server.store import StoredInteraction
from saft.writing import nan_to_null

Order = Literal["suspicious", "uncertain", "newest", "oldest"]
Name = Annotated[Text, Field(max_length=200)]
Note = Annotated[Text, Field(max_length=2000)]
Part = Annotated[Text, Field(max_length=500)]


class ReviewItem(InteractionOut):
    """A stored interaction and the model's prediction of it."""

    reviewed: bool
    predicted: str | None = Field(description="Null for interactions of training that were never predicted.")
    probabilities: dict[str, float]
    known_class: bool = Field(description="False if the label is a class that the model does not have.")
    disputed: bool = Field(description="Reviewers disagree: no class has more than half of their verdicts.")
    claimed_by: str | None = Field(description="Who is reviewing it at the moment.")

    @classmethod
    def of(cls, stored: StoredInteraction, service: ReviewService) -> ReviewItem:
        found, label = stored.prediction, stored.interaction.label
        return cls(
            **cls.fields_of(stored.key, stored.interaction),
            reviewed=stored.reviewed,
            predicted=None if found is None else found.label,
            probabilities={} if found is None else found.probabilities,
            known_class=label is None or service.mirror.knows_class(str(label)),
            disputed=stored.disputed,
            claimed_by=stored.claimed_by,
        )


class Page(BaseModel):
    interactions: list[ReviewItem]
    next: str | None = Field(description="Give it as `after` to get the next page; null on the last one.")
    total: int = Field(description="How many interactions match in all.")


class Neighbours(BaseModel):
    interaction: ReviewItem
    by_user: list[ReviewItem] = Field(description="The user's other interactions, the latest first.")
    by_item: list[ReviewItem] = Field(description="The item's other interactions, the latest first.")
    open_by_user: int = Field(description="How many of the user's interactions wait for a verdict, this one included.")
    open_by_item: int


class Ids(BaseModel):
    ids: list[Key]


class Uploaded(Ids):
    """What of a file was stored."""

    known: int = Field(description="Rows that were left out, because they are stored or trained on already.")
    notes: list[str] = Field(description="What should be checked about the file.")


class LabelRequest(Strict):
    """A reviewer's verdict; null takes the last one back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"id": "n1", "label": "genuine", "reviewer": "kim"}]}
    )

    id: Key
    label: Value
    reviewer: Name | None = Field(None, description="Used where reviewers have no tokens of their own.")
    note: Note | None = None


class BulkRequest(Strict):
    """One verdict on several interactions: on these, or on all that are open of a user, of an item, or of both."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"user": "ann", "label": "spam"}]})

    label: (
        Annotated[str, Field(strict=True)] | Annotated[bool, Field(strict=True)] | Annotated[float, Field(strict=True)]
    )
    ids: list[Key] | None = Field(None, min_length=1, max_length=1000)
    user: Part | None = None
    item: Part | None = None
    reviewer: Name | None = None
    note: Note | None = None

    @model_validator(mode="after")
    def _says_which(self) -> BulkRequest:
        if (self.ids is None) == (self.user is None and self.item is None):
            raise ValueError("give either ids, or a user, an item, or both")
        return self


class Decided(BaseModel):
    """What one request decided, or took back."""

    ids: list[Key]
    batch: str | None = Field(description="`POST /labels/undo` with it takes all of it back.")
    left_out: list[Key] = Field(description="Somebody else is reviewing these.")

    @classmethod
    def of(cls, judged: Judged) -> Decided:
        return cls(ids=judged.keys, batch=judged.batch, left_out=list(judged.left_out))


class UndoRequest(Strict):
    batch: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    reviewer: Name | None = None


class ClaimRequest(Strict):
    """Open interactions for this reviewer alone; a page asks for the next ones ahead."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"count": 3, "held": ["n1"]}]})

    count: int = Field(1, strict=True, ge=0, le=50, description="How many besides those held.")
    held: list[Key] = Field(default_factory=list, max_length=200, description="Claimed before and still needed.")
    order: Order = "suspicious"
    user: Part | None = None
    item: Part | None = None
    text: Part | None = None
    predicted: Part | None = None
    disputed: Annotated[bool, Field(strict=True)] | None = None
    reviewer: Name | None = None

    def filter(self) -> Filter:
        return Filter(self.user, self.item, self.text, predicted=self.predicted, disputed=self.disputed)


class Claimed(BaseModel):
    interactions: list[ReviewItem]
    minutes: float = Field(description="For so long nobody else gets them. Ask again with `held` for longer.")


class HistoryEntry(BaseModel):
    label: str
    reviewer: str | None
    note: str | None
    at: str
    taken_back: str | None = Field(description="When it was taken back.")
    taken_back_by: str | None

    @classmethod
    def of(cls, verdict: ledger.Verdict) -> HistoryEntry:
        back = None if verdict.taken_back is None else iso(verdict.taken_back)
        return cls(
            label=verdict.label, reviewer=verdict.reviewer, note=verdict.note, at=iso(verdict.at), taken_back=back,
            taken_back_by=verdict.taken_back_by,
        )  # fmt: skip


class History(BaseModel):
    verdicts: list[HistoryEntry] = Field(description="The first one first, also those that were taken back.")


class Me(BaseModel):
    """Who asks."""

    name: str | None
    role: str
    team: bool = Field(description="Whether reviewers have tokens of their own here.")


class Pair(BaseModel):
    reviewers: tuple[str, str]
    both: int = Field(description="Interactions that both have judged.")
    agreed: int
    kappa: float | None = Field(description="Cohen's kappa; null where there is nothing to compare with chance.")


class Agreement(BaseModel):
    judged: int
    judged_twice: int = Field(description="By different reviewers.")
    disputed: int
    alpha: float | None = Field(description="Krippendorff's alpha of all reviewers; null where it is not defined.")
    pairs: list[Pair]

    @classmethod
    def of(cls, found: agreement.Agreement) -> Agreement:
        pairs = [Pair(**vars(pair) | {"kappa": _number(pair.kappa)}) for pair in found.pairs]
        return cls(**vars(found) | {"alpha": _number(found.alpha), "pairs": pairs})


class Day(BaseModel):
    day: str = Field(examples=["2026-01-31"], description="In UTC.")
    verdicts: int


class ReviewerProgress(BaseModel):
    name: str | None
    verdicts: int
    last: str = Field(description="When the last one was given.")


class ClassProgress(BaseModel):
    name: str
    judged: int = Field(description="Interactions that reviewers put there.")
    predicted: int
    precision: float | None
    recall: float | None


class ModelProgress(BaseModel):
    """Scores on what was judged and what the model was not trained on; null if there is nothing."""

    judged: int
    accuracy: float | None
    low: float | None = Field(description="From here to `high`: Wilson's interval of 95 % around the accuracy.")
    high: float | None
    macro_f1: float | None
    classes: list[ClassProgress]


class Progress(BaseModel):
    """Of verdicts that stand."""

    days: list[Day]
    reviewers: list[ReviewerProgress]
    model: ModelProgress

    @classmethod
    def of(cls, standing: Sequence[Any], found: progress.ModelProgress) -> Progress:
        classes = [ClassProgress(**vars(one)) for one in found.classes]
        return cls(
            days=[Day(**vars(day)) for day in progress.days(standing)],
            reviewers=[ReviewerProgress(**vars(one) | {"last": iso(one.last)}) for one in progress.reviewers(standing)],
            model=ModelProgress(**nan_to_null(vars(found) | {"classes": classes})),
        )


class AuditEntry(BaseModel):
    number: int
    at: str
    who: str | None
    action: str
    detail: dict[str, Any]


class Audit(BaseModel):
    entries: list[AuditEntry]
    next: int | None = Field(description="Give it as `after` to get what follows; null at the end.")


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value

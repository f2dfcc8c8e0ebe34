"""What goes over the wire, with examples: the source of the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from saft.online.explanation import Explanation
from saft.online.live import Answer, Interaction
from saft.server.service import Desk, Neighbour
from saft.server.store import Stored


def _writable(text: str) -> str:
    """Halves of a surrogate pair are not text: they can be neither stored nor read."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not valid Unicode") from error
    return text


def _written_out(value: Any) -> Any:
    """A bare number could be seconds or milliseconds; rather ask."""
    if not isinstance(value, str) or value.strip().lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("has to be written like 2024-05-31T12:30:00")
    return value


Text = Annotated[str, AfterValidator(_writable)]
Id = Annotated[Text, Field(min_length=1, max_length=500)] | Annotated[int, Field(strict=True)]
# Strict: "007" stays text, and true is no number.
Value = (
    Annotated[Text, Field(strict=True, max_length=1000)]
    | Annotated[bool, Field(strict=True)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | None
)
Key = Annotated[str, Field(pattern=r"^[nt][0-9]{1,18}$", examples=["n1"])]
_ASKED: dict[str, Any] = {"user": "ann", "item": "lamp", "text": "Bright, and cheap. Arrived broken, though."}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Asked(_Strict):
    """An interaction to be judged."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ASKED]})

    user: Id
    item: Id
    text: Text = ""
    time: Annotated[datetime, BeforeValidator(_written_out)] | None = None
    user_attributes: dict[Text, Value] = Field(default_factory=dict, description="Of a user who is new.")
    item_attributes: dict[Text, Value] = Field(default_factory=dict, description="Of an item that is new.")

    def as_interaction(self, label: Any = None) -> Interaction:
        attributes = {"user": dict(self.user_attributes), "item": dict(self.item_attributes)}
        time = None if self.time is None else self.time.isoformat()
        return Interaction(str(self.user), str(self.item), self.text, label, time, attributes)


class Added(Asked):
    """An interaction to be kept."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ASKED | {"label": "genuine"}]})

    label: Value = Field(None, description="If it is known already.")


class PredictRequest(_Strict):
    interactions: list[Asked] = Field(min_length=1)


class AddRequest(_Strict):
    interactions: list[Added] = Field(min_length=1)


class LabelRequest(_Strict):
    """A reviewer's verdict; null takes it back."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"id": "n1", "label": "genuine", "reviewer": "kim"}]}
    )

    id: Key
    label: Value
    reviewer: Annotated[Text, Field(max_length=200)] | None = None


class Prediction(BaseModel):
    label: str
    probabilities: dict[str, float] = Field(description="Calibrated; they add up to 1.")
    known_user: bool = Field(description="Whether the user has interactions in the network.")
    known_item: bool

    @classmethod
    def of(cls, answer: Answer, classes: list[str]) -> Prediction:
        probabilities = dict(zip(classes, answer.probabilities.tolist(), strict=True))
        return cls(
            label=str(answer.label),
            probabilities=probabilities,
            known_user=answer.known_user,
            known_item=answer.known_item,
        )


class Predictions(BaseModel):
    predictions: list[Prediction]


class Ids(BaseModel):
    ids: list[Key]


class Kept(BaseModel):
    """A stored interaction and what the model says of it."""

    id: Key
    user: str
    item: str
    text: str
    time: str | None
    label: str | None = Field(description="Given, or decided by a reviewer.")
    reviewed: bool
    predicted: str
    probabilities: dict[str, float]

    @classmethod
    def of(cls, stored: Stored) -> Kept:
        one = stored.interaction
        return cls(
            id=stored.key,
            user=one.user,
            item=one.item,
            text=one.text,
            time=one.time,
            label=None if one.label is None else str(one.label),
            reviewed=stored.reviewed,
            predicted=stored.judged.predicted,
            probabilities=stored.judged.probabilities,
        )


class Page(BaseModel):
    interactions: list[Kept]
    next: str | None = Field(description="Give it as `after` to get the next page; null on the last one.")
    total: int = Field(description="How many there are in all.")


class Near(BaseModel):
    """An interaction of the same user or of the same item."""

    id: Key
    user: str
    item: str
    text: str
    time: str | None
    label: str | None
    predicted: str | None = Field(description="Null for interactions of training that have a label.")

    @classmethod
    def of(cls, near: Neighbour) -> Near:
        one = near.interaction
        label = None if one.label is None else str(one.label)
        return cls(
            id=near.key, user=one.user, item=one.item, text=one.text, time=one.time, label=label,
            predicted=near.predicted,
        )  # fmt: skip


class Neighbours(BaseModel):
    interaction: Kept
    by_user: list[Near] = Field(description="The user's other interactions, the latest first.")
    by_item: list[Near] = Field(description="The item's other interactions, the latest first.")


class WordMoved(BaseModel):
    text: str
    start: int
    end: int
    effect: float = Field(description="By how much the predicted class is less probable without it.")


class NeighbourMoved(BaseModel):
    id: Key
    user: str
    item: str
    text: str
    label: str | None
    shares: str
    effect: float


class FeatureMoved(BaseModel):
    name: str
    meaning: str
    effect: float


class Explained(BaseModel):
    label: str
    probabilities: dict[str, float]
    words: list[WordMoved]
    neighbours: list[NeighbourMoved]
    features: list[FeatureMoved]

    @classmethod
    def of(cls, found: Explanation, desk: Desk) -> Explained:
        neighbours = [
            NeighbourMoved(
                id=desk.key_of(one.number), user=one.user, item=one.item, text=one.text,
                label=None if one.label is None else str(one.label), shares=one.shares, effect=one.effect,
            )
            for one in found.neighbours
        ]  # fmt: skip
        return cls(
            label=str(found.label),
            probabilities=found.probabilities,
            words=[WordMoved(**vars(word)) for word in found.words],
            neighbours=neighbours,
            features=[FeatureMoved(**vars(feature)) for feature in found.features],
        )


class Model(BaseModel):
    """What is being served."""

    classes: list[str]
    suspicious: str = Field(description="The class that the queue puts first.")
    interactions: int
    users: int
    items: int
    labelled: int
    stored: int
    open: int = Field(description="Stored interactions without a verdict.")
    reviewed: int
    valid_macro_f1: float
    valid_micro_f1: float
    calibration_error: float


class Status(BaseModel):
    status: str


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    detail: str

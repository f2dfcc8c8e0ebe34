"""Requests and responses, with examples: the source of the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from saft.online import live
from saft.online.explanation import Explanation
from saft.server.service import ReviewService


def _writable(text: str) -> str:
    """Refuse what cannot be stored: unpaired surrogates, which cannot be encoded, and NUL."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("is not valid Unicode") from error
    if "\0" in text:
        raise ValueError("contains the character NUL, which not every database can store")
    return text


def _written_out(value: Any) -> Any:
    """Refuse a bare number: it could be seconds or milliseconds."""
    if not isinstance(value, str) or value.strip().lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("has to be written like 2024-05-31T12:30:00")
    return value


Text = Annotated[str, AfterValidator(_writable)]
# Numbers of 64 bits, as tables have them.
Id = Annotated[Text, Field(min_length=1, max_length=500)] | Annotated[int, Field(strict=True, ge=-(2**63), lt=2**63)]
MOST_NUMBER = 1e30  # what is larger is a mistake
# Strict: "007" stays text, and true is not a number.
Value = (
    Annotated[Text, Field(strict=True, max_length=1000)]
    | Annotated[bool, Field(strict=True)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-MOST_NUMBER, le=MOST_NUMBER)]
    | None
)
Key = Annotated[str, Field(pattern=r"^[nt][0-9]{1,18}$", examples=["n1"])]
_EXAMPLE: dict[str, Any] = {"user": "ann", "item": "lamp", "text": "Bright, and cheap. Arrived broken, though."}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class InteractionIn(Strict):
    """An interaction to be predicted."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE]})

    user: Id
    item: Id
    text: Text = ""
    time: Annotated[datetime, BeforeValidator(_written_out)] | None = None
    user_attributes: dict[Text, Value] = Field(default_factory=dict, description="Attributes of a user who is new.")
    item_attributes: dict[Text, Value] = Field(default_factory=dict, description="Attributes of an item that is new.")

    def as_interaction(self, label: Any = None) -> live.Interaction:
        attributes = {"user": dict(self.user_attributes), "item": dict(self.item_attributes)}
        time = None if self.time is None else self.time.isoformat()
        return live.Interaction(str(self.user), str(self.item), self.text, label, time, attributes)


class LabelledInteractionIn(InteractionIn):
    """An interaction to be stored."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EXAMPLE | {"label": "genuine"}]})

    label: Value = Field(None, description="The label, if it is known already.")


class PredictRequest(Strict):
    interactions: list[InteractionIn] = Field(min_length=1)


class AddRequest(Strict):
    interactions: list[LabelledInteractionIn] = Field(min_length=1)


class Prediction(BaseModel):
    label: str
    probabilities: dict[str, float] = Field(description="Calibrated; they add up to 1.")
    known_user: bool = Field(description="Whether the user has interactions in the network.")
    known_item: bool

    @classmethod
    def of(cls, found: live.Prediction) -> Prediction:
        probabilities = dict(zip(found.classes, found.probabilities.tolist(), strict=True))
        return cls(
            label=str(found.label),
            probabilities=probabilities,
            known_user=found.known_user,
            known_item=found.known_item,
        )


class Predictions(BaseModel):
    predictions: list[Prediction]


class InteractionOut(BaseModel):
    """An interaction of the network."""

    id: Key
    user: str
    item: str
    text: str
    time: str | None
    label: str | None = Field(description="Given, or decided by a reviewer.")

    @staticmethod
    def fields_of(key: str, interaction: live.Interaction) -> dict[str, Any]:
        return {
            "id": key,
            "user": interaction.user,
            "item": interaction.item,
            "text": interaction.text,
            "time": interaction.time,
            "label": None if interaction.label is None else str(interaction.label),
        }


class WordEffect(BaseModel):
    text: str
    start: int
    end: int
    effect: float = Field(description="By how much the predicted class is less probable without it.")


class NeighbourEffect(InteractionOut):
    shares: str
    effect: float


class FeatureEffect(BaseModel):
    name: str
    meaning: str
    effect: float


class Explained(BaseModel):
    label: str
    probabilities: dict[str, float]
    words: list[WordEffect]
    neighbours: list[NeighbourEffect]
    features: list[FeatureEffect]

    @classmethod
    def of(cls, found: Explanation, service: ReviewService) -> Explained:
        neighbours = [
            NeighbourEffect(
                **InteractionOut.fields_of(service.key_of(near.number), near.interaction),
                shares=near.shares,
                effect=near.effect,
            )
            for near in found.neighbours
        ]
        return cls(
            label=str(found.label),
            probabilities=found.probabilities,
            words=[WordEffect(**vars(word)) for word in found.words],
            neighbours=neighbours,
            features=[FeatureEffect(**vars(feature)) for feature in found.features],
        )


class Model(BaseModel):
    """The model that is served, and what is in its store."""

    classes: list[str]
    suspicious: str = Field(description="The class that the queue puts first.")
    interactions: int
    users: int
    items: int
    labelled: int
    stored: int
    open: int = Field(description="Interactions that wait for a verdict.")
    reviewed: int
    disputed: int = Field(description="Interactions on which reviewers disagree.")
    second_opinion: float = Field(description="The share of interactions that two reviewers judge.")
    valid_macro_f1: float | None = Field(description="Null if the model was trained without validation rows.")
    valid_micro_f1: float | None
    calibration_error: float | None


class Reloaded(BaseModel):
    changed: bool = Field(description="Whether it is another model than before.")


class Status(BaseModel):
    status: str


class Problem(BaseModel):
    """What went wrong, and what to do about it."""

    detail: str

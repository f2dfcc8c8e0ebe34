"""Retraining: what was held out stays held out, new labels are learnt, training goes on from the old weights.

Covers: classifier.parts.
"""

import numpy as np
import polars as pl
import pytest
import torch

import saft
from saft import InputError, SaftClassifier
from saft.classifier.fitting import GoingOn, take_weights
from saft.classifier.parts import parts_of, read_parts, split_of, write_parts
from saft.classifier.retraining import HELD_OUT, grow, retrain
from saft.data.network import HIDDEN

N, OLD = 400, 300
EVERYBODY = {"reviewer": "kim", "decided": "2026-01-31T12:00:00Z"}


@pytest.fixture(scope="module")
def known():
    return saft.demo_network(N).take(np.arange(OLD))


@pytest.fixture(scope="module")
def known_parts(known):
    return parts_of(known, saft.split(known, fractions=(0.7, 0.1, 0.2)))


@pytest.fixture(scope="module")
def champion(known, known_parts, tiny_settings):
    split = split_of(known_parts)
    classifier = SaftClassifier(**{**tiny_settings, "valid_share": 0.1})
    return classifier.fit(known.hiding(split.test), train=split.train, valid=split.valid)


@pytest.fixture(scope="module")
def new():
    return saft.demo_network(N).take(np.arange(OLD, N)).hiding(np.arange(N - OLD))


def said(labels) -> pl.DataFrame:
    rows = [{"label": label, **EVERYBODY} for label in labels]
    return pl.DataFrame(rows, schema=dict.fromkeys(("label", "reviewer", "decided"), pl.String))


@pytest.fixture(scope="module")
def truth():
    return saft.demo_network(N).label_values().cast(pl.String).to_list()


@pytest.fixture(scope="module")
def grown(champion, known_parts, new, truth):
    return grow(champion, known_parts, new, said(truth[OLD:]), np.arange(OLD, N))


def test_what_was_held_out_from_the_old_model_is_held_out_from_the_new_one(grown, known_parts):
    before, after = split_of(known_parts), split_of(grown.parts)
    assert set(before.test) == {row for row in after.test if row < OLD}
    assert set(before.train) == {row for row in after.train if row < OLD}


def test_a_share_of_the_new_verdicts_is_held_out_class_by_class(grown):
    after = split_of(grown.parts)
    fresh = [row for row in after.test if row >= OLD]
    assert len(fresh) == pytest.approx(HELD_OUT * (N - OLD), abs=3)
    assert grown.fresh[fresh].all()
    assert set(grown.network.labels[after.test]) == {0, 1, 2}


@pytest.mark.slow
def test_the_new_model_learns_no_held_out_label(champion, grown):
    test = split_of(grown.parts).test
    challenger = retrain(champion, grown)
    assert (challenger.network_.labels[test] == HIDDEN).all()
    other = grown.network.labels.copy()
    other[test] = (other[test] + 1) % 3
    flipped = type(grown)(
        saft.TextualInteractionNetwork(**{**vars_of(grown.network), "labels": other}),
        grown.parts, grown.changed, grown.fresh, grown.knew_parts,
    )  # fmt: skip
    again = retrain(champion, flipped)
    for name, weights in challenger.model_.state_dict().items():
        assert torch.equal(weights, again.model_.state_dict()[name]), name


def vars_of(network) -> dict:
    names = (
        "users", "items", "texts", "user_ids", "item_ids", "classes", "times", "user_attributes", "item_attributes",
        "column_names",
    )  # fmt: skip
    return {name: getattr(network, name) for name in names}


def test_a_verdict_on_a_row_of_training_replaces_its_label_and_keeps_its_part(champion, known_parts, new, known):
    split = split_of(known_parts)
    rows = np.array([split.train[0], split.test[0]])
    turned = ["spam" if known.label_values()[int(row)] != "spam" else "genuine" for row in rows]
    grown = grow(champion, known_parts, new, said(turned), rows)
    assert grown.network.label_values().gather(rows).to_list() == turned
    assert grown.parts["part"].gather(rows).to_list() == ["train", "test"]
    assert grown.parts["reviewer"].gather(rows).to_list() == ["kim", "kim"]
    assert grown.changed.sum() == 2


def test_a_verdict_that_was_taken_back_is_no_longer_a_label(champion, known_parts, new):
    row = split_of(known_parts).train[:1]
    nothing = pl.DataFrame({"label": [None], "reviewer": [None], "decided": [None]}).cast(pl.String)
    grown = grow(champion, known_parts, new, nothing, row)
    assert grown.network.labels[row] == HIDDEN
    assert grown.parts["part"][int(row[0])] is None
    assert grown.changed.sum() == 1


@pytest.mark.slow
def test_a_class_that_came_in_with_verdicts_is_a_class_of_the_new_model(champion, known_parts, new, truth):
    labels = truth[OLD:]
    labels[:10] = ["bought"] * 10
    grown = grow(champion, known_parts, new, said(labels), np.arange(OLD, N))
    assert grown.network.classes.to_list() == ["bought", "genuine", "spam", "suspicious"]
    old = pl.Series(known_parts["label"]).to_list()
    assert grown.parts["label"][:OLD].to_list() == old  # codes changed, labels did not
    challenger = retrain(champion, grown)
    assert challenger.classes_.to_list() == grown.network.classes.to_list()
    assert challenger.predict_proba(new).shape == (N - OLD, 4)


def test_the_only_verdict_of_a_new_class_is_learnt_from(champion, known_parts, new):
    grown = grow(champion, known_parts, new, said(["bought"]), np.array([OLD]))
    assert grown.parts["part"][OLD] == "train"


@pytest.mark.slow
def test_training_goes_on_from_the_old_weights(champion, grown):
    """Without an epoch, the layers that are trained are those of the old model, and else the pretrained ones."""
    split = split_of(grown.parts)
    learnt = [name for name, weights in champion.model_.encoder.named_parameters() if weights.requires_grad]
    assert learnt

    def layers(**how) -> dict[str, torch.Tensor]:
        model = SaftClassifier(**{**champion.settings.as_dict(), "epochs": 0})
        model.fit(grown.network.hiding(split.test), train=split.train, valid=split.valid, **how)
        return {name: weights for name, weights in model.model_.encoder.named_parameters() if name in learnt}

    before = dict(champion.model_.encoder.named_parameters())
    going_on = layers(going_on=GoingOn(champion.model_, split.train, 0))
    assert all(torch.equal(going_on[name], before[name]) for name in learnt)
    assert not any(torch.equal(weights, before[name]) for name, weights in layers().items() if name.endswith("weight"))


@pytest.mark.slow
def test_weights_of_another_shape_and_columns_of_side_features_are_not_taken(champion, grown):
    fresh = retrain(champion, grown, from_scratch=True).model_
    before = {name: tensor.clone() for name, tensor in fresh.state_dict().items()}
    take_weights(fresh, champion.model_)
    side, side_before = fresh.n_side_features, champion.model_.n_side_features  # differ if trees help only one
    after = fresh.state_dict()
    assert torch.equal(after["head.weight"][:, -side:], before["head.weight"][:, -side:])
    assert torch.equal(after["head.weight"][:, :-side], champion.model_.state_dict()["head.weight"][:, :-side_before])
    assert torch.equal(after["head.bias"], before["head.bias"])


def test_a_model_whose_folder_does_not_say_its_parts_holds_out_new_verdicts_only(champion, new, truth):
    grown = grow(champion, None, new, said(truth[OLD:]), np.arange(OLD, N))
    after = split_of(grown.parts)
    assert not grown.knew_parts
    assert after.test.min() >= OLD
    assert {*after.train, *after.valid} >= set(np.flatnonzero(champion.network_.is_labelled))


def test_parts_come_back_from_the_folder_and_those_of_another_model_are_refused(known_parts, tmp_path):
    assert read_parts(tmp_path, OLD) is None
    write_parts(known_parts, tmp_path)
    assert read_parts(tmp_path, OLD).equals(known_parts)
    with pytest.raises(InputError, match="belongs to another model"):
        read_parts(tmp_path, OLD + 1)
    (tmp_path / "parts.parquet").write_bytes(b"no table")
    with pytest.raises(InputError, match="cannot be read"):
        read_parts(tmp_path, OLD)

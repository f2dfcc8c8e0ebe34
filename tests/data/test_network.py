"""Networks do not change, and hidden labels are out of reach."""

import gc

import numpy as np
import polars as pl
import pytest

import saft
from saft.data.network import HIDDEN


@pytest.fixture
def network(rows) -> saft.TextualInteractionNetwork:
    return saft.read(rows)


def test_hidden_labels_cannot_be_read(network):
    hidden = network.hiding(np.array([0, 3]))
    assert hidden.labels.tolist() == [HIDDEN, 0, HIDDEN, HIDDEN]
    assert hidden.label_values().to_list() == [None, "bad", None, None]
    assert hidden.to_frame()["label"].to_list() == [None, "bad", None, None]
    assert hidden.summary().classes == {"bad": 1, "good": 0}
    assert hidden.unlabelled().texts.to_list() == ["bright, and cheap", "line one\nline two", "bought it again"]


def test_nothing_in_a_hiding_network_refers_to_the_labels_it_hides(network):
    hidden = network.hiding(np.arange(4))
    arrays = [thing for thing in gc.get_referents(hidden, hidden.__dict__) if isinstance(thing, np.ndarray)]
    assert not any(array is network.labels or array.base is network.labels for array in arrays)
    assert hidden.labels.base is None
    assert "label" not in hidden.other_columns.columns


def test_a_network_says_of_which_rows_a_label_was_hidden_but_not_which(network):
    assert network.withheld_rows.tolist() == [False] * 4
    hidden = network.hiding(np.array([0, 2]))
    assert hidden.withheld_rows.tolist() == [True, False, False, False]  # row 2 never had one
    assert hidden.showing(np.array([1])).withheld_rows.tolist() == [True, False, False, True]
    assert hidden.take(np.array([2, 0])).withheld_rows.tolist() == [False, True]
    assert saft.read(hidden.to_frame()).withheld_rows.tolist() == [False] * 4


def test_looking_up_a_hidden_label_as_a_class_fails(network):
    hidden = network.hiding(np.array([0]))
    with pytest.raises(IndexError):
        np.asarray(["bad", "good"])[hidden.labels]


def test_hiding_takes_a_mask_and_leaves_the_original_as_it_was(network):
    network.hiding(network.labels == 1)
    assert network.labels.tolist() == [1, 0, HIDDEN, 1]


def test_arrays_of_a_network_cannot_be_changed(network):
    for array in (network.users, network.items, network.labels, network.times):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


@pytest.mark.parametrize("rows", [[-1], [4], [0, 99]])
def test_rows_outside_the_network_are_refused(rows):
    network = saft.demo_network(200).take(np.arange(4))
    with pytest.raises(saft.InputError, match="Row numbers run from 0 to 3"):
        network.hiding(np.array(rows))


def test_a_mask_of_the_wrong_length_is_refused(network):
    with pytest.raises(saft.InputError, match="does not fit 4 interactions"):
        network.hiding(np.ones(3, dtype=bool))


def test_taking_rows_keeps_codes_and_all_columns(network):
    part = network.take(np.array([2, 0]))
    assert part.to_frame().equals(network.to_frame()[[2, 0]])
    assert part.user_ids is network.user_ids
    assert part.times.tolist() == network.times[[2, 0]].tolist()


def test_labelled_and_unlabelled_are_the_two_halves(network):
    assert len(network.labelled()) == 3
    assert network.unlabelled().texts.to_list() == ["line one\nline two"]


def test_degrees_count_repeated_pairs_each_time(network):
    assert network.user_degrees.tolist() == [3, 1]
    assert network.item_degrees.tolist() == [3, 1]


def test_arrays_of_different_lengths_are_refused(network):
    with pytest.raises(ValueError, match="one entry per interaction"):
        saft.TextualInteractionNetwork(
            users=np.zeros(2, np.int32),
            items=np.zeros(2, np.int32),
            texts=pl.Series(["a"]),
            labels=np.zeros(2, np.int32),
            user_ids=network.user_ids,
            item_ids=network.item_ids,
            classes=network.classes,
        )

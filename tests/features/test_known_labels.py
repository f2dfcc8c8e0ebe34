"""Counts of the labels around an interaction, against counting by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from saft.data.network import HIDDEN
from saft.features.known_labels import PRIOR_WEIGHT, KnownLabels


def by_hand(users, items, labels, row, n_classes) -> list[float]:
    visible = [label for label in labels if label != HIDDEN]
    overall = [(visible.count(c) + 1) / (len(visible) + n_classes) for c in range(n_classes)]
    result = []
    for nodes in (users, items):
        around = [labels[e] for e in range(len(labels)) if e != row and nodes[e] == nodes[row] and labels[e] != HIDDEN]
        for c in range(n_classes):
            share = (around.count(c) + PRIOR_WEIGHT * overall[c]) / (len(around) + PRIOR_WEIGHT)
            result.append(np.log(share / overall[c]))
        result.append(np.log(1 + len(around)))
    return result


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from([HIDDEN, 0, 1, 2])), min_size=1, max_size=20
    )
)
def test_labels_around_an_interaction_are_counted_as_by_hand(rows):
    users, items, labels = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    known = KnownLabels.count(users, items, labels, 4, 3, 3)
    got = known.features(np.arange(len(rows)))
    expected = [by_hand(users.tolist(), items.tolist(), labels.tolist(), row, 3) for row in range(len(rows))]
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert got.shape[1] == KnownLabels.width(3)


def test_without_labels_around_an_interaction_its_features_are_zero():
    users = items = np.zeros(3, np.int32)
    known = KnownLabels.count(users, items, np.array([1, HIDDEN, HIDDEN], np.int32), 1, 1, 2)
    assert not known.features(np.array([0])).any()
    assert known.features(np.array([1])).any()

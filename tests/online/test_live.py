"""A growing network: its predictions are those of the classifier on the same network.

Covers: online.growing, online.subgraph.
"""

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.data.network import HIDDEN
from saft.features.folds import NO_FOLD
from saft.online.growing import GrowingArray
from saft.online.live import Interaction, LiveNetwork
from saft.settings import TEXT_ONLY

N = 300


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


LGA = {"messages": "lga", "neighbours": 3}
SUMS = {"messages": "lga", "neighbours": 0}
VARIANTS = {
    "product": {},
    "states of neighbours": LGA,
    "by distance": LGA | {"sampling": "distance"},
    "neighbours encoded again, trained vectors": LGA | {"cache_neighbours": False, "nodes": "trained"},
    "fixed vectors, no trees, no repeats": LGA | {"nodes": "gaussian", "trees": False, "repeats": False},
    "no labels, no n-grams": {"labels": False, "ngrams": False},
    "all layers trained": LGA | {"trained_layers": 3},
    "no trained layer, texts of the item alone": {"trained_layers": 0, "user_messages": False},
    "nobody is heard": {"user_messages": False, "item_messages": False},
    "no encoder": {"encoder": "none"},
    "text only": TEXT_ONLY,
}


@pytest.fixture(scope="module", params=VARIANTS)
def classifier(request, network, tiny_settings):
    return SaftClassifier(**tiny_settings | VARIANTS[request.param]).fit(network.hiding(np.arange(250, N)))


@pytest.fixture
def live(classifier):
    return LiveNetwork(classifier)


def as_row(network, number) -> dict:
    return {
        "user": str(network.user_ids[int(network.users[number])]),
        "item": str(network.item_ids[int(network.items[number])]),
        "text": f"{network.texts[number]} indeed",
    }


def test_predictions_of_new_interactions_are_those_of_the_classifier(network, classifier, live):
    known = as_row(network, 7)
    rows = [known, known | {"user": "new"}, known | {"item": "new"}, {"user": "u", "item": "i", "text": "odd"}]
    predicted = live.predict([Interaction(**row) for row in rows])
    for row, prediction in zip(rows, predicted, strict=True):
        expected = classifier.predict_proba([row])[0]
        np.testing.assert_allclose(prediction.probabilities, expected, atol=1e-4)
        assert prediction.label == classifier.classes_[int(expected.argmax())]
    found = [(p.known_user, p.known_item) for p in predicted]
    assert found == [(True, True), (False, True), (True, False), (False,) * 2]


def test_a_pair_that_met_often_is_predicted_as_by_the_classifier(network, classifier, live):
    row = as_row(network, 7)
    pairs = network.users * network.n_items + network.items
    often = as_row(network, int(np.flatnonzero(pairs == np.bincount(pairs).argmax())[0]))
    for one in (row, often):
        live.add([Interaction(**one)] * 2)
        table = [one] * 3  # all of them are new to the classifier, which sees the first two as the live network does
        expected = classifier.predict_proba(table)[2]
        np.testing.assert_allclose(live.predict([Interaction(**one)])[0].probabilities, expected, atol=1e-4)
        live = LiveNetwork(classifier)


def test_predictions_of_known_interactions_are_those_of_the_classifier(network, classifier, live):
    for number in (0, 5, 249, 250, N - 1):
        expected = classifier.predict_proba(network.take(np.array([number])))
        np.testing.assert_allclose(live.probabilities([live.ego_graph_of(number)]), expected, atol=1e-4)


def test_interactions_predicted_together_are_predicted_as_if_alone(network, live):
    rows = [Interaction(**as_row(network, number)) for number in range(40)] + [Interaction("n", "n", "x y z")] * 2
    batched = live.predict(rows)
    for row, prediction in zip(rows[-6:], batched[-6:], strict=True):
        np.testing.assert_allclose(live.predict([row])[0].probabilities, prediction.probabilities, atol=1e-5)


def test_predicting_changes_nothing_and_adding_does(network, classifier, live):
    row = Interaction(**as_row(network, 3))
    before = live.predict([row])[0].probabilities
    live.predict([Interaction("stranger", row.item, "hm")])
    np.testing.assert_array_equal(live.predict([row])[0].probabilities, before)
    numbers = live.add([Interaction("stranger", row.item, "terrible", label=str(live.classes[0]))] * 4)
    assert numbers.tolist() == [N, N + 1, N + 2, N + 3]
    assert len(live) == N + 4
    after = live.predict([row])[0].probabilities
    assert np.allclose(after, before) == (classifier.settings.fusion == "none")
    assert live.predict([Interaction("stranger", "new", "x")])[0].known_user
    assert live.interaction(N).label == live.classes[0]
    assert {N, N + 1, N + 2, N + 3} <= set(live.neighbours(3)["item"].tolist())
    np.testing.assert_allclose(classifier.predict_proba([as_row(network, 3)])[0], before, atol=1e-4)  # unchanged


def test_a_verdict_changes_predictions_of_neighbours_but_not_of_its_own_interaction(network, classifier, live):
    (added,) = live.add([Interaction(**as_row(network, 3))])
    for number in (260, int(added)):  # one that had no label in training, and one that came later
        own = live.probabilities([live.ego_graph_of(number)])
        folds = np.append(classifier.assembly_.features.folds, NO_FOLD)
        others = [int(one) for one in live.neighbours(number)["item"] if folds[one] != folds[number]]
        before = live.probabilities([live.ego_graph_of(others[0])])
        seen = []
        for label in live.classes:
            live.label(number, label)
            seen.append(live.probabilities([live.ego_graph_of(number)]))
            np.testing.assert_allclose(seen[-1], seen[0], atol=1e-6)
        if number == added:  # one of training is seen without its fold as soon as it has a label
            np.testing.assert_allclose(seen[0], own, atol=1e-6)
        changed = (live.probabilities([live.ego_graph_of(others[0])]) != before).any()
        assert changed or not classifier.settings.labels
        live.label(number, None)
        assert live.labels.values[number] == HIDDEN
        np.testing.assert_allclose(live.probabilities([live.ego_graph_of(others[0])]), before, atol=1e-6)
    with pytest.raises(saft.InputError, match="There is no class 'nonsense'"):
        live.label(260, "nonsense")


def test_message_states_of_added_interactions_can_be_given_instead_of_computed(network, classifier):
    rows = [Interaction("stranger", as_row(network, 3)["item"], "terrible"), Interaction("stranger", "new", "fine")]
    first, second = LiveNetwork(classifier), LiveNetwork(classifier)
    first.add(rows)
    second.add(rows, second.message_states(rows))
    others = [Interaction(**as_row(network, 3)), Interaction("stranger", "new", "again")]
    for one, other in zip(first.predict(others), second.predict(others), strict=True):
        np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_a_model_with_the_papers_fusion_is_refused(network, tiny_settings):
    settings = tiny_settings | {"fusion": "paper", "messages": "lga", "cache_neighbours": False, "epochs": 0}
    with pytest.raises(saft.InputError, match="fusion='residual'"):
        LiveNetwork(SaftClassifier(**settings).fit(network))


def test_a_growing_array_keeps_all_entries():
    growing, whole = GrowingArray(np.arange(3)), list(range(3))
    for number in range(50):
        growing.append(np.array([number, -number]))
        whole += [number, -number]
    assert growing.values.tolist() == whole
    assert len(growing) == 103

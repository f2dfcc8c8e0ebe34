"""Evidence of a growing network is that of a table with the same rows and labels, whatever happened in between.

Covers: online.live_evidence.
"""

import copy
from dataclasses import fields, replace

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.data.joining import join
from saft.data.network import HIDDEN
from saft.features import gathering
from saft.features.evidence import Evidence
from saft.features.folds import FOLDS
from saft.online.explanation import _without_neighbour
from saft.online.live import Interaction, LiveNetwork

N, LABELLED = 300, 250
VARIANTS = {
    "all evidence": {},
    "no encoder": {"encoder": "none"},
    "no trained layer": {"trained_layers": 0},
    "no labels": {"labels": False},
    "no likeness, no words, no repeats": {"alike_texts": False, "neighbour_words": False, "repeats": False},
}


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N).hiding(np.arange(LABELLED, N))


@pytest.fixture(scope="module", params=VARIANTS)
def classifier(request, network, tiny_settings):
    return SaftClassifier(**tiny_settings | {"epochs": 0} | VARIANTS[request.param]).fit(network)


@pytest.fixture(params=[256, 3])
def live(request, classifier, monkeypatch):
    """Users and items with more interactions than are compared, and with fewer."""
    monkeypatch.setattr(gathering, "MOST_COMPARED", request.param)
    return LiveNetwork(classifier)


def interaction(network, number: int, text: str, label=None) -> Interaction:
    user, item = network.user_ids[int(network.users[number])], network.item_ids[int(network.items[number])]
    return Interaction(str(user), str(item), text, label)


@pytest.fixture
def some(network) -> list[Interaction]:
    """With and without a label, of known and of new users and items."""
    classes = network.classes.to_list()
    return [
        interaction(network, 3, "quite good, better than the last one", classes[0]),
        interaction(network, 3, "it broke again", classes[1]),
        interaction(network, 60, "nothing to say about it"),
        Interaction("stranger", "novelty", "who knows", classes[2]),
        Interaction("stranger", str(network.item_ids[0]), "as good as new"),
    ]


def in_a_table(classifier, live: LiveNetwork, more: list[Interaction]) -> Evidence:
    """Of the rows of the live network and then of more, gathered from one table with its labels."""
    added = [live.interaction(number) for number in range(N, len(live))] + more
    joined = classifier.network_
    if added:
        rows = [{"user": one.user, "item": one.item, "text": one.text} for one in added]
        joined = join(joined, saft.read(rows, labelled=False))
    labels = np.concatenate([live.labels.values, np.full(len(more), HIDDEN, np.int32)])
    return classifier.assembly_.loader(replace(joined, labels=labels)).evidence


def assert_same(first: Evidence, second: Evidence) -> None:
    for entry in fields(Evidence):
        found, expected = getattr(first, entry.name), getattr(second, entry.name)
        if isinstance(expected, np.ndarray):
            found, expected = {"": found}, {"": expected}
        assert found.keys() == expected.keys()
        for side, values in expected.items():
            assert found[side].shape == values.shape
            np.testing.assert_allclose(found[side], values, atol=1e-4, err_msg=f"{entry.name} {side}")


def test_evidence_of_a_new_interaction_is_that_of_a_table_with_it(network, classifier, live, some):
    for one in some:
        expected = in_a_table(classifier, live, [one])
        assert_same(live.ego_graphs([one])[0].evidence, expected.take(np.array([N])))


def test_evidence_of_known_and_added_interactions_is_that_of_the_table(classifier, live, some):
    live.add(some)
    whole = in_a_table(classifier, live, [])
    for number in [*range(0, N, 23), 3, 60, LABELLED - 1, LABELLED, *range(N, N + len(some))]:
        assert_same(live.ego_graph_of(number).evidence, whole.take(np.array([number])))
    again = in_a_table(classifier, live, some[:1])
    assert_same(live.ego_graphs(some[:1])[0].evidence, again.take(np.array([N + len(some)])))


def pairs_of(live: LiveNetwork) -> list[tuple[str, str]]:
    return [(one.user, one.item) for one in map(live.interaction, range(len(live)))]


def assert_counts(evidence: Evidence, pairs: list[tuple[str, str]], own: tuple[str, str]) -> None:
    """Repeats and degrees are those of a loop over the pairs of all others."""
    user, item = own
    assert evidence.degrees.tolist() == [[sum(one[0] == user for one in pairs), sum(one[1] == item for one in pairs)]]
    assert evidence.repeats.tolist() == [[sum(one == own for one in pairs)]]


def test_repeats_and_degrees_are_those_of_a_loop_over_all_others_whichever_is_left_out(network, tiny_settings):
    """Of pairs that met often, of new users and items, and of those with the same names as a known pair reversed."""
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0, "encoder": "none"}).fit(network)
    live, known = LiveNetwork(classifier), interaction(network, 3, "again")
    new = Interaction("stranger", "novelty", "who knows")
    reverse, half = Interaction("novelty", "stranger", "hm"), Interaction("stranger", known.item, "hm")
    live.add([known, known, new, new, new, reverse, half])
    pairs = pairs_of(live)
    for number in (0, 3, 60, *range(N, len(live))):
        ego = live.ego_graph_of(number)
        others = pairs[:number] + pairs[number + 1 :]
        assert_counts(ego.evidence, others, pairs[number])
        for without in {0, 3, 4, *range(N, len(live))} - {number}:
            rest = [pair for at, pair in enumerate(pairs) if at not in (number, without)]
            assert_counts(live.evidence.of(number, ego.codes, ego.read, without), rest, pairs[number])
    for asked in (known, new, reverse, half, replace(new, user="nobody"), Interaction("nobody", "nothing", "x")):
        (ego,), own = live.ego_graphs([asked]), (asked.user, asked.item)
        assert_counts(ego.evidence, pairs, own)
        for without in (3, *range(N, len(live))):
            evidence = live.evidence.of(len(live), ego.codes, ego.read, without)
            assert_counts(evidence, pairs[:without] + pairs[without + 1 :], own)


def test_a_label_changes_neither_repeats_nor_degrees(network, classifier, live):
    def counted() -> list[tuple]:
        found = [live.ego_graph_of(number).evidence for number in (3, 60, LABELLED + 4)]
        return [(one.repeats.tolist(), one.degrees.tolist()) for one in found]

    before, label = counted(), network.classes.to_list()[0]
    assert live.ego_graph_of(LABELLED + 4).evidence.views.tolist() == [FOLDS]
    live.label(LABELLED + 4, label)
    live.label(60, None)
    assert counted() == before
    folds = classifier.assembly_.features.folds
    assert live.ego_graph_of(LABELLED + 4).evidence.views.tolist() == [folds[LABELLED + 4]]
    assert live.ego_graph_of(60).evidence.views.tolist() == [FOLDS]


def test_the_degree_of_a_node_is_the_number_of_its_members(live, some):
    live.add(some)
    for side in live.sides.values():
        assert [side.degree(code) for code in range(len(side.ids))] == [
            len(side.members(code)) for code in range(len(side.ids))
        ]
        assert side.degree(len(side.ids)) == 0  # of one that is still to come


def with_labels(classifier, labels: np.ndarray) -> SaftClassifier:
    """The same model, whose network has these labels."""
    other = copy.copy(classifier)
    other.assembly_ = classifier.assembly_.with_network(replace(classifier.network_, labels=labels.copy()))
    return other


def test_after_many_changes_evidence_is_that_of_a_network_built_from_scratch(network, classifier, live, some):
    classes = network.classes.to_list()
    numbers = live.add(some[:3])
    live.label(int(numbers[0]), classes[2])  # of an added one: other, none, and one where there was none
    live.label(int(numbers[1]), None)
    live.label(int(numbers[2]), classes[0])
    live.label(3, classes[1])  # the same of those of training
    live.label(60, None)
    live.label(LABELLED + 4, classes[1])
    live.label(LABELLED + 4, classes[0])
    live.label(LABELLED + 5, classes[1])
    live.label(LABELLED + 5, None)
    live.add(some[3:])
    live.label(60, classes[2])
    fresh = LiveNetwork(with_labels(classifier, live.labels.values[:N]))
    fresh.add([live.interaction(number) for number in range(N, len(live))])
    np.testing.assert_array_equal(fresh.labels.values, live.labels.values)
    np.testing.assert_array_equal(fresh.label_totals, live.label_totals)
    np.testing.assert_array_equal(fresh.evidence._fold_totals, live.evidence._fold_totals)
    for name, side in live.sides.items():
        np.testing.assert_array_equal(fresh.sides[name].label_counts.values, side.label_counts.values)
        np.testing.assert_allclose(fresh.sides[name].word_sums.values, side.word_sums.values, atol=1e-4)
        np.testing.assert_allclose(fresh.sides[name].heard_sums.values, side.heard_sums.values, atol=1e-4)
    for number in [*range(0, len(live), 31), 3, 60, LABELLED + 4, LABELLED + 5, *range(N, len(live))]:
        assert_same(live.ego_graph_of(number).evidence, fresh.ego_graph_of(number).evidence)
    asked = interaction(network, 3, "and now?")
    assert_same(live.ego_graphs([asked])[0].evidence, fresh.ego_graphs([asked])[0].evidence)
    np.testing.assert_allclose(
        live.predict([asked])[0].probabilities, fresh.predict([asked])[0].probabilities, atol=1e-5
    )


def test_without_a_neighbour_evidence_is_that_of_a_network_in_which_it_never_was(network, tiny_settings, some):
    """For a new interaction, and for labelled and unlabelled ones of training."""
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0, "neighbours": 300, "messages": "lga"}).fit(network)
    before, after = LiveNetwork(classifier), LiveNetwork(classifier)
    for added in (some[0], replace(some[0], label=None)):
        (number,) = after.add([added])
        asked, near = interaction(network, 3, "and now?"), after.neighbours(number)["item"]
        rows = [3, int(near[near < LABELLED][0]), int(near[near >= LABELLED][0])]
        pairs = [(after.ego_graph_of(row), before.ego_graph_of(row)) for row in rows]
        pairs.append((after.ego_graphs([asked])[0], before.ego_graphs([asked])[0]))
        for ego, expected in pairs:
            assert number in ego.neighbourhood.rows
            without = _without_neighbour(after, ego, int(number))
            assert number not in without.neighbourhood.rows
            assert_same(without.evidence, expected.evidence)
        before.add([added])


def test_a_neighbour_of_the_same_fold_shows_no_label_that_could_be_removed(network, tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network)
    live, folds = LiveNetwork(classifier), classifier.assembly_.features.folds
    checked = 0
    for number in range(0, LABELLED, 5):
        ego = live.ego_graph_of(number)
        near = live.neighbours(number)
        for row in np.unique(np.concatenate([*near.values()])).tolist():
            if row < LABELLED and folds[row] == folds[number]:
                without = _without_neighbour(live, ego, row).evidence
                np.testing.assert_array_equal(without.totals, ego.evidence.totals)
                for side, shared in near.items():
                    np.testing.assert_array_equal(without.labels[side], ego.evidence.labels[side])
                    lost = ego.evidence.words[side] - without.words[side]
                    said = np.append(1, classifier.assembly_.features.log_odds[folds[number], row])
                    np.testing.assert_allclose(lost[0], said * (row in shared), atol=1e-4)
                checked += 1
    assert checked > 20

"""Effects of words, neighbours and features, against predictions without them."""

from dataclasses import replace

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.data.network import HIDDEN
from saft.metrics import softmax
from saft.online.explanation import MOST_PARTS, _neighbours_of, _without_neighbour
from saft.online.live import Interaction, LiveNetwork
from saft.settings import TEXT_ONLY

N = 300
TEXT = "it broke after a day, awful"


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


def without_neighbour(live, ego, number):
    return _without_neighbour(live, ego, number, live.message_states([live.interaction(number)])[0])


@pytest.fixture(scope="module", params=["content", "lga"])
def classifier(request, network, tiny_settings):
    changes = {"neighbours": 50, "structure_tokens": True, "messages": request.param}
    return SaftClassifier(**tiny_settings | changes).fit(network.hiding(np.arange(250, N)))


@pytest.fixture
def live(classifier):
    return LiveNetwork(classifier)


@pytest.fixture
def row(network) -> dict[str, str]:
    return {"user": str(network.user_ids[0]), "item": str(network.item_ids[0]), "text": TEXT}


def probability(live, row, label) -> float:
    return live.predict([Interaction(**row)])[0].probabilities[live.classes.to_list().index(label)]


def test_the_effect_of_a_word_is_what_the_probability_loses_without_it(live, row):
    found = saft.explain(live, row)
    before = probability(live, row, found.label)
    assert found.probabilities[found.label] == pytest.approx(before, abs=1e-5)
    assert [word.text for word in found.words] == TEXT.split()
    for word in found.words:
        assert TEXT[word.start : word.end] == word.text
        without = row | {"text": f"{TEXT[: word.start]} {TEXT[word.end :]}".strip()}
        assert word.effect == pytest.approx(before - probability(live, without, found.label), abs=1e-5)


def test_the_effect_of_a_neighbour_is_what_the_probability_loses_without_it(classifier, live, row):
    alone = saft.explain(live, row | {"user": "somebody"})
    (number,) = live.add([Interaction("somebody", "something", "quite different words")])
    found = saft.explain(live, row | {"user": "somebody"})
    (added,) = [one for one in found.neighbours if one.number == number]
    assert (added.interaction.user, added.interaction.item, added.interaction.label, added.shares) == (
        "somebody",
        "something",
        None,
        "user",
    )
    expected = found.probabilities[found.label] - alone.probabilities[found.label]
    # The user is known now, and its structure is that of two interactions.
    assert added.effect == pytest.approx(expected, abs=0.05)


def test_the_label_and_the_words_of_a_neighbour_are_removed_with_it(live, row):
    ego = live.ego_graphs([Interaction(**row)])[0]
    numbers = np.array(_neighbours_of(live, ego))
    labels = live.labels.values[numbers]
    for place in [int(np.flatnonzero(labels != HIDDEN)[0]), int(np.flatnonzero(labels == HIDDEN)[0])]:
        changed = without_neighbour(live, ego, int(numbers[place]))
        one_hot = (np.arange(3) == labels[place]).astype(float)
        np.testing.assert_array_equal(ego.evidence.totals - changed.evidence.totals, [one_hot])
        for side, node in live.sides.items():
            shared = node.nodes.values[numbers[place]] == ego.codes[side]
            lost = ego.evidence.labels[side] - changed.evidence.labels[side]
            np.testing.assert_array_equal(lost, [one_hot * shared])
            silent = shared and labels[place] == HIDDEN
            assert ego.evidence.words[side][0, 0] - changed.evidence.words[side][0, 0] == silent
            assert (ego.evidence.likeness[side] != changed.evidence.likeness[side]).any() == shared


def test_the_effect_of_a_neighbour_is_that_of_all_that_comes_from_it(live, row):
    found = saft.explain(live, row)
    ego = live.ego_graphs([Interaction(**row)])[0]
    best = live.classes.to_list().index(found.label)
    own = live.probabilities([ego])[0, best]
    for number in _neighbours_of(live, ego)[:5]:
        (near,) = [one for one in found.neighbours if one.number == number]
        without = live.probabilities([without_neighbour(live, ego, number)])[0, best]
        assert near.effect == pytest.approx(own - without, abs=1e-5)


def test_every_kind_of_feature_has_an_effect_of_its_own(live, row):
    found = saft.explain(live, row)
    names = {feature.name for feature in found.features}
    assert names == {
        "distance", "centrality", "user", "item", "user labels", "item labels", "linear models", "neighbours' texts",
        "activity", "closeness",
    }  # fmt: skip
    # Trees look at the last two, and only where a condition holds.
    effects = {feature.name: feature.effect for feature in found.features}
    assert all(effect for name, effect in effects.items() if name not in ("closeness", "activity"))
    (ego,) = live.ego_graphs([Interaction(**row)])
    without = {
        "closeness": replace(ego, structure=ego.structure | {"closeness": np.zeros_like(ego.structure["closeness"])}),
        "activity": replace(ego, evidence=ego.evidence.without_degrees()),
    }
    place = live.classes.to_list().index(found.label)
    for name, other in without.items():
        lost = found.probabilities[found.label] - softmax(live._logits([other]), live.classifier.temperature_)[0, place]
        assert effects[name] == pytest.approx(lost, abs=1e-5)
    sizes = [abs(feature.effect) for feature in found.features]
    assert sizes == sorted(sizes, reverse=True)
    assert str(found.label) in str(found)
    assert set(found.as_dict()) == {"label", "probabilities", "words", "neighbours", "features"}


@pytest.mark.parametrize("changes", [{"encoder": "none"}, {"trained_layers": 0}])
def test_a_model_without_a_trained_encoder_is_explained_by_words_labels_and_texts(network, tiny_settings, row, changes):
    classifier = SaftClassifier(**tiny_settings | changes).fit(network.hiding(np.arange(250, N)))
    live = LiveNetwork(classifier)
    for asked in (row, 4, 260):
        found = saft.explain(live, asked)
        assert {"linear models", "neighbours' texts"} <= {feature.name for feature in found.features}
        assert any(word.effect for word in found.words)
        assert any(near.effect for near in found.neighbours)
    found = saft.explain(live, row)
    before = probability(live, row, found.label)
    for word in found.words:
        without = row | {"text": f"{TEXT[: word.start]} {TEXT[word.end :]}".strip()}
        assert word.effect == pytest.approx(before - probability(live, without, found.label), abs=1e-5)


@pytest.mark.parametrize("changes", [{}, {"encoder": "none"}])
def test_where_no_states_are_passed_the_neighbours_with_the_most_alike_texts_are_looked_at(
    network, tiny_settings, row, changes
):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0, "neighbours": 2} | changes).fit(network)
    live = LiveNetwork(classifier)
    for ego in (live.ego_graph_of(4), *live.ego_graphs([Interaction(**row)])):
        expected = set()
        for name, side in live.sides.items():
            others = [int(one) for one in np.flatnonzero(side.nodes.values == ego.codes[name])]
            others = [one for one in others if one != ego.number]
            if not changes:
                directions = classifier.assembly_.features.vectors
                others.sort(key=lambda one: -float(directions[one] @ ego.read.vector))
                expected.update(others[:2])
            else:
                assert len(set(others) & set(_neighbours_of(live, ego))) >= min(2, len(others))
        if expected:
            assert set(_neighbours_of(live, ego)) == expected


def test_known_interactions_are_explained_by_number(network, classifier, live):
    found = saft.explain(classifier, 4)
    expected = classifier.predict_proba(network.take(np.array([4])))[0]
    np.testing.assert_allclose(list(found.probabilities.values()), expected, atol=1e-4)
    assert 4 not in [one.number for one in found.neighbours]
    assert saft.explain(live, 4) == found
    with pytest.raises(saft.InputError, match="numbered from 0 to 299"):
        saft.explain(live, N)


def test_a_misspelt_or_incomplete_interaction_is_refused_with_a_sentence(live, row):
    with pytest.raises(saft.InputError, match=r"no 'txt'\. Did you mean 'text'"):
        saft.explain(live, {"user": "u", "item": "i", "txt": "t"})
    with pytest.raises(saft.InputError, match="there is no item, text"):
        saft.explain(live, {"user": "u"})


def test_the_words_of_a_long_text_are_removed_in_pieces(live, row):
    text = " ".join(f"word{number}" for number in range(1000))
    words = saft.explain(live, row | {"text": text}).words
    assert MOST_PARTS / 2 < len(words) <= MOST_PARTS
    assert words[0].start == 0
    assert words[-1].end == len(text)
    assert saft.explain(live, row | {"text": ""}).words == []


def test_text_alone_has_words_only(network, tiny_settings):
    found = saft.explain(SaftClassifier(**tiny_settings | TEXT_ONLY | {"epochs": 0}).fit(network), 0)
    assert found.words
    assert found.neighbours == found.features == []

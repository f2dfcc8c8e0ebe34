"""Effects of words, neighbours and features, against predictions without them."""

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.online.explanation import MOST_PARTS, _without_neighbour
from saft.online.live import Interaction, LiveNetwork
from saft.settings import TEXT_ONLY

N = 300
TEXT = "it broke after a day, awful"


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture(scope="module")
def classifier(network, tiny_settings):
    return SaftClassifier(**tiny_settings | {"neighbours": 50}).fit(network.hiding(np.arange(250, N)))


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


def test_the_label_of_a_neighbour_is_removed_with_it(live, row):
    before = saft.explain(live, row)
    numbers = [one.number for one in before.neighbours if one.interaction.label is not None]
    assert numbers
    for number in numbers[:2]:
        place = int(np.flatnonzero(live.ego_graphs([Interaction(**row)])[0].neighbourhood.rows == number)[0])
        ego = live.ego_graphs([Interaction(**row)])[0]
        changed = _without_neighbour(ego, place)
        label = int(live.labels.values[number])
        for side in ("user", "item"):
            lost = ego.nodes[side].label_counts - changed.nodes[side].label_counts
            expected = np.zeros_like(lost)
            expected[label] = ego.neighbourhood.shares_node[side][place]
            np.testing.assert_array_equal(lost, expected)


def test_every_kind_of_feature_has_an_effect_of_its_own(live, row):
    found = saft.explain(live, row)
    names = {feature.name for feature in found.features}
    assert names == {"distance", "centrality", "user", "item", "user labels", "item labels", "ngrams"}
    assert any(feature.effect for feature in found.features)
    sizes = [abs(feature.effect) for feature in found.features]
    assert sizes == sorted(sizes, reverse=True)
    assert str(found.label) in str(found)
    assert set(found.as_dict()) == {"label", "probabilities", "words", "neighbours", "features"}


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

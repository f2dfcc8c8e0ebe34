"""The demo network: exact size, reproducible, and a task that needs words and structure.

Covers: data.demo_texts.
"""

import numpy as np
import polars as pl
import pytest

import saft
from saft.data.demo import BOMB, BRIDGE, ORDINARY, RING, _trust


@pytest.mark.parametrize("size", [200, 201, 999, 3000, 20_000])
def test_the_network_has_exactly_the_size_that_was_asked_for(size):
    network = saft.demo_network(size, seed=4)
    assert len(network) == size
    assert network.is_labelled.all()
    assert network.user_degrees.min() >= 1
    assert network.item_degrees.min() >= 1


def test_the_same_seed_gives_the_same_network_and_another_seed_another():
    first, again, other = (saft.demo_network(500, seed=seed).to_frame() for seed in (2, 2, 3))
    assert first.equals(again)
    assert not first.equals(other)


def test_both_label_sets_are_of_the_same_network():
    trust, rating = saft.demo_network(500), saft.demo_network(500, labels="rating")
    assert trust.classes.to_list() == ["genuine", "spam", "suspicious"]
    assert rating.classes.to_list() == [1, 2, 3, 4, 5]
    assert trust.to_frame().drop("label").equals(rating.to_frame().drop("label"))


@pytest.mark.parametrize("labels", ["trust", "rating"])
def test_every_class_is_common_enough_to_be_learnt(labels):
    shares = np.array(list(saft.demo_network(labels=labels).summary().classes.values())) / 3000
    assert shares.min() > 0.08
    assert shares.max() < 0.75


def test_texts_are_varied_and_written_about_the_product():
    network = saft.demo_network(3000)
    assert network.texts.n_unique() > 2900
    assert (network.texts.str.len_chars() > 10).all()
    kitchen = network.item_attributes["category"].gather(pl.Series(network.items)) == "kitchen"
    about = network.texts.str.to_lowercase().str.contains("kettle|frying pan|toaster|blender")
    assert about.filter(kitchen).all()
    assert not about.filter(~kitchen).any()


def test_labels_follow_from_the_position_of_an_interaction_and_its_text_together():
    kinds = np.repeat([ORDINARY, RING, BOMB, BRIDGE], 4)
    mood = np.tile([0, 0, 4, 4], 4)
    reason = np.tile([False, True], 8)
    genuine, spam, suspicious = 0, 1, 2
    assert _trust(kinds, mood, reason).tolist() == [
        *[genuine] * 4,  # ordinary: whatever the mood
        genuine, genuine, spam, spam,  # in a ring: praise is for hire, complaints are honest
        spam, spam, genuine, genuine,  # bombed: fury is spam
        suspicious, genuine, suspicious, genuine,  # far away: suspicious without a reason
    ]  # fmt: skip


def test_ids_do_not_reveal_labels():
    network = saft.demo_network(20_000)
    number = network.user_ids.str.split("-").list.last().cast(pl.Int64).to_numpy()[network.users]
    spam = network.labels == 1
    low = number < np.median(number)
    assert abs(spam[low].mean() - spam[~low].mean()) < 0.03


@pytest.mark.slow
def test_words_and_structure_together_beat_either_alone_by_eight_points():
    """Macro-F1 on the test part, averaged over two networks, of boosted trees on words, on structure and on both."""
    scores = np.mean([_scores(saft.demo_network(12_000, seed=seed), seed) for seed in (0, 1)], axis=0)
    words, structure, both = scores
    assert 0.4 < words < 0.7  # ambiguous for a good part, not hopeless
    assert 0.4 < structure < 0.75
    assert both > max(words, structure) + 0.08


def _scores(network: saft.TextualInteractionNetwork, seed: int) -> list[float]:
    from scipy.sparse import coo_array, diags_array
    from scipy.sparse.linalg import svds
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics import f1_score

    split = saft.split(network, seed=seed)
    tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    tfidf.fit(network.texts.gather(pl.Series(split.train)).to_list())
    words = TruncatedSVD(96, random_state=0).fit_transform(tfidf.transform(network.texts.to_list()))
    user_scale, item_scale = network.user_degrees**-0.5, network.item_degrees**-0.5
    counts = coo_array((np.ones(len(network)), (network.users, network.items))).tocsr()
    left, _, right = svds(
        diags_array(user_scale) @ counts @ diags_array(item_scale), k=33, rng=np.random.default_rng(0)
    )
    users, items = (left * user_scale[:, None])[network.users], (right.T * item_scale[:, None])[network.items]
    degrees = np.column_stack([network.user_degrees[network.users], network.item_degrees[network.items]])
    structure = np.column_stack([users, items, (users * items).sum(axis=1), degrees])
    scores = []
    for features in (words, structure, np.column_stack([words, structure])):
        trees = HistGradientBoostingClassifier(max_iter=100, random_state=0)
        trees.fit(features[split.train], network.labels[split.train])
        scores.append(f1_score(network.labels[split.test], trees.predict(features[split.test]), average="macro"))
    return scores


def test_impossible_marketplaces_are_refused():
    with pytest.raises(saft.InputError, match="at least 200"):
        saft.demo_network(10)
    with pytest.raises(saft.InputError, match="Did you mean 'rating'"):
        saft.demo_network(500, labels="ratings")

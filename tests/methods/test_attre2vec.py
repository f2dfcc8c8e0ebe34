"""AttrE2vec: walks, summaries, encoder and loss against loops."""

import numpy as np
import pytest
import torch

from saft.methods._features import Rows
from saft.methods.attre2vec import LENGTH, WALKS, Coded, EdgeEncoder, WalkGraph, summarised, unsupervised_loss


@pytest.fixture(scope="module")
def walks(toy):
    graph, rng = WalkGraph(toy), np.random.default_rng(0)
    return [graph.walks(np.arange(len(toy)), side, rng) for side in (0, 1)]


def test_walks_go_through_shared_users_and_items_and_never_through_their_own_interaction(toy, walks):
    nodes = toy.users, toy.items
    for side in (0, 1):
        for e in range(len(toy)):
            for walk in walks[side][e]:
                node, at = nodes[side][e], side
                for step in walk[walk >= 0]:
                    assert step != e
                    assert nodes[at][step] == node
                    at = 1 - at
                    node = nodes[at][step]
                assert (np.diff(walk < 0) >= 0).all()  # past a dead end there is nothing


def test_every_other_interaction_of_a_node_is_drawn_equally_often_and_a_repeated_pair_counts(toy):
    graph, rng = WalkGraph(toy), np.random.default_rng(1)
    row = int(np.argmax(toy.user_degrees[toy.users]))
    firsts = np.concatenate([graph.walks(np.array([row]), 0, rng)[0, :, 0] for _ in range(400)])
    others = np.flatnonzero(toy.users == toy.users[row])
    others = others[others != row]
    drawn = np.array([(firsts == other).sum() for other in others])
    assert drawn.sum() == len(firsts)
    expected = len(firsts) / len(others)
    assert np.abs(drawn - expected).max() < 5 * np.sqrt(expected)


def test_an_interaction_without_neighbours_has_empty_walks_and_a_summary_of_zeros(toy, walks):
    assert (walks[0][-1] == -1).all()
    vectors = np.ones((len(toy), 3), np.float32)
    assert not summarised(vectors, walks[0][-1:], "mean").any()


@pytest.mark.parametrize("aggregator", ["mean", "exponential"])
def test_summaries_are_means_over_walks_written_out(toy, walks, aggregator):
    vectors = np.random.default_rng(0).normal(size=(len(toy), 3)).astype(np.float32)
    found = summarised(vectors, walks[1], aggregator)
    for e in (0, 50, 120):
        expected = np.zeros(3)
        for walk in walks[1][e]:
            for place, step in enumerate(walk):
                if step >= 0:
                    weight = np.exp(-place) if aggregator == "exponential" else 1.0
                    expected += weight * vectors[step] / LENGTH / WALKS
        np.testing.assert_allclose(found[e], expected, atol=1e-5)


def test_the_two_sides_have_different_summaries(toy, walks):
    vectors = np.random.default_rng(0).normal(size=(len(toy), 3)).astype(np.float32)
    assert np.abs(summarised(vectors, walks[0], "mean") - summarised(vectors, walks[1], "mean")).mean() > 0.05


def test_the_code_is_its_formula_written_out():
    torch.manual_seed(0)
    parts = torch.randn(9, 3, 6)
    model = EdgeEncoder(parts, torch.zeros(9, 4, dtype=torch.long))
    own, user, item = parts[4]
    scores = torch.stack([torch.tanh(model.attention[place] @ part) for place, part in enumerate((own, user, item))])
    alpha = torch.softmax(scores, dim=0)
    first, _, second, _, third, _ = model.encoder
    hidden = torch.relu(first(torch.cat([alpha[0] * own, alpha[1] * user, alpha[2] * item])))
    torch.testing.assert_close(model.code(parts[4:5])[0], torch.tanh(third(torch.relu(second(hidden)))))


def test_the_loss_is_its_formula_written_out():
    torch.manual_seed(0)
    coded = Coded(
        own=torch.randn(2, 4), positives=torch.randn(2, 5, 4), negatives=torch.randn(2, 10, 4),
        strange=torch.rand(2, 10) > 0.3, decoded=torch.randn(2, 3), vectors=torch.randn(2, 3),
    )  # fmt: skip
    pairs = [
        torch.nn.functional.cosine_embedding_loss(coded.own[e], other, torch.tensor(sign))
        for e in range(2)
        for others, sign in ((coded.positives[e], 1), (coded.negatives[e][coded.strange[e]], -1))
        for other in others
    ]
    expected = torch.stack(pairs).mean() / 2 + ((coded.decoded - coded.vectors) ** 2).mean() / 2
    found = unsupervised_loss(coded, Rows(torch.arange(2), torch.zeros(2)))
    torch.testing.assert_close(found, expected)

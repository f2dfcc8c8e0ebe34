"""GIANT: how users and items are divided, and the loss of the first step."""

from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_array

from saft.methods import find
from saft.methods.giant import describe, halve, levels_for, squared_hinge


def test_a_node_is_described_by_the_normalised_sum_of_its_texts():
    words = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], np.float32)
    found = describe(csr_array(words), np.array([0, 2, 0, 2]), 4).toarray()
    np.testing.assert_allclose(found[0], np.array([2, 1]) / np.sqrt(5), rtol=1e-6)
    np.testing.assert_allclose(found[2], np.array([2, 1]) / np.sqrt(5), rtol=1e-6)
    assert not found[[1, 3]].any()


def test_parts_are_of_equal_size_and_keep_together_what_is_alike():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 8)
    vectors = csr_array((np.eye(4)[groups] + 0.05 * rng.random((32, 4))).astype(np.float32))
    parts = halve(vectors, 2, np.random.default_rng(1))
    assert np.bincount(parts).tolist() == [8, 8, 8, 8]
    assert all(len(set(parts[groups == group])) == 1 for group in range(4))
    odd = halve(vectors[:13], 2, np.random.default_rng(1))
    assert max(np.bincount(odd)) - min(np.bincount(odd)) <= 1


def test_the_tree_is_as_deep_as_sixteen_nodes_to_a_part_require():
    assert [levels_for(n) for n in (3, 40, 64, 1000, 10**6)] == [1, 1, 2, 5, 10]


def test_the_loss_is_the_squared_hinge_over_own_and_other_parts_written_out():
    scores = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([[0, 4], [1, 5], [1, 3]])
    own, others = [], []
    for e in range(3):
        for c in range(6):
            if c in targets[e]:
                own.append(max(0.0, 1 - float(scores[e, c])) ** 2)
            else:
                others.append(max(0.0, 1 + float(scores[e, c])) ** 2)
    found = squared_hinge(SimpleNamespace(logits=scores), SimpleNamespace(targets=targets))
    assert abs(float(found) - np.mean(own) - np.mean(others)) < 1e-6


def test_the_first_step_moves_the_encoder_without_any_label(toy, toy_settings):
    from saft.methods._text_vectors import text_vectors

    hidden = toy.showing(np.empty(0, np.int64))
    method = find("giant").make(toy_settings)
    method.learn(hidden, np.arange(5))
    frozen = text_vectors(toy.texts, method.settings, "mean")
    assert np.abs(method.features(hidden) - frozen).mean() > 1e-3

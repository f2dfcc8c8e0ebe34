"""TER+AER by PageRank against dense matrices.

Covers: methods._ter_aer.
"""

import numpy as np
import torch

from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.methods._ter_aer import RESTART, spread_by_pagerank
from tests.methods.conftest import walk_matrix


def without_constants(walk: np.ndarray) -> np.ndarray:
    """The walk without its eigenvalue 1, which every component has once and the embedding leaves out."""
    values, vectors = np.linalg.eigh(walk)
    kept = values < 1 - 1e-9
    return values[kept], vectors[:, kept]


def test_texts_are_spread_by_the_whole_sum(toy):
    x = torch.randn(len(toy), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    walk = walk_matrix(toy)
    exact = RESTART * torch.linalg.inv(torch.eye(len(toy)) - (1 - RESTART) * walk) @ x
    torch.testing.assert_close(spread_by_pagerank(x, LineGraph.of(toy)), exact, atol=1e-4, rtol=0)


def test_structure_is_the_kernel_of_the_walk(toy, toy_settings):
    method = find("ter_aer_ppr").make(toy_settings)
    vectors = method.embedding.fit_transform(toy.users, toy.items)
    values, basis = without_constants(walk_matrix(toy).numpy())
    values = np.maximum(values, 0)
    kernel = (basis * (RESTART / (1 - (1 - RESTART) * values) * (values > 1e-9))) @ basis.T
    np.testing.assert_allclose(vectors @ vectors.T, kernel, atol=1e-6)


def test_features_are_structure_beside_spread_texts_and_the_texts_stay_as_they_are(toy, toy_settings):
    from saft.methods._text_vectors import text_vectors

    method = find("ter_aer_ppr").make(toy_settings)
    before = text_vectors(toy.texts, method.settings, "mean")
    method.learn(toy, np.arange(100))
    features = method.features(toy)
    assert features.shape == (len(toy), 256 + before.shape[1])
    expected = spread_by_pagerank(torch.from_numpy(before), LineGraph.of(toy))
    torch.testing.assert_close(features[:, 256:], expected)
    np.testing.assert_array_equal(text_vectors(toy.texts, method.settings, "mean"), before)

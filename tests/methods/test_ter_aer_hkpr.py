"""TER+AER by the heat kernel against dense matrices."""

import numpy as np
import torch

from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.methods._ter_aer import HEAT, spread_by_heat
from tests.methods.conftest import walk_matrix
from tests.methods.test_ter_aer_ppr import without_constants


def test_texts_are_spread_by_the_matrix_exponential(toy):
    x = torch.randn(len(toy), 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    exact = torch.linalg.matrix_exp(HEAT * (walk_matrix(toy) - torch.eye(len(toy)))) @ x
    torch.testing.assert_close(spread_by_heat(x, LineGraph.of(toy)), exact, atol=1e-4, rtol=0)


def test_structure_is_the_kernel_of_the_walk(toy, toy_settings):
    vectors = find("ter_aer_hkpr").make(toy_settings).embedding.fit_transform(toy.users, toy.items)
    values, basis = without_constants(walk_matrix(toy).numpy())
    kernel = (basis * (np.exp(HEAT * (values - 1)) * (values > 1e-9))) @ basis.T
    np.testing.assert_allclose(vectors @ vectors.T, kernel, atol=1e-6)

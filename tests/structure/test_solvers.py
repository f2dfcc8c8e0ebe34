"""The solvers against dense linear algebra."""

import numpy as np
import pytest

from saft.structure import solvers
from saft.structure.solvers import fix_signs, solve, top_eigenpairs


@pytest.mark.parametrize(("size", "wanted"), [(30, 5), (30, 30), (20, 50), (300, 6)])
def test_top_eigenpairs_are_the_dense_ones(size, wanted):
    rng = np.random.default_rng(0)
    root = rng.standard_normal((size, size))
    matrix = root @ root.T
    values, vectors = top_eigenpairs(lambda block: matrix @ block, size, wanted, np.float64, seed=1)
    expected = np.linalg.eigvalsh(matrix)[::-1][:wanted]
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-6 * expected[0])


def test_systems_are_solved_column_by_column_also_with_a_null_space():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    spectrum = np.concatenate([[1.0], rng.random(39) * 0.95])
    matrix = basis @ np.diag(spectrum) @ basis.T  # 1 is the null space of I − matrix
    null = basis[:, :1]
    right = rng.standard_normal((40, 4))
    right[:, 3] = 0
    solution = solve(lambda b: matrix @ b, right, project=lambda b: b - null @ (null.T @ b), tolerance=1e-10)
    expected = np.linalg.pinv(np.eye(40) - matrix, rcond=1e-12) @ right
    np.testing.assert_allclose(solution, expected, atol=1e-7)


def test_a_system_that_is_not_solved_in_time_is_warned_about():
    matrix = np.diag(np.linspace(0, 0.999999, 50))
    with pytest.warns(RuntimeWarning, match="solved only to"):
        solve(lambda block: matrix @ block, np.ones((50, 1)), most_steps=3)


def test_signs_are_fixed_by_the_largest_entry_of_all_parts_together():
    above, below = np.array([[1.0, -1.0], [0.5, 2.0]]), np.array([[-3.0, 1.0]])
    fix_signs(above, below)
    np.testing.assert_array_equal(above, [[-1, -1], [-0.5, 2]])
    np.testing.assert_array_equal(below, [[3, 1]])


def test_eigenpairs_that_do_not_converge_are_left_out_with_a_warning(monkeypatch):
    monkeypatch.setattr(solvers, "MOST_RESTARTS", 1)
    matrix = np.diag(np.linspace(0.9, 1, 600))
    with pytest.warns(RuntimeWarning, match="of 20 eigenvalues converged"):
        values, vectors = top_eigenpairs(lambda block: matrix @ block, 600, 20, np.float64, seed=1)
    assert len(values) == vectors.shape[1] < 20

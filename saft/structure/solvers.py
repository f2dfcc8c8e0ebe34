"""The two solvers behind the embeddings: largest eigenpairs of a large operator, and Laplacian systems."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

Operator = Callable[[np.ndarray], np.ndarray]  # a block of vectors → the operator times it
COLUMNS_AT_ONCE = 64
MOST_RESTARTS = 1000


def top_eigenpairs(
    apply: Operator, size: int, wanted: int, precision: type, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ``wanted`` largest eigenvalues, descending, and eigenvectors of a symmetric operator; all, if it has fewer.

    Lanczos with restarts (ARPACK) from a seeded start. Measured against subspace iteration with Chebyshev filters it
    was two to ten times faster, most on flat spectra (docs/structure.md).
    """
    if size <= max(4 * wanted, 200):  # a small operator is cheaper as a dense matrix
        values, vectors = eigh(_written_out(apply, size, precision))
    else:
        operator = LinearOperator((size, size), matvec=lambda x: apply(x.reshape(-1, 1))[:, 0], dtype=precision)
        start: np.ndarray = np.random.default_rng(seed).standard_normal(size).astype(precision)
        tolerance = np.finfo(precision).eps ** 0.6  # of residuals; eigenvalues are better by its square
        try:
            values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=tolerance, maxiter=MOST_RESTARTS)
        except ArpackNoConvergence as error:
            values, vectors = error.eigenvalues, error.eigenvectors
            warnings.warn(
                f"Only {len(values)} of {wanted} eigenvalues converged; the other columns are zero.",
                RuntimeWarning,
                stacklevel=2,
            )
    order = np.argsort(-values, kind="stable")[:wanted]
    return values[order].astype(np.float64), vectors[:, order].astype(precision)


def solve(
    apply: Operator,
    right: np.ndarray,
    *,
    project: Operator = lambda block: block,
    tolerance: float | None = None,
    most_steps: int = 2000,
) -> np.ndarray:
    """Conjugate gradients for (1 − operator) x = right, all columns at once.

    ``project`` keeps the iterates out of the null space, where the system has no unique solution.
    """
    residual = project(right)
    if tolerance is None:
        tolerance = float(np.finfo(residual.dtype).eps ** 0.7)  # about 1e-5 in single, 1e-11 in double precision
    solution = np.zeros_like(residual)
    direction = residual.copy()
    squared = _squared_norms(residual)
    goal = squared * tolerance**2
    for _ in range(most_steps):
        open_columns = squared > goal
        if not open_columns.any():
            return solution
        image = direction - apply(direction)
        step = _ratio(squared, np.einsum("ij,ij->j", direction, image)) * open_columns
        solution += step * direction
        residual -= step * image
        if np.finfo(residual.dtype).eps > 1e-10:  # rounding in single precision leaks back into the null space
            residual = project(residual)
        before, squared = squared, _squared_norms(residual)
        direction *= _ratio(squared, before)
        direction += residual
    worst = float(np.sqrt((squared / np.maximum(goal, np.finfo(float).tiny)).max()) * tolerance)
    warnings.warn(f"Laplacian systems solved only to {worst:.1e} in {most_steps} steps.", RuntimeWarning, stacklevel=2)
    return solution


def fix_signs(*parts: np.ndarray) -> None:
    """Flip columns, in place and together, so that the entry of largest size is positive: signs become reproducible."""
    largest = [part[np.abs(part).argmax(axis=0), np.arange(part.shape[1])] for part in parts]
    leading = np.take_along_axis(np.array(largest), np.abs(largest).argmax(axis=0)[None], axis=0)[0]
    for part in parts:
        part *= np.where(leading < 0, -1, 1).astype(part.dtype)


def _written_out(apply: Operator, size: int, precision: type) -> np.ndarray:
    columns: np.ndarray = np.eye(size, dtype=precision)
    blocks = [apply(columns[:, first : first + COLUMNS_AT_ONCE]) for first in range(0, size, COLUMNS_AT_ONCE)]
    return np.concatenate(blocks, axis=1).astype(np.float64)


def _squared_norms(block: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", block, block)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

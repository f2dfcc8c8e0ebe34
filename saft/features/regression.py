"""Multinomial logistic regression on rows of numbers, sparse or dense.

    mean of −log p(target) + ‖weights − start‖² / (2 C n),   p = softmax(row · weights + offset)

(Scikit-learn's has the same objective for a start of zero, but importing it takes as long as fitting.)
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor, log_softmax


def regress(
    rows: Tensor, turned: Tensor, targets: np.ndarray, start: np.ndarray, strength: float, steps: int
) -> np.ndarray:
    """(columns + 1, classes) weights and, in the last row, offsets; by L-BFGS.

    Args:
        rows: (rows, columns), sparse or dense.
        turned: the transpose, stored as such, so that a sparse matrix is not transposed in every step.
        targets: (rows,) the class of each.
        start: (columns + 1, classes) initial values; weights (not offsets) are penalised for their distance to them.
        strength: C; larger is less regularised.
        steps: maximum number of solver iterations.
    """
    number, n_classes = len(targets), start.shape[1]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        both = flat.reshape(-1, n_classes)
        inner, offsets = both[:-1].astype(np.float32), both[-1]
        logs = log_softmax(rows @ torch.from_numpy(inner) + torch.from_numpy(offsets), dim=1).numpy()
        errors = np.exp(logs)
        errors[np.arange(number), targets] -= 1
        moved = both[:-1] - start[:-1]
        pulled = moved / (strength * number)
        blamed = (turned @ torch.from_numpy(errors.astype(np.float32))).numpy()
        gradient = np.vstack([blamed / number + pulled, errors.mean(axis=0)])
        loss = -logs[np.arange(number), targets].mean() + (moved * pulled).sum() / 2
        return float(loss), gradient.ravel().astype(np.float64)

    # Vectors this short gain nothing from a multithreaded BLAS, and lose much where its threads wait for each other.
    with threadpool_limits(1, "blas"):
        found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return found.x.reshape(-1, n_classes).astype(np.float32)

"""Results as the runner writes them."""

from typing import Any

from experiments.tables import Run


def line(run: Run, macro: float | None, micro: float | None = None) -> dict[str, Any]:
    """A finished run with these scores; Micro-F1 is the same if it is not given."""
    network, method, seed = run.key
    scores = {"macro_f1": macro, "micro_f1": macro if micro is None else micro}
    facts = {"seconds": 1.0, "seconds_per_epoch": 2.0, "versions": {"torch": "9"}, "status": "done"}
    return {"dataset": network, "method": method, "seed": seed, **scores, **facts, **run.described()}

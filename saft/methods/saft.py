"""SAFT as this product ships it: ``SaftClassifier`` with its defaults, trained by the same protocol as its rivals.

What differs from the paper, and what that measured: ``docs/model.md``.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._fine_tuned import FineTuned
from saft.model.saft import SaftModel

METHOD = Method(title="SAFT", paper="the SAFT paper, developed further", build=partial(FineTuned, build=SaftModel))

"""TER+AER (HKPR): structure and texts of the neighbourhood, weighed by the heat kernel.

Wang, Yang, Huang and Xiao: Efficient and Effective Edge-wise Graph Representation Learning. KDD 2023. Formulas, and
what differs from the release: ``_ter_aer.py``.
"""

from __future__ import annotations

from functools import partial

from saft.methods._card import Method
from saft.methods._ter_aer import TerAer

METHOD = Method(title="TER+AER (HKPR)", paper="Wang et al., KDD 2023", build=partial(TerAer, kernel="heat"))

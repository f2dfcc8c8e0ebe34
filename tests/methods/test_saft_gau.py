"""SAFT (gau) as printed. Its formulas are compared one by one in tests/model/test_saft.py."""

from saft.methods import find
from saft.model.saft import SaftModel
from saft.settings import AS_PRINTED


def test_it_is_the_papers_form_and_uses_no_labels(made):
    settings = find("saft_gau").settings_with({"fusion": "residual", "labels": True}, {})
    assert {name: getattr(settings, name) for name in AS_PRINTED} == AS_PRINTED | {"messages": "gau"}
    model, batch = made("saft_gau")
    assert isinstance(model, SaftModel)
    assert batch.labels is None
    assert batch.side_features is None
    assert batch.cached is None

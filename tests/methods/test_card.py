"""Cards: which settings override which, and what is refused."""

import pytest

import saft
from saft.methods import find


def test_settings_of_a_card_override_those_for_all_methods_and_own_settings_override_both():
    card = find("graphformers")
    assert card.settings_with({"neighbours": 9, "epochs": 2}, {}).neighbours == 3
    assert card.settings_with({"neighbours": 9, "epochs": 2}, {}).epochs == 2
    assert card.settings_with({"neighbours": 9}, {"neighbours": 5}).neighbours == 5


def test_an_unknown_method_is_refused_with_the_nearest_name():
    with pytest.raises(saft.InputError, match="Did you mean 'edgeformers'"):
        find("edgeformer")


def test_pieces_that_methods_share_are_no_methods():
    with pytest.raises(saft.InputError, match="no method '_gcn'"):
        find("_gcn")

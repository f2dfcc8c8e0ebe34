"""Predictions of ONNX Runtime are those of torch."""

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.online.live import Interaction, LiveNetwork
from saft.server.onnx_session import is_installed, use_onnx
from saft.settings import TEXT_ONLY

pytestmark = pytest.mark.skipif(not is_installed(), reason='needs the extra "onnx"')
N = 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"labels": False, "ngrams": False, "messages": "gau"}, marks=pytest.mark.long),
        pytest.param(TEXT_ONLY, marks=pytest.mark.long),
    ],
)
def test_predictions_are_those_of_torch(tiny_settings, tmp_path, changes):
    network = saft.demo_network(N)
    live = LiveNetwork(SaftClassifier(**tiny_settings | changes | {"epochs": 1}).fit(network))
    known = [Interaction(str(network.user_ids[n]), str(network.item_ids[n]), str(network.texts[n])) for n in range(9)]
    rows = [
        *known,
        Interaction("new", "new", "x"),
        Interaction("new", known[0].item, ""),
        Interaction("n", "n", "y " * 80),
    ]
    expected = [prediction.probabilities for one in rows for prediction in live.predict([one])]
    use_onnx(live, tmp_path / "model.onnx")
    calls = []
    session = live.predictor.session
    live.use_session(lambda batch: calls.append(len(batch.rows)) or session(batch))
    alone = [prediction.probabilities for one in rows for prediction in live.predict([one])]
    np.testing.assert_allclose(alone, expected, atol=1e-4)
    batched = [prediction.probabilities for prediction in live.predict(rows)]
    np.testing.assert_allclose(batched, expected, atol=1e-4)
    assert calls == [1] * len(rows) + [len(rows)]

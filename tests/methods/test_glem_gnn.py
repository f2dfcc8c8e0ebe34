"""GLEM's graph branch: it predicts from the vectors of the language model that it was trained with."""

import numpy as np
import torch

import saft
from saft.learning.prediction import represent
from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.metrics import softmax


def test_its_prediction_is_the_convolution_of_the_kept_language_models_vectors(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    method = (
        find("glem_gnn")
        .make(toy_settings | {"epochs": 1})
        .fit(toy.hiding(parts.test), train=parts.train, valid=parts.valid)
    )
    hidden = toy.showing(np.empty(0, np.int64))
    vectors = represent(method.assembly.model, method.assembly.loader(hidden), np.arange(len(toy)))
    with torch.inference_mode():
        logits = method.pair_.gnn(torch.from_numpy(vectors), LineGraph.of(toy), torch.from_numpy(parts.test))
    np.testing.assert_allclose(method.predict_proba(hidden, parts.test), softmax(logits.numpy()), atol=1e-6)

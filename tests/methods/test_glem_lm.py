"""GLEM: how gold and pseudo-labels are mixed, and what is kept.

Covers: methods._glem.
"""

import numpy as np
import torch

import saft
from saft.learning.objective import loss_of
from saft.methods import find
from saft.methods._glem import LM_TRUST, TEMPERATURE, one_hot, pseudo_labelled
from saft.metrics import softmax


def test_the_loss_is_that_of_labels_and_that_of_pseudo_labels_by_their_shares(toy, toy_settings):
    rng = np.random.default_rng(0)
    method = find("glem_lm").make(toy_settings)
    method.train = np.arange(60)
    gold = one_hot(toy.showing(method.train).labels, 2)
    teacher, student = rng.normal(size=(len(toy), 2)), torch.tensor(rng.normal(size=(len(toy), 2)))
    rows, targets = method._mixed(gold, teacher, LM_TRUST)
    found = loss_of(student[rows], torch.tensor(targets[rows]).double(), "cross_entropy")
    logs = torch.log_softmax(student, dim=1)
    confident = pseudo_labelled(softmax(teacher, TEMPERATURE), method.train)
    of_labels = -np.mean([logs[e, toy.labels[e]] for e in method.train])
    soft = softmax(teacher, TEMPERATURE)
    of_teacher = -np.mean([sum(soft[e, c] * float(logs[e, c]) for c in range(2)) for e in confident])
    assert abs(float(found) - ((1 - LM_TRUST) * of_labels + LM_TRUST * of_teacher)) < 1e-6
    assert set(rows) == set(method.train) | set(confident)


def test_pseudo_labels_are_the_most_confident_and_never_of_training_rows():
    probabilities = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [1.0, 0.0], [0.45, 0.55], [0.3, 0.7]])
    assert pseudo_labelled(probabilities, np.array([0, 4, 5])).tolist() == [1, 2, 6]  # no more than there are labels
    assert pseudo_labelled(probabilities, np.array([0, 1, 2, 3])).tolist() == [4, 6]  # four fifths of three


def test_the_better_of_before_and_after_is_kept_by_validation(toy, toy_settings):
    parts = saft.split(toy, seed=0)
    method, recorded = find("glem_lm").make(toy_settings | {"epochs": 1}), []
    rounds = method._rounds

    def recording():
        for pair in rounds():
            recorded.append(pair)
            yield pair

    method._rounds = recording
    method.fit(toy.hiding(parts.test), train=parts.train, valid=parts.valid)
    assert len(recorded) == 2
    assert method.pair_.language_score == max(pair.language_score for pair in recorded)

"""What training minimises."""

import numpy as np
import torch

from saft.learning.objective import class_weights, loss_of


def test_losses_are_their_formulas_written_out():
    generator = torch.Generator().manual_seed(0)
    logits, targets = torch.randn(6, 3, generator=generator), torch.tensor([0, 1, 2, 2, 1, 0])
    p = torch.softmax(logits.double(), dim=1)
    entropy = [-torch.log(p[e, targets[e]]) for e in range(6)]
    paper = [
        -sum(torch.log(p[e, k]) if k == targets[e] else torch.log(1 - p[e, k]) for k in range(3)) for e in range(6)
    ]
    focal = [-((1 - p[e, targets[e]]) ** 2) * torch.log(p[e, targets[e]]) for e in range(6)]
    class_weight = torch.tensor([1.0, 2.0, 0.5])
    for kind, losses in (("cross_entropy", entropy), ("paper", paper), ("focal", focal)):
        expected = torch.stack(losses)
        torch.testing.assert_close(loss_of(logits, targets, kind).double(), expected.mean(), atol=1e-6, rtol=1e-5)
        weighed = (expected * class_weight[targets]).sum() / class_weight[targets].sum()
        got = loss_of(logits, targets, kind, class_weight).double()
        torch.testing.assert_close(got, weighed, atol=1e-6, rtol=1e-5)


def test_the_papers_loss_stays_finite_when_the_model_is_certain_and_wrong():
    assert torch.isfinite(loss_of(torch.tensor([[500.0, -500.0]]), torch.tensor([1]), "paper"))


def test_class_weights_make_classes_count_alike():
    counted = class_weights(np.array([0, 0, 0, 1, -100]), 2)
    torch.testing.assert_close(counted * torch.tensor([3.0, 1.0]), torch.tensor([2.0, 2.0]))

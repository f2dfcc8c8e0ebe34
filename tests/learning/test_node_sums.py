"""Sums over nodes: equal to what rows give one by one, whatever is replaced, added or stored.

Covers: learning.node_sums, online.live_sums.
"""

import numpy as np
import pytest
import torch

import saft
from saft.classifier.estimator import SaftClassifier
from saft.data.network import HIDDEN
from saft.learning.node_sums import NodeSums
from saft.learning.prediction import predict_logits
from saft.online.live import Interaction, LiveNetwork
from tests.learning.recorder import Recorder

N = 240
SHAPE = 2, 2, 3  # layers, sides, width


@pytest.fixture(scope="module")
def tiny_settings(tiny_settings):
    return tiny_settings | {"messages": "lga", "neighbours": 0}


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture(scope="module")
def classifier(network, tiny_settings):
    """With random weights behind the message states, so that messages matter; the states do not depend on these."""
    parts = saft.split(network)
    classifier = SaftClassifier(**tiny_settings).fit(network, train=parts.train, valid=parts.valid)
    model, drawn = classifier.model_, torch.Generator().manual_seed(0)
    for weight in (model.head.weight, model.label_states.weight, *(layer.out.weight for layer in model.layers)):
        torch.nn.init.normal_(weight, std=0.2, generator=drawn)
    with torch.no_grad():
        model.label_states.weight[-1] = 0  # of interactions without a label, as in training
    return classifier


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def some_sums(rng, n_rows=60, n_nodes=7):
    nodes = {side: rng.integers(n_nodes, size=n_rows) for side in ("user", "item")}
    return NodeSums.for_training(nodes, dict.fromkeys(nodes, n_nodes), SHAPE)


def others_one_by_one(sums, states, row):
    """Σ of the states of other rows of the same node, per side; and how many these are."""
    total, count = np.zeros(SHAPE), np.zeros(2)
    for place, side in enumerate(("user", "item")):
        for other, state in states.items():
            if other != row and sums.nodes[side][other] == sums.nodes[side][row]:
                total[:, place] += state[:, place]
                count[place] += 1
    return total, count


def test_after_a_million_random_updates_the_sums_are_those_of_the_last_states(rng):
    sums = some_sums(rng, 400)
    states = {}
    for _ in range(5_000):
        rows = rng.permutation(400)[:200]
        new = torch.from_numpy(rng.normal(size=(200, *SHAPE)))
        sums.store(rows, new)
        states.update(zip(rows.tolist(), new.half().double().numpy(), strict=True))
    heard, counts, counted = sums.of_others(np.arange(400))
    assert not counted.any()
    for row in range(0, 400, 20):
        total, count = others_one_by_one(sums, states, row)
        np.testing.assert_allclose(heard[row], total, atol=2e-3)
        np.testing.assert_array_equal(counts[row], count)


def test_a_row_that_has_no_state_yet_is_not_counted(rng):
    sums = some_sums(rng)
    states = torch.from_numpy(rng.normal(size=(10, *SHAPE)))
    sums.store(np.arange(10), states)
    known = dict(enumerate(states.half().double().numpy()))
    heard, counts, _ = sums.of_others(np.arange(60))
    for row in (3, 40):
        total, count = others_one_by_one(sums, known, row)
        np.testing.assert_allclose(heard[row], total, atol=1e-5)
        np.testing.assert_array_equal(counts[row], count)


def test_after_training_the_own_state_is_left_in_the_sums_for_the_model_to_take_out(rng):
    sums = some_sums(rng)
    stale = sums.to_renew(np.zeros(60, bool))
    states = torch.from_numpy(rng.normal(size=(60, *SHAPE)))
    sums.store(stale, states)
    heard, counts, counted = sums.of_others(np.arange(60))
    assert sums.rows is None
    assert counted.all()
    total, count = others_one_by_one(sums, dict(enumerate(states.numpy())), 5)
    np.testing.assert_allclose(heard[5].double() - states[5], total, atol=1e-5)
    np.testing.assert_array_equal(counts[5], count)


def test_an_extension_has_new_rows_of_old_and_new_nodes_and_leaves_the_sums_as_they_are(rng):
    sums = some_sums(rng)
    sums.store(sums.to_renew(np.zeros(60, bool)), torch.from_numpy(rng.normal(size=(60, *SHAPE))))
    before = {side: of.sums.clone() for side, of in sums.sides.items()}
    users, items = np.append(sums.nodes["user"], [2, 7, 7]), np.append(sums.nodes["item"], [7, 3, 7])
    longer = sums.extended(users, items)
    new = torch.from_numpy(rng.normal(size=(3, *SHAPE)))
    longer.store(np.array([60, 61, 62]), new)
    heard, counts, _ = longer.of_others(np.array([61, 62]))
    np.testing.assert_allclose(heard[0][:, 0].double(), (new[1] + new[2])[:, 0], atol=1e-5)
    np.testing.assert_allclose(heard[1][:, 1].double(), (new[0] + new[2])[:, 1], atol=1e-5)
    assert counts[:, 0].tolist() == [1, 1]
    assert counts[0, 1] == np.sum(sums.nodes["item"] == 3)
    assert all(torch.equal(before[side], of.sums) for side, of in sums.sides.items())


def test_predictions_from_sums_are_those_of_all_neighbours_read_in_one_batch(classifier, network):
    sums = classifier.assembly_.loader()
    literal = SaftClassifier(**classifier.settings.changed(full_batch=True).as_dict())
    assert classifier.settings.sums_states
    assert not literal.settings.sums_states
    assembly = classifier.assembly_
    whole = type(sums)(
        sums.features, sums.labels, sums.n_classes, literal.settings,
        frozen=None if assembly.layers is None else assembly.layers.states(sums.features.tokens), trees=sums.trees,
    )  # fmt: skip
    rows = np.flatnonzero(sums.labels == HIDDEN)
    found = predict_logits(classifier.model_, sums, rows)
    np.testing.assert_allclose(found, predict_logits(classifier.model_, whole, rows), atol=2e-5)
    isolated = type(sums)(
        sums.features, sums.labels, sums.n_classes, classifier.settings, sums.cache, isolated=True,
        frozen=None if assembly.layers is None else assembly.layers.states(sums.features.tokens), trees=sums.trees,
    )  # fmt: skip
    assert np.abs(found - predict_logits(classifier.model_, isolated, rows)).max() > 1e-3  # they are heard at all


def test_labels_that_a_pass_hides_do_not_reach_its_rows_through_sums(classifier):
    assembly = classifier.assembly_
    loader = assembly.loader()
    fold = 2
    rows = np.flatnonzero((loader.labels != HIDDEN) & (loader.features.folds == fold))
    flipped = assembly.network.labels.copy()
    flipped[rows] = (flipped[rows] + 1) % loader.n_classes
    others = type(loader)(
        loader.features, flipped, loader.n_classes, loader.settings, loader.cache, frozen=loader.texts, trees=None
    )
    same = type(loader)(
        loader.features, loader.labels, loader.n_classes, loader.settings, loader.cache, frozen=loader.texts, trees=None
    )
    for before, after in zip(same.prediction_passes(rows), others.prediction_passes(rows), strict=True):
        for one, two in zip(before.batches, after.batches, strict=True):
            heard, still = same.batch(one, before).heard, others.batch(two, after).heard
            assert heard.labels.any()
            assert torch.equal(heard.labels, still.labels)
            assert torch.equal(heard.sums, still.sums)


def test_a_training_that_was_interrupted_ends_with_the_same_sums(network, tiny_settings, tmp_path):
    parts, settings = saft.split(network), tiny_settings | {"epochs": 2}
    rows = {"train": parts.train, "valid": parts.valid}
    straight = SaftClassifier(**settings).fit(network, **rows)
    path = tmp_path / "checkpoint"
    SaftClassifier(**settings).fit(network, **rows, checkpoint=path, checkpoint_seconds=0, callbacks=[Recorder(7)])
    resumed = SaftClassifier(**settings).fit(network, **rows, checkpoint=path)
    for side, sums in straight.assembly_.cache.sides.items():
        assert torch.equal(sums.sums, resumed.assembly_.cache.sides[side].sums)


def test_a_saved_model_holds_sums_of_nodes_and_nothing_of_rows(classifier, network, tmp_path):
    classifier.save(tmp_path / "model")
    loaded = saft.load(tmp_path / "model")
    assert (tmp_path / "model" / "node_sums.safetensors").is_file()
    assert not (tmp_path / "model" / "neighbour_cache.safetensors").exists()
    assert loaded.assembly_.cache.rows is None
    rows = network.take(np.arange(0, N, 7))
    np.testing.assert_allclose(loaded.predict_proba(rows), classifier.predict_proba(rows), atol=1e-6)


def test_a_live_network_hears_what_was_added_as_a_joined_network_does(classifier, network):
    live = LiveNetwork(classifier)
    user, item = str(network.user_ids[0]), str(network.item_ids[1])
    added = [
        Interaction(user, item, "arrived late and broken"),
        Interaction("somebody new", item, "works as it should"),
    ]
    live.add(added)
    asked = Interaction(user, item, "would buy it again")
    of_user = int(np.flatnonzero(network.users == 0)[0])
    rows = [{"user": one.user, "item": one.item, "text": one.text} for one in [*added, live.interaction(of_user)]]
    joined = classifier.predict_proba(saft.read(rows, labelled=False))
    known = live.probabilities([live.ego_graph_of(of_user)])[0]
    np.testing.assert_allclose(known, joined[-1], atol=1e-3)
    rows[-1] = {"user": asked.user, "item": asked.item, "text": asked.text}
    joined = classifier.predict_proba(saft.read(rows, labelled=False))
    np.testing.assert_allclose(live.predict([asked])[0].probabilities, joined[-1], atol=1e-3)


def test_an_explanation_takes_one_neighbour_out_of_the_sums(classifier, network):
    live = LiveNetwork(classifier)
    ego = live.ego_graph_of(4)
    neighbour = int(live.evidence.most_alike(4, ego.codes, ego.read, 1)[0])
    state = torch.from_numpy(live.message_states([live.interaction(neighbour)])[0]).float()
    sides = [name for name, side in live.sides.items() if side.nodes.values[neighbour] == ego.codes[name]]
    without = ego.heard.without(state, sides)
    rest = np.delete(np.arange(N), [4, neighbour])
    own = torch.from_numpy(live.message_states([live.interaction(4)])[0]).float()
    for place, (name, side) in enumerate(live.sides.items()):
        same = [row for row in rest if side.nodes.values[row] == ego.codes[name]]
        states = live.message_states([live.interaction(int(row)) for row in same]).astype(np.float32)
        total = states[:, :, place].sum(axis=0) if same else np.zeros_like(own[:, place])
        np.testing.assert_allclose(without.sums[:, place] - own[:, place], total, atol=0.05)
        assert without.counts[place] == len(same)
    assert saft.explain(live, 4).neighbours


def test_a_disk_without_room_for_the_states_of_rows_is_told_in_a_sentence(monkeypatch, rng):
    def full(descriptor, start, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("saft.learning.node_sums.os.posix_fallocate", full)
    with pytest.raises(saft.InputError, match=r"No space left on device\. Free some, .* messages='content'"):
        some_sums(rng)

"""SaftClassifier through its public methods: fit, predict, score, embed, save, load; new users and items; bad input.

Covers: classifier.assembly, classifier.fitting, learning.prediction.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import saft
from saft import SaftClassifier
from saft.classifier.assembly import Assembly
from saft.classifier.estimator import known_rows
from saft.classifier.storage import CHECKPOINT
from saft.features.regression import fit_groups
from saft.features.trees import tree_columns
from saft.learning.prediction import predict_logits
from saft.online.live import Interaction, LiveNetwork
from saft.settings import NODES, WORDS_ALONE, Settings
from saft.writing import replacing

N = 400


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(N)


@pytest.fixture(scope="module")
def parts(network):
    return saft.split(network)


@pytest.fixture(scope="module")
def fitted(network, parts, tiny_settings):
    classifier = SaftClassifier(**tiny_settings).fit(network.hiding(parts.test), train=parts.train, valid=parts.valid)
    assert classifier.report().best_epoch > 0
    return classifier


NEW = [
    {"user": "somebody new", "item": "something new", "text": "lovely"},
    {"user": "somebody new", "item": "another", "text": "it broke"},
]


def test_predict_gives_the_rows_as_they_came_with_prediction_and_probabilities(network, parts, fitted):
    rows = network.take(parts.test)
    table = fitted.predict(rows)
    assert table.select(rows.to_frame().columns).equals(rows.to_frame())
    names = [f"probability_{name}" for name in fitted.classes_]
    assert table.columns == [*rows.to_frame().columns, "prediction", *names]
    probabilities = table.select(names).to_numpy()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(probabilities, fitted.predict_proba(rows), atol=1e-6)
    assert table["prediction"].to_list() == [fitted.classes_[int(place)] for place in probabilities.argmax(axis=1)]


@pytest.mark.parametrize("changes", [{}, {"ngrams": False}, {"labels": False}, {"fusion": "none"}])
def test_the_start_is_the_best_that_side_features_give_alone(network, parts, tiny_settings, changes):
    settings = Settings.of(tiny_settings | {"trees": False} | changes)
    assembly = Assembly.fresh(settings, network.showing(parts.train))
    loader, rows = assembly.loader(), np.sort(parts.train)
    solved = fit_groups(
        loader.side_features[rows],
        loader.evidence.groups(),
        loader.evidence.blocks(),
        network.labels[rows],
        network.n_classes,
        loader.features.folds[rows],
    ).weights
    expected = loader.side_features @ solved[:-1] + solved[-1]
    np.testing.assert_allclose(assembly.start(parts.test).logits, expected[parts.test], atol=0.02)


def test_trees_count_as_much_as_held_out_rows_say_and_the_regression_the_rest(tiny_settings):
    network = saft.demo_network(900)
    train = np.arange(700)
    assembly = Assembly.fresh(Settings.of(tiny_settings | {"encoder": "none"}), network.showing(train))
    without = Assembly.fresh(Settings.of(tiny_settings | {"encoder": "none", "trees": False}), network.showing(train))
    assert assembly.trees is not None
    rows, loader = np.arange(700, 900), assembly.loader()
    said = assembly.trees.log_odds(tree_columns(loader.evidence, loader.features.structure), loader.evidence.views)
    weight = float(assembly.start_weights[-2, -1])  # of what the trees say of a class, for that class
    assert 0 < weight <= 1
    expected = (1 - weight) * without.start(rows).logits + weight * said[rows]
    np.testing.assert_allclose(assembly.start(rows).logits, expected, atol=1e-4)


def test_before_training_the_head_gives_the_best_that_known_labels_give_alone(network, parts, tiny_settings):
    assembly = Assembly.fresh(Settings.of(tiny_settings), network.showing(parts.train))
    labels_only = Settings.of(tiny_settings | WORDS_ALONE | {"fusion": "none"})
    alone = Assembly.fresh(labels_only, network.showing(parts.train)).start(parts.test)
    assert alone.is_head
    assert not assembly.start(parts.test).is_head
    found = predict_logits(assembly.model.eval(), assembly.loader(), parts.test)
    np.testing.assert_allclose(found, alone.logits, atol=1e-4)


def test_hidden_test_labels_do_not_matter(network, parts, fitted, tiny_settings):
    labels = network.labels.copy()
    labels[parts.test] = (labels[parts.test] + 1) % 3
    flipped = replace(network, labels=labels)
    other = SaftClassifier(**tiny_settings).fit(
        flipped, train=parts.train, valid=parts.valid
    )  # not even hidden beforehand
    np.testing.assert_array_equal(
        other.predict_proba(flipped.take(parts.test)), fitted.predict_proba(network.take(parts.test))
    )


def test_validation_labels_do_not_reach_the_features(network, parts, fitted, tiny_settings):
    labels = network.labels.copy()
    labels[parts.valid] = (labels[parts.valid] + 1) % 3
    other = SaftClassifier(**tiny_settings).fit(replace(network, labels=labels), train=parts.train, valid=parts.valid)
    np.testing.assert_array_equal(other.assembly_.features.log_odds, fitted.assembly_.features.log_odds)
    assert (other.network_.labels[parts.valid] == labels[parts.valid]).all()  # visible to neighbours, afterwards


def test_the_label_of_a_row_does_not_reach_its_own_prediction(network, parts, fitted, tmp_path):
    """For rows of training, and for rows that come with a label."""
    fitted.save(tmp_path / "model")
    rows = parts.train[:40]
    before = fitted.predict_proba(network.take(rows))
    for row, probabilities in zip(rows[:3], before[:3], strict=True):
        interactions = tmp_path / "model" / "interactions.parquet"
        table = pl.read_parquet(interactions)
        changed = table.with_columns(
            label=pl.when(pl.int_range(pl.len()) == int(row)).then((pl.col("label") + 1) % 3).otherwise("label")
        )
        changed.write_parquet(interactions)
        facts = json.loads((tmp_path / "model" / "model.json").read_text())
        facts["files"].pop("interactions.parquet", None)
        (tmp_path / "model" / "model.json").write_text(json.dumps(facts))
        other = SaftClassifier.load(tmp_path / "model").predict_proba(network.take(rows))
        place = rows.tolist().index(row)
        np.testing.assert_array_equal(other[place], probabilities)
        assert (other != before).any()  # but those of its neighbours
        table.write_parquet(interactions)


def test_new_users_and_items_are_predicted_without_training_again(network, fitted):
    before = fitted.predict_proba(network.take(np.arange(20)))
    table = fitted.predict(NEW)
    assert table.height == 2
    assert table["user"].to_list() == ["somebody new"] * 2
    alone = fitted.predict(NEW[:1])
    assert alone["probability_spam"][0] != table["probability_spam"][0]  # new rows are neighbours to each other
    np.testing.assert_array_equal(fitted.predict_proba(network.take(np.arange(20))), before)  # nothing was kept


def test_the_prediction_of_a_new_interaction_depends_on_its_neighbours(network, fitted):
    spammer = int(np.bincount(network.users[network.labels == 1]).argmax())
    row = {"item": network.item_ids[0], "text": "lovely"}
    known = fitted.predict_proba([row | {"user": network.user_ids[spammer]}])
    assert (known != fitted.predict_proba([row | {"user": "nobody"}])).any()


def test_a_prediction_does_not_depend_on_which_other_rows_are_predicted(network, parts, fitted):
    batched = fitted.predict_proba(network.take(parts.test))
    for row in parts.test[:5]:
        alone = fitted.predict_proba(network.take(np.array([row])))
        np.testing.assert_allclose(alone[0], batched[parts.test.tolist().index(row)], atol=1e-5)


def test_known_rows_are_recognised_by_user_item_and_text(network):
    rows = network.take(np.array([7, 3, 7]))
    numbers, new = known_rows(network, rows)
    assert numbers[:2].tolist() == [7, 3]
    assert new.tolist() == [False, False, True]  # it is there once only
    other = saft.read([{"user": network.user_ids[0], "item": "x", "text": "y"}], labelled=False)
    assert known_rows(network, other)[1].tolist() == [True]


def test_evaluate_and_score_hide_the_labels_and_agree_with_scikit_learn(network, parts, fitted):
    from sklearn.metrics import f1_score

    rows = network.take(parts.test)
    predicted = fitted.predict_proba(rows).argmax(axis=1)
    scores = fitted.evaluate(rows)
    labels = network.labels[parts.test]
    assert scores.macro_f1 == pytest.approx(f1_score(labels, predicted, average="macro", zero_division=0))
    assert fitted.score(rows) == scores.macro_f1
    assert scores.micro_f1 == pytest.approx((labels == predicted).mean())


def test_embed_gives_the_proxy_beside_the_mean_of_the_words(network, fitted):
    vectors = fitted.embed(network.take(np.arange(9)))
    assert vectors.shape == (9, 64)  # proxy and mean of words, 32 each
    assert np.isfinite(vectors).all()


def test_the_report_states_the_calibration_before_and_after(fitted):
    report = fitted.report()
    assert report.temperature == fitted.temperature_ > 0
    text = str(report)
    assert f"{report.calibration_error_before:.1%} before" in text
    assert f"{report.calibration_error_after:.1%} after" in text


def test_what_is_loaded_predicts_as_what_was_saved(network, parts, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = saft.load(tmp_path / "model")
    for rows in (network.take(parts.test), NEW):
        np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.settings == fitted.settings
    assert again.report() == fitted.report()
    assert again.classes_.to_list() == fitted.classes_.to_list()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_no_test_label_and_no_pickle_is_in_the_saved_folder(network, parts, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    stored = pl.read_parquet(tmp_path / "model" / "interactions.parquet")["label"].to_numpy()
    assert (stored[parts.test] == -100).all()
    assert (stored[parts.valid] == network.labels[parts.valid]).all()
    assert {path.suffix for path in (tmp_path / "model").rglob("*.*")} <= {".json", ".safetensors", ".parquet"}


@pytest.mark.parametrize("changes", [
    {"fusion": "none", "labels": False}, {"words": False}, {"cache_neighbours": False, "messages": "gau"},
    {"nodes": "trained"}, {"full_batch": True}, {"trained_layers": 3},
    {"distance": "none", "centrality": "none", "readout": "gated"}, {"sampling": "centrality", "centrality": "sketch"},
])  # fmt: skip
def test_every_variant_trains_saves_loads_and_predicts_new_rows(network, tiny_settings, tmp_path, changes):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 1} | changes).fit(network)
    classifier.save(tmp_path / "model")
    rows = [*NEW, {"user": network.user_ids[0], "item": network.item_ids[0], "text": "again"}]
    np.testing.assert_array_equal(saft.load(tmp_path / "model").predict_proba(rows), classifier.predict_proba(rows))


def test_label_types_survive(tiny_settings, tmp_path, network):
    frame = network.to_frame()
    for dtype, values in ((pl.Int64, [3, 5, 9]), (pl.Boolean, [True, False, False]), (pl.Float64, [0.5, 1.5, 2.0])):
        labels = pl.Series("label", [values[code] for code in network.labels], dtype=dtype)
        classifier = SaftClassifier(**tiny_settings | {"epochs": 1}).fit(frame.with_columns(labels))
        classifier.save(tmp_path / str(dtype))
        table = saft.load(tmp_path / str(dtype)).predict(frame.drop("label")[:5])
        assert table["prediction"].dtype == dtype


def test_learning_from_the_words_and_the_graph_works_at_all(network, tiny_settings):
    classifier = SaftClassifier(
        **tiny_settings | {"epochs": 12, "head_learning_rate": 3e-3, "learning_rate": 3e-3}
    ).fit(network)
    assert classifier.score(network) > 0.42  # a constant prediction reaches 0.27


def test_three_components_repeated_pairs_and_users_with_one_interaction_are_fine(tiny_settings):
    rows = [
        {"user": f"u{e % 4}{part}", "item": f"i{e % 3}{part}", "text": f"word {e}", "label": "ab"[e % 2]}
        for part in "xyz"
        for e in range(12)
    ]
    rows += [rows[0], {"user": "single", "item": "single", "text": "hm", "label": "a"}]
    classifier = SaftClassifier(**tiny_settings | {"batch_size": 8}).fit(rows)
    assert np.isfinite(classifier.predict_proba(rows)).all()


def test_a_network_with_one_labelled_interaction_of_each_class_trains(tiny_settings):
    rows = [
        {"user": "u", "item": "i", "text": "x", "label": "a"},
        {"user": "v", "item": "j", "text": "y", "label": "b"},
    ]
    classifier = SaftClassifier(**tiny_settings).fit(rows)
    assert classifier.predict(rows).height == 2


def test_bad_input_is_refused_with_a_sentence(network, fitted, tmp_path, tiny_settings):
    with pytest.raises(saft.InputError, match=r"has no setting 'epoch'\. Did you mean 'epochs'"):
        SaftClassifier(epoch=3)
    with pytest.raises(saft.InputError, match="has not been trained"):
        SaftClassifier().predict(network)
    with pytest.raises(saft.InputError, match="one class only"):
        SaftClassifier().fit([{"user": "u", "item": "i", "text": "x", "label": "a"}])
    with pytest.raises(saft.InputError, match="has 'fraud' in row 1"):
        fitted.score([{"user": "u", "item": "i", "text": "x", "label": "fraud"}])
    with pytest.raises(saft.InputError, match="none of these rows has a label"):
        fitted.score(NEW)
    with pytest.raises(saft.InputError, match="reads at most 64 tokens"):
        SaftClassifier(**tiny_settings | {"max_length": 65}).fit(network)
    with pytest.raises(saft.InputError, match="no encoder"):
        SaftClassifier(encoder=str(tmp_path)).fit(network)
    assert not any(tmp_path.iterdir())


def test_predict_takes_rows_with_a_label_that_is_no_class_of_training(fitted):
    assert fitted.predict([{"user": "u", "item": "i", "text": "x", "label": "fraud"}]).height == 1


def test_an_older_prediction_is_replaced_with_a_note(network, fitted):
    table = fitted.predict(network.take(np.arange(3)))
    with pytest.warns(saft.InputWarning, match="prediction, probability_genuine"):
        assert fitted.predict(table).columns == table.columns


def test_incomplete_mixed_up_and_newer_model_folders_are_refused(fitted, tmp_path):
    folder = tmp_path / "model"
    with pytest.raises(saft.InputError, match="There is no model folder"):
        saft.load(folder)
    fitted.save(folder)
    for name in ("weights.safetensors", "users.parquet", "encoder/tokenizer.json"):
        shutil.copytree(folder, tmp_path / "broken", dirs_exist_ok=True)
        (tmp_path / "broken" / name).unlink()
        with pytest.raises(saft.InputError, match=f"is incomplete: {name} is missing"):
            saft.load(tmp_path / "broken")
        shutil.copy(folder / "model.json", tmp_path / "broken" / name)
        with pytest.raises(saft.InputError, match="is not the file that was saved"):
            saft.load(tmp_path / "broken")
        shutil.rmtree(tmp_path / "broken")
    facts = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(facts | {"format": 99, "saft": "9.0"}))
    with pytest.raises(saft.InputError, match=r"saft 9.0 in a newer format \(99\).*Update saft"):
        saft.load(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(saft.InputError, match="is damaged"):
        saft.load(folder)
    (folder / "model.json").unlink()
    with pytest.raises(saft.InputError, match="holds no model"):
        saft.load(folder)


def test_a_half_written_checkpoint_of_a_killed_training_does_not_prevent_saving(fitted, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    with replacing(folder / CHECKPOINT) as left:
        pass
    (folder / CHECKPOINT).rename(left)  # as if the writer had been killed before its last step
    fitted.save(folder)
    assert not left.exists()
    assert saft.load(folder).settings == fitted.settings


def test_saving_replaces_a_model_but_nothing_else(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(saft.InputError, match="holds something else"):
        fitted.save(tmp_path / "other")
    with pytest.raises(saft.InputError, match="is a file"):
        fitted.save(tmp_path / "other" / "letter.txt")

    def fails(folder):
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        fitted.save(tmp_path / "new", also=fails)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "other"]
    assert (tmp_path / "other" / "letter.txt").read_text() == "mine"


def test_a_model_that_cannot_be_replaced_stays_where_it_was(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    before = (tmp_path / "model" / "model.json").read_text()
    rename = Path.rename

    def full(path, target):
        if path.name == "new":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(saft.InputError, match="No space left on device"):
        fitted.save(tmp_path / "model")
    assert (tmp_path / "model" / "model.json").read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_settings_can_be_read_and_changed_as_in_scikit_learn():
    classifier = SaftClassifier(rounds=3)
    assert classifier.get_params()["rounds"] == 3
    assert classifier.set_params(rounds=1).settings.rounds == 1
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("nodes", NODES)
def test_the_name_of_an_unknown_user_or_item_does_not_change_a_prediction(network, tiny_settings, nodes):
    classifier = SaftClassifier(**tiny_settings | {"nodes": nodes, "seed": 0}).fit(network)
    known_user, known_item = str(network.user_ids[0]), str(network.item_ids[0])
    names = [f"invented {number}" for number in range(40)]
    for rows in (
        [{"user": name, "item": known_item, "text": "lovely lamp, broke at once"} for name in names],
        [{"user": known_user, "item": name, "text": "lovely lamp, broke at once"} for name in names],
        [{"user": name, "item": name, "text": "lovely lamp, broke at once"} for name in names],
    ):
        alone = np.concatenate([classifier.predict_proba([row]) for row in rows])
        np.testing.assert_allclose(alone, alone[:1].repeat(len(rows), axis=0), atol=1e-6)
        served = [
            found.probabilities for found in LiveNetwork(classifier).predict([Interaction(**row) for row in rows])
        ]
        np.testing.assert_allclose(served, alone, atol=1e-6)


def test_a_second_positional_argument_of_fit_is_an_error_that_says_what_to_write(network, tiny_settings):
    with pytest.raises(saft.InputError, match="fit\\(network, train=rows, valid=rows\\)"):
        SaftClassifier(**tiny_settings).fit(network, np.arange(10))

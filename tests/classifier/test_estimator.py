"""SaftClassifier through its public methods: fit, predict, score, embed; new users and items; bad input.

Covers: classifier.fitting, learning.prediction.
"""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

import saft
from saft import SaftClassifier
from saft.classifier.estimator import known_rows
from saft.hashing import file_digest
from saft.online.live import Interaction, LiveNetwork
from saft.settings import NODES

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
        facts["files"]["interactions.parquet"] = file_digest(interactions)
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

"""Predictions of ONNX Runtime are those of torch, and nothing of the encoder is left to torch.

Covers: server.loading.
"""

import shutil

import numpy as np
import pytest

import saft
from saft import SaftClassifier
from saft.model.encoder import TextEncoder
from saft.online.live import Interaction, LiveNetwork
from saft.server import onnx_session
from saft.server.loading import service_loader
from saft.server.onnx_session import is_installed, remove_outdated, use_onnx
from saft.settings import TEXT_ONLY

pytestmark = pytest.mark.skipif(not is_installed(), reason='needs the extra "onnx"')
N = 200
WAITING = np.arange(180, N)  # rows without a label
TRAINED, FROZEN = "model.onnx", "model.frozen.onnx"


def network() -> saft.TextualInteractionNetwork:
    return saft.demo_network(N).hiding(WAITING)


def asked() -> list[Interaction]:
    """Known and new users and items, short and long texts."""
    rows = network()
    known = [
        Interaction(str(rows.user_ids[user]), str(rows.item_ids[item]), f"indeed {text}")
        for user, item, text in zip(rows.users.tolist(), rows.items.tolist(), rows.texts, strict=True)
    ]
    new = [Interaction("new", "new", "x"), Interaction("new", known[0].item, ""), Interaction("n", "n", "y " * 80)]
    return known[:9] + new


def refuse_torch(monkeypatch) -> None:
    def failing(*given, **named):
        raise AssertionError("torch runs the encoder")

    for name in ("embed", "run_layer", "forward"):
        monkeypatch.setattr(TextEncoder, name, failing)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "files"),
    [
        ({}, {TRAINED, FROZEN}),
        ({"trained_layers": 0}, {FROZEN}),
        ({"encoder": "none"}, set()),
        pytest.param({"trained_layers": 3}, {TRAINED}, marks=pytest.mark.long),
        pytest.param({"labels": False, "ngrams": False, "messages": "gau"}, {TRAINED, FROZEN}, marks=pytest.mark.long),
        pytest.param(TEXT_ONLY, {TRAINED, FROZEN}, marks=pytest.mark.long),
    ],
)
def test_predictions_are_those_of_torch(tiny_settings, tmp_path, monkeypatch, changes, files):
    classifier = SaftClassifier(**tiny_settings | changes | {"epochs": 1}).fit(network())
    waiting = classifier.predict_proba(network().take(WAITING))
    live = LiveNetwork(classifier)
    rows = asked()
    expected = [prediction.probabilities for one in rows for prediction in live.predict([one])]
    live = LiveNetwork(classifier)  # one that remembers nothing
    use_onnx(live, tmp_path / TRAINED)
    assert {path.name for path in tmp_path.iterdir()} == files
    refuse_torch(monkeypatch)
    alone = [prediction.probabilities for one in rows for prediction in live.predict([one])]
    np.testing.assert_allclose(alone, expected, atol=1e-4)
    batched = [prediction.probabilities for prediction in live.predict(rows)]
    np.testing.assert_allclose(batched, expected, atol=1e-4)
    known = live.probabilities([live.ego_graph_of(number) for number in WAITING.tolist()])
    np.testing.assert_allclose(known, waiting, atol=1e-4)


def test_texts_that_are_asked_together_are_one_call_of_each_session(tiny_settings):
    live = LiveNetwork(SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network()))
    read, calls = live.layers.read, []
    live.use_session(
        lambda batch: calls.append(("trained", len(batch.rows))) or live.model(batch),
        lambda tokens, mask: calls.append(("frozen", len(tokens))) or read(tokens, mask),
    )
    rows = asked()[:5]
    live.predict(rows)
    assert calls == [("frozen", 5), ("trained", 5)]
    live.predict(rows)
    assert calls[2:] == [("trained", 5)]  # what frozen layers say of a text is remembered


def test_the_classifier_itself_keeps_to_torch(tiny_settings):
    classifier = SaftClassifier(**tiny_settings | {"epochs": 0}).fit(network())
    live = LiveNetwork(classifier)
    live.use_session(None, lambda tokens, mask: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        live.predict([Interaction("new", "new", "an unheard-of text")])
    assert np.isfinite(classifier.predict_proba([{"user": "new", "item": "new", "text": "an unheard-of text"}])).all()


def write_marked(path) -> None:
    """An export as far as cleaning up is concerned."""
    import onnx

    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    model.metadata_props.add(key=onnx_session.MARK, value=path.name)
    onnx.save(model, str(path))


@pytest.fixture
def exports(monkeypatch) -> list[str]:
    """Names of exported files, which are empty here: what becomes of them is tested, not what is in them."""
    found = []

    def exporting(what, path):
        found.append(path.name)
        write_marked(path)

    for name in ("export", "export_frozen"):
        monkeypatch.setattr(onnx_session, name, exporting)
    for name in ("OnnxSession", "OnnxLayers"):
        monkeypatch.setattr(onnx_session, name, lambda path: None)
    return found


def test_both_files_are_kept_for_the_same_model_and_replaced_together(tiny_settings, tmp_path, exports):
    for seed in (0, 1):
        SaftClassifier(**tiny_settings | {"epochs": 0, "seed": seed}).fit(network()).save(tmp_path / "model")
        before = len(exports)
        for _ in range(2):
            service_loader(tmp_path / "model", tmp_path / "kept.sqlite")().close()
        new = exports[before:]
        assert [name.split(".")[2:] for name in new] == [["frozen", "onnx"], ["onnx"]]
        assert {path.name for path in tmp_path.glob("*.onnx")} == set(new)


def test_of_a_model_without_an_encoder_nothing_is_exported(tiny_settings, tmp_path, exports):
    SaftClassifier(**tiny_settings | {"encoder": "none"}).fit(network()).save(tmp_path / "model")
    service_loader(tmp_path / "model", tmp_path / "kept.sqlite")().close()
    assert exports == []


def test_only_files_of_ours_by_name_and_by_content_are_removed(tmp_path):
    database = "kept.interactions"
    ours = [f"{database}.{name}.onnx" for name in ("0123456789ab", "0123456789ab.frozen", "abcdefabcdef")]
    others = ["kept.onnx", f"{database}.onnx", f"{database}.mine.onnx", "other.0123456789ab.onnx"]
    for name in (*ours, *others):
        write_marked(tmp_path / name)
    shutil.copy(tmp_path / ours[0], tmp_path / f"{database}.aaaaaaaaaaaa.onnx")  # another's name is in it
    (tmp_path / f"{database}.bbbbbbbbbbbb.onnx").write_text("a letter")
    (tmp_path / f"{database}.cccccccccccc.onnx").mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    remove_outdated(tmp_path / ours[2])
    assert {path.name for path in tmp_path.iterdir()} == before - set(ours[:2])


@pytest.mark.slow
def test_an_export_that_is_not_whole_or_not_of_this_model_is_made_again(tiny_settings, tmp_path, caplog):
    live = LiveNetwork(SaftClassifier(**tiny_settings | {"trained_layers": 0}).fit(network()))
    expected = [prediction.probabilities for prediction in live.predict(asked())]
    use_onnx(live, tmp_path / TRAINED)
    whole = (tmp_path / FROZEN).read_bytes()
    unmarked = b"toad".join(whole.rsplit(onnx_session.MARK.encode(), 1))
    for content in (whole[: len(whole) // 2], whole[:-40], b"a letter", unmarked):
        (tmp_path / FROZEN).write_bytes(content)
        caplog.clear()
        use_onnx(live, tmp_path / TRAINED)
        assert "is exported again" in caplog.text
        found = [prediction.probabilities for prediction in live.predict(asked())]
        np.testing.assert_allclose(found, expected, atol=1e-4)
    caplog.clear()
    use_onnx(live, tmp_path / TRAINED)
    assert caplog.text == ""

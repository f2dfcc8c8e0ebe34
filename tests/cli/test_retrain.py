"""``saft retrain`` as a person runs it: a server is reviewed on, a model is trained again and takes over.

Covers: server.loading.
"""

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

import saft
from saft.classifier.parts import read_parts
from saft.online.live import Interaction, LiveNetwork
from saft.server.service import ReviewService
from saft.server.team import Caller
from tests.cli.test_review import saft_command, sentence
from tests.server.conftest import serve, serving

KNOWN, CAME = 300, 60


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of the preset that is quickest, trained by the command."""
    folder = tmp_path_factory.mktemp("trained")
    saft.demo_network(KNOWN + CAME).take(np.arange(KNOWN)).to_frame().write_csv(folder / "table.csv")
    done = saft_command(
        "train", "table.csv", "--out", "model", "--preset", "fast", "--no-trees", "--structure-dim", 8, folder=folder
    )
    assert done.returncode == 0, done.stderr
    return folder / "model"


def came() -> list[Interaction]:
    table = saft.demo_network(KNOWN + CAME).take(np.arange(KNOWN, KNOWN + CAME)).to_frame()
    return [
        Interaction(user, item, text, time=time.isoformat())
        for user, item, text, time in table.select("user", "item", "text", "time").iter_rows()
    ]


def truth() -> list[str]:
    return saft.demo_network(KNOWN + CAME).label_values()[KNOWN:].to_list()


def judge(model, database, **changed) -> None:
    """All that came in, but for the last ten, which stay open."""
    service = serve(model, database)
    keys = service.add(came())
    for key, label in zip(keys[:-10], truth(), strict=False):
        service.reviews.judge([key], label, Caller("kim"))
    service.close()


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


@pytest.fixture
def database(model, tmp_path):
    judge(model, tmp_path / "kept.sqlite")
    return tmp_path / "kept.sqlite"


@pytest.mark.slow
def test_a_new_model_is_made_beside_the_old_one_of_everything_with_reviewers_and_times(model, database, tmp_path):
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    done = saft_command("retrain", model, "--database", database, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "60 interactions came in, 50 labels are new." in done.stderr
    assert "Result: " in done.stdout
    assert {file.name: file.read_bytes() for file in model.iterdir()} == before
    new = tmp_path / "model-2"
    parts = read_parts(new, KNOWN + CAME)
    assert parts["label"][KNOWN:-10].to_list() == truth()[:-10]
    assert set(parts["reviewer"][KNOWN:-10]) == {"kim"}
    assert parts["decided"][KNOWN:-10].null_count() == 0
    assert parts["label"][-10:].null_count() == 10
    comparison = json.loads((new / "comparison.json").read_text())
    old_test = (read_parts(model, KNOWN)["part"] == "test").sum()
    assert comparison["contests"]["held out before"]["rows"] == old_test == 30
    assert comparison["contests"]["judged since"]["rows"] == (parts["part"][KNOWN:] == "test").sum() > 5
    assert "Result: " in (new / "comparison.md").read_text()


@pytest.mark.slow
def test_the_new_model_recognises_what_came_in_and_a_second_retraining_finds_nothing_new(model, database, tmp_path):
    assert saft_command("retrain", model, "--database", database, folder=tmp_path).returncode == 0
    new = tmp_path / "model-2"
    service = ReviewService(LiveNetwork(saft.load(new)), database, "new")
    assert len(service.live) == KNOWN + CAME  # none of them twice
    found, _ = service.page(saft_filter(reviewed=True), "oldest", 100, None)
    assert [one.interaction.label for one in found] == truth()[:-10]
    service.close()
    assert "there is nothing to learn" in sentence(
        saft_command("retrain", new, "--database", database, folder=tmp_path)
    )


def saft_filter(**wanted):
    from saft.server.queue import Filter

    return Filter(**wanted)


@pytest.mark.slow
def test_a_verdict_that_is_taken_back_after_retraining_is_unlearnt_by_the_next_one(model, database, tmp_path):
    assert saft_command("retrain", model, "--database", database, folder=tmp_path).returncode == 0
    new = tmp_path / "model-2"
    service = ReviewService(LiveNetwork(saft.load(new)), database, "new")
    found, _ = service.page(saft_filter(reviewed=True), "oldest", 1, None)
    service.reviews.take_back(found[0].key, Caller("kim"))
    service.close()
    done = saft_command("retrain", new, "--database", database, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_parts(tmp_path / "model-2-2", KNOWN + CAME)["label"][KNOWN] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--out": "model"}, "is there already"),
        ({"--database": "missing.sqlite"}, "There is no database of a server"),
        ({"model": "missing"}, "There is no model folder"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_before_anything_is_written(model, database, tmp_path, change, words):
    given = {"model": model, "--database": database, **change}
    flags = [word for name, value in given.items() if name != "model" for word in (name, value)]
    before = sorted(tmp_path.rglob("*"))
    assert words in sentence(saft_command("retrain", given["model"], *flags, folder=tmp_path))
    assert [file for file in sorted(tmp_path.rglob("*")) if "sqlite" not in file.name] == [
        file for file in before if "sqlite" not in file.name
    ]


def promoted_copy(model, database, tmp_path):
    """A retrained model, ready to take the place of the one that is served."""
    done = saft_command("retrain", model, "--database", database, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path / "model-2"


class Asking:
    """Clients that ask one request after the other, and write down every answer that is not 200 or 201."""

    def __init__(self, url: str) -> None:
        self.url, self.wrong, self.answered, self.kept = url, [], 0, []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(name,)) for name in ("a", "b", "c")]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, name: str) -> None:
        with httpx.Client(base_url=self.url, timeout=60) as client:
            number = 0
            while not self._stop.is_set():
                number += 1
                row = {"user": f"user {number % 3}", "item": name, "text": f"{name} {number}"}
                try:
                    asked = client.post("/predict", json={"interactions": [row]})
                    added = client.post("/interactions", json={"interactions": [row]})
                except httpx.TransportError as error:
                    self.wrong.append(error)
                    return
                self.answered += 2
                self.wrong += [one.text for one in (asked, added) if one.status_code not in (200, 201)]
                if added.status_code == 201:
                    self.kept.append((added.json()["ids"][0], row["text"]))


def until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["watching", "route", "signal"])
def test_a_server_goes_over_to_a_new_model_without_dropping_a_request(model, database, tmp_path, how):
    from saft.classifier.promotion import promote

    new = promoted_copy(model, database, tmp_path)
    with serving(model, database) as server, Asking(server.url) as asking:
        until(lambda: asking.answered > 20)
        assert server.client.get("/model").json()["interactions"] == KNOWN
        promote(new, model)
        if how == "route":
            assert server.client.post("/model/reload").status_code == 200
        if how == "signal":
            server.process.send_signal(signal.SIGHUP)
        until(lambda: server.client.get("/model").json()["interactions"] == KNOWN + CAME)
        after = asking.answered
        until(lambda: asking.answered > after + 20)
        assert server.client.post("/model/reload").json() == {"changed": False}
        assert asking.wrong == []
        for key, text in list(asking.kept):
            assert server.client.get(f"/interactions/{key}").json()["text"] == text


@pytest.mark.slow
def test_a_damaged_new_model_is_refused_and_the_old_one_goes_on(model, database, tmp_path):
    with serving(model, database) as server:
        facts = json.loads((model / "model.json").read_text())
        facts["files"]["weights.safetensors"] = "0"
        (model / "model.json").write_text(json.dumps(facts))
        refused = server.client.post("/model/reload")
        assert refused.status_code == 422
        assert "is not the file that was saved" in refused.json()["detail"]
        row = {"user": "u", "item": "i", "text": "t"}
        assert server.client.post("/predict", json={"interactions": [row]}).status_code == 200
        assert server.client.post("/interactions", json={"interactions": [row]}).status_code == 201
        with pytest.raises(saft.InputError, match="Another server uses"):
            serve_twice(database)


def serve_twice(database) -> None:
    from saft.server.database import Database

    Database(database).serve_alone()


RETRAIN = "import sys; from saft.cli.app import main; sys.argv[0] = 'saft'; main()"


def retraining(model, database, out, always: bool) -> subprocess.Popen:
    """The command; with ``always`` every new model counts as the better one."""
    better = (
        "from saft.classifier.champion import Comparison; Comparison.challenger_is_better = True; " if always else ""
    )
    command = ["retrain", str(model), "--database", str(database), "--out", str(out), "--promote-if-better"]
    return subprocess.Popen(
        [sys.executable, "-c", better + RETRAIN, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def whole_models(folder) -> dict[str, int]:
    """Folders that a person sees, each of which can be loaded → its interactions."""
    found = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return {path.name: len(saft.load(path).network_) for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_a_kill_of_a_retraining_or_promotion_leaves_whole_models_and_all_verdicts(trained, tmp_path, kills):
    moments, killed = np.random.default_rng(0), 0
    began = time.monotonic()
    seconds = None
    for kill in range(kills + 1):
        folder = tmp_path / str(kill)
        folder.mkdir()
        model, database = shutil.copytree(trained, folder / "model"), folder / "kept.sqlite"
        judge(model, database)
        began = time.monotonic()
        with retraining(model, database, folder / "new", always=True) as process:
            if seconds is None:  # the first one is let through, to know how long it takes
                said = process.communicate()[0]
                assert process.returncode == 0, said
                assert re.search("it replaced is in", said)
                seconds = time.monotonic() - began
            else:
                # Most of the moments are near the end, where folders are written and exchanged.
                time.sleep(seconds * moments.uniform(0.3, 1.0) ** 0.3)
                killed += process.poll() is None
                process.kill()
        found = whole_models(folder)
        assert found["model"] in (KNOWN, KNOWN + CAME)
        assert KNOWN in found.values()  # the old one is there, wherever it is
        service = ReviewService(LiveNetwork(saft.load(model)), database, f"after {kill}")
        labels = [one.interaction.label for one in service.page(saft_filter(reviewed=True), "oldest", 100, None)[0]]
        service.close()
        assert labels == truth()[:-10]
    assert killed

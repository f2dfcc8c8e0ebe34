"""The page and the card of a model: complete, true to the figures, harmless, also when there is little to say."""

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from saft.classifier import report
from saft.classifier.report import ReportFacts, confident_errors, model_card, write_card, write_report
from saft.metrics import calibration_error, softmax
from saft.settings import PRESET_HELP

SECTIONS = ["classes", "confusion", "parts", "calibration", "errors", "training", "network", "use", "settings"]


def some_facts(n: int = 300, classes: tuple[str, ...] = ("genuine", "spam", "odd"), **changes: Any) -> ReportFacts:
    rng = np.random.default_rng(0)
    labels = rng.integers(len(classes), size=n)
    logits = rng.normal(size=(n, len(classes)))
    logits[np.arange(n), labels] += 2
    facts: dict[str, Any] = {
        "title": "saft model trained on reviews.csv",
        "classes": list(classes),
        "part": "test",
        "labels": labels,
        "probabilities": softmax(2 * logits),
        "uncalibrated": softmax(4 * logits),
        "temperature": 2.0,
        "rows": pl.select(
            pl.format("u{}", pl.int_range(n)).alias("user"),
            pl.int_range(n).alias("item"),
            pl.format("text number {}", pl.int_range(n)).alias("text"),
        ),
        "history": [
            {"epoch": e, "loss": 1 / e, "valid_macro_f1": 0.9 - 0.3 / e, "valid_micro_f1": 0.95 - 0.3 / e}
            for e in range(1, 6)
        ],
        "removals": [("everything", 0.85, 0.9), ("without text", 0.5, 0.6), ("without structure", 0.86, 0.9)],
        "network": [("interactions", "3,000"), ("users", "354")],
        "settings": {"learning_rate": 2e-5, "layers": [3, 6]},
        "best_epoch": 4,
        "seconds": 734.0,
        "version": "0.1.0",
    }
    return ReportFacts(**(facts | changes))


class Page(HTMLParser):
    """What a browser finds: tags with their attributes, text without tags, and whether every tag is closed."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(source)
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data + " "


@pytest.fixture
def page_of(tmp_path):
    def written(facts: ReportFacts) -> Page:
        write_report(tmp_path / "report.html", facts)
        page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
        assert page.open == []
        return page

    return written


def test_the_page_holds_every_part(page_of):
    page = page_of(some_facts())
    assert [attributes["id"] for tag, attributes in page.tags if tag == "section"] == SECTIONS
    assert {attributes["href"] for tag, attributes in page.tags if tag == "a"} == {f"#{name}" for name in SECTIONS}
    assert sum(tag == "svg" for tag, _ in page.tags) == 4  # loss, scores, calibration before and after
    for words in (
        "saft model trained on reviews.csv", "3 classes · scored on 300 test rows · epoch 4 of 5 kept",
        "trained in 12 min 14 s", "The dashed line marks epoch 4", "not trained again", "users 354",
        "learning_rate 2e-05", "saft predict MODEL new.csv --out predictions.csv", "temperature 2.00",
    ):  # fmt: skip
        assert words in page.text


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(page_of):
    page = page_of(some_facts())
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "img", "image", "iframe", "object", "embed", "base", "form", "use"}
    attributes = [(name, value or "") for _, found in page.tags for name, value in found.items()]
    assert not [name for name, _ in attributes if name in {"src", "srcset", "xlink:href"} or name.startswith("on")]
    assert all(value.startswith("#") for name, value in attributes if name == "href")
    assert not re.search(r"https?:|//\w|url\(|@import", page.source)
    assert "default-src 'none'" in page.source


def test_what_strangers_wrote_is_shown_and_not_run(page_of):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)> \"' {{ 7 * 7 }}"
    facts = some_facts(
        classes=(attack, '"><b>', "odd"), title=attack, settings={attack: attack}, network=[(attack, attack)],
        removals=[(attack, 0.5, 0.5)], rows=pl.DataFrame({name: [attack] * 300 for name in ("user", "item", "text")}),
    )  # fmt: skip
    page = page_of(facts)
    assert not {tag for tag, _ in page.tags} & {"script", "img"}
    assert attack in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.source
    assert not re.search(r"(?<!\\)<(script|img|b)", model_card(facts))


def test_the_figures_on_the_page_are_those_of_scikit_learn(page_of):
    facts = some_facts()
    predictions = facts.probabilities.argmax(axis=1)
    page = page_of(facts)
    before, after = (calibration_error(facts.labels, found) for found in (facts.uncalibrated, facts.probabilities))
    assert f"Macro-F1 {100 * f1_score(facts.labels, predictions, average='macro'):.1f}% always" in page.text
    assert f"Micro-F1 {100 * f1_score(facts.labels, predictions, average='micro'):.1f}% right" in page.text
    assert f"Calibration error {100 * before:.1f}% → {100 * after:.1f}%" in page.text
    measures = np.transpose(precision_recall_fscore_support(facts.labels, predictions))
    for name, (precision, recall, f1, support) in zip(facts.classes, measures, strict=True):
        assert f"{name} {precision:.1%} {recall:.1%} {f1:.1%} {support:.0f}" in page.text
    table = confusion_matrix(facts.labels, predictions)
    for name, line in zip(facts.classes, table, strict=True):
        cells = " ".join(f"{count} {100 * count / line.sum():.0f}%" for count in line)
        assert f"{name} {cells}" in page.text
    commonest = np.full_like(predictions, np.bincount(facts.labels).argmax())
    baseline = f1_score(facts.labels, commonest, average="macro", zero_division=0)
    assert f"gives {baseline:.1%}" in page.text


def test_the_surest_errors_come_first(page_of):
    facts = some_facts(
        n=5,
        classes=("a", "b"),
        labels=np.array([0, 0, 0, 1, 1]),
        probabilities=np.array([[0.4, 0.6], [0.1, 0.9], [0.99, 0.01], [0.7, 0.3], [0.9, 0.1]]),
        uncalibrated=np.full((5, 2), 0.5),
    )
    errors = confident_errors(facts)
    assert [error["user"] for error in errors] == ["u1", "u4", "u3", "u0"]  # a tie: in the order of the rows
    assert [error["confidence"] for error in errors] == [0.9, 0.9, 0.7, 0.6]
    assert errors[0] | {"text": ""} == {
        "truth": "a", "prediction": "b", "confidence": 0.9, "of_truth": 0.1, "text": "", "user": "u1", "item": "1",
    }  # fmt: skip
    places = [page_of(facts).text.index(f"text number {row}") for row in (1, 4, 3, 0)]
    assert places == sorted(places)
    assert "text number 2" not in page_of(facts).text


def test_twenty_errors_are_shown_and_long_texts_are_cut(page_of):
    facts = some_facts(n=60, rows=pl.DataFrame({"user": ["u"] * 60, "item": ["i"] * 60, "text": ["word " * 200] * 60}))
    facts = some_facts(n=60, rows=facts.rows, probabilities=np.roll(np.eye(3)[facts.labels], 1, axis=1))
    page = page_of(facts)
    assert page.text.count("labelled") == len(confident_errors(facts)) == 20
    assert "60 of 60 rows were predicted wrongly. These are the 20 the model was surest of." in page.text
    assert {len(error["text"]) for error in confident_errors(facts)} == {300}
    assert "14 more" in page.text


def test_without_errors_the_page_says_so(page_of):
    facts = some_facts(n=30)
    facts = some_facts(n=30, probabilities=np.eye(3)[facts.labels])
    assert "every row was predicted rightly" in page_of(facts).text


def test_without_held_out_rows_the_page_and_the_card_say_so(page_of):
    unmeasured = [("everything", float("nan"), float("nan"))]
    facts = some_facts(n=0, history=[], removals=unmeasured, network=[], settings={})
    page = page_of(facts)
    assert "No labelled rows were held out" in page.text
    assert "nan" not in page.text
    assert "No epochs were recorded." in page.text
    assert [found["id"] for tag, found in page.tags if tag == "section"] == [
        "parts", "training", "network", "use", "settings",
    ]  # fmt: skip
    assert "No labelled rows were held out" in model_card(facts)
    assert "nan" not in model_card(facts)


def test_a_class_without_rows_has_no_score(page_of):
    facts = some_facts(n=40, classes=("a", "b"))
    wider = np.column_stack([facts.probabilities, np.zeros(40)])
    facts = some_facts(n=40, classes=("a", "b", "never"), labels=facts.labels, probabilities=wider, uncalibrated=wider)
    assert "never 0.0% – – 0" in page_of(facts).text
    assert "| never | 0.0% | – | – | 0 |" in model_card(facts)


@pytest.mark.parametrize(
    "history",
    [
        [{"epoch": 1, "loss": 0.5, "valid_macro_f1": 0.5, "valid_micro_f1": 0.5, "seconds": 1.0}],
        [{"epoch": e, "loss": 0.5, "valid_macro_f1": float("nan"), "valid_micro_f1": 0.0} for e in (0, 1)],
        [{"epoch": e, "loss": float("inf")} for e in (1, 2)],
        [{"epoch": e, "loss": 1 / e, "valid_macro_f1": 1.0} for e in range(1, 300)],
    ],
    ids=["one epoch", "nan and constant", "nothing finite", "many"],
)
def test_any_history_can_be_drawn(page_of, history):
    page = page_of(some_facts(history=history, best_epoch=1))
    assert "nan" not in page.source
    numbers = [
        float(value)
        for tag, attributes in page.tags
        if tag in {"line", "circle", "text"}
        for name, value in attributes.items()
        if name in {"x", "y", "cx", "cy", "x1", "x2", "y1", "y2"}
    ]
    assert min(numbers) >= 0
    assert max(numbers) <= 440


@pytest.mark.parametrize("count", [1, 2, 20])
def test_any_number_of_classes_has_its_matrix(page_of, count):
    page = page_of(some_facts(n=400, classes=tuple(f"class {code}" for code in range(count))))
    cells = [found for tag, found in page.tags if tag == "td" and found.get("class") in {"right", "wrong", "none"}]
    assert len(cells) == count**2


def test_texts_that_are_missing_are_no_obstacle(page_of):
    rows = pl.DataFrame({"user": [1] * 50, "item": [None] * 50, "text": [None] * 50})
    assert "(no text) user 1 · item –" in page_of(some_facts(n=50, rows=rows)).text


def test_the_page_and_the_card_warn_that_validation_rows_flatter(page_of):
    facts = some_facts(part="validation")
    for told in (page_of(facts).text, model_card(facts)):
        assert "expect somewhat lower scores" in told


def test_points_lost_are_differences_to_everything(page_of):
    text = page_of(some_facts()).text
    assert "without text 50.0% −35.0 points Micro-F1 60.0% (−30.0)" in text
    assert "without structure 86.0% +1.0 points Micro-F1 90.0% (±0.0)" in text


def test_the_card_tells_scores_data_use_limits_and_settings(tmp_path):
    facts = some_facts()
    write_card(tmp_path / "README.md", facts)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card == model_card(facts)
    predictions = facts.probabilities.argmax(axis=1)
    assert f"| Macro-F1 | {f1_score(facts.labels, predictions, average='macro'):.1%} |" in card
    assert f"| Micro-F1 (accuracy) | {f1_score(facts.labels, predictions, average='micro'):.1%} |" in card
    assert f"to {calibration_error(facts.labels, facts.probabilities):.1%}." in card
    for words in (
        "apart: genuine, spam, odd.", "T = 2.000", "| users | 354 |", "| learning_rate | 2e-05 |", "12 min 14 s",
        "saft predict MODEL", "| without text | 50.0% | −35.0 | 60.0% | −30.0 |",
    ):  # fmt: skip
        assert words in card
    assert re.findall(r"^## (.+)$", card, flags=re.MULTILINE) == [
        "Scores", "Calibration", "Data it was trained on", "Intended use", "Limits", "How to use it", "Training",
    ]  # fmt: skip
    front = card.split("---\n")[1]
    assert card.startswith("---\n")
    assert "library_name: saft\n" in front


def test_the_tables_of_the_card_keep_their_columns_whatever_stands_in_them():
    card = model_card(some_facts(classes=("a|b", "c\nd", "*e*"), settings={"pipe": "x|y\nz"}))
    assert re.search(r"^\| a\\\|b \| ", card, flags=re.MULTILINE)
    assert "| c d |" in card
    assert "| pipe | x\\|y z |" in card
    assert report.markdown("snake_case and __init__ [1] <b>") == r"snake_case and \_\_init\_\_ \[1\] \<b\>"


def test_the_same_facts_give_the_same_page(tmp_path):
    write_report(tmp_path / "a.html", some_facts())
    write_report(tmp_path / "b.html", some_facts())
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_facts_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="3 labels of 3 classes need"):
        some_facts(labels=np.zeros(3, int))


def test_figures_are_written_for_people():
    assert [report.points(value) for value in (0.0421, -0.0421, -0.0001)] == ["+4.2", "−4.2", "±0.0"]
    assert [report.duration(seconds) for seconds in (0.4, 59.7, 7300)] == ["0 s", "1 min 0 s", "2 h 1 min"]
    assert report.shorten("one\n two  three", 9) == "one two…"
    assert report.shorten(None, 9) == ""


def test_a_start_that_no_epoch_improves_is_said_in_words(page_of):
    history = [{"epoch": e, "loss": 1 / e, "valid_macro_f1": 0.7, "valid_micro_f1": 0.8} for e in (1, 2, 3)]
    facts = some_facts(history=history, best_epoch=0, start=(0.8, 0.9))
    page = page_of(facts)
    assert "start kept, not improved in 3 epochs" in page.text
    assert "The dashed line marks the start, before the first epoch: its weights were kept." in page.text
    assert "3 epochs in 12 min 14 s; best before the first epoch: no epoch was better than" in model_card(facts)


def test_without_validation_rows_no_validation_curve_is_drawn(page_of):
    nothing = {"valid_macro_f1": float("nan"), "valid_micro_f1": float("nan")}
    page = page_of(some_facts(history=[{"epoch": e, "loss": 1 / e} | nothing for e in (1, 2)], best_epoch=2))
    assert "Training loss" in page.text
    assert "Validation scores" not in page.text


@pytest.mark.parametrize(
    ("preset", "settings"), [("fast", {"encoder": "none", "epochs": 5}), ("balanced", {"trained_layers": 0})]
)
def test_a_model_that_no_encoder_was_trained_for_is_not_described_by_epochs(page_of, preset, settings):
    facts = some_facts(history=[], best_epoch=0, start=(0.7, 0.8), settings=settings)
    page = page_of(facts)
    assert f"a regression, no encoder was trained · preset {preset} · trained in 12 min 14 s" in page.text
    assert "there are no epochs to show: the regression has a Macro-F1 of 70.0% and a Micro-F1 of 80.0%" in page.text
    assert "Validation scores" not in page.text
    assert "nor in choosing the temperature." in page.text
    card = model_card(facts)
    assert f"Preset {preset}. {PRESET_HELP[preset]}\nFitted in 12 min 14 s: a regression" in card
    assert "the epoch" not in card
    assert ("in any language, not their meaning" in card) == (preset == "fast")
    assert ("the languages its encoder was trained on" in card) == (preset != "fast")
    validated = some_facts(history=[], best_epoch=0, settings=settings, part="validation")
    assert "The validation rows also chose the temperature, so expect" in page_of(validated).text


def test_the_page_and_the_card_name_the_preset_of_a_trained_model(page_of):
    assert "epoch 4 of 5 kept · preset best · trained in" in page_of(some_facts()).text
    assert f"Preset best. {PRESET_HELP['best']}\n5 epochs in 12 min 14 s; best after epoch 4." in model_card(
        some_facts()
    )

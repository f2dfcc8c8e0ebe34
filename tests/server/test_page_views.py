"""The other parts of the review page, in a real browser: filters, bulk verdicts, uploads, progress, every screen."""

from pathlib import Path

import polars as pl
import pytest

import saft
from saft import SaftClassifier
from tests.server.browsing import (
    PHONE,
    PICTURES,
    go_to,
    ids,
    open_id,
    standing,
    wait_for,
    wait_for_another,
    wait_until,
)
from tests.server.conftest import N, serving


def test_all_that_is_open_of_a_user_is_judged_and_taken_back_in_one_step(page, running):
    mine = ids(running, user="ann", labelled=False)
    assert len(mine) == 3
    go_to(page, running, mine[1])
    assert "All 3 open ones" in page.inner_text("form.all[data-side=user]")
    page.select_option("form.all[data-side=user] select", "spam")
    page.click("form.all[data-side=user] button")
    page.wait_for_selector("#toast >> text=3 of ann → spam")
    assert [standing(running, key) for key in mine] == [[("spam", "kim")]] * 3
    assert page.locator(f"#queue [data-id={mine[0]}]").count() == 0
    assert open_id(page) not in mine
    page.locator("body").press("Backspace")
    page.wait_for_selector("#toast >> text=Taken back")
    assert [standing(running, key) for key in mine] == [[]] * 3
    page.wait_for_function("keys => keys.every((key) => document.querySelector(`#queue [data-id=${key}]`))", arg=mine)


def test_a_table_goes_into_the_queue_and_what_is_wrong_with_one_is_shown(opened, running):
    page = opened(running)

    def upload(name: str, content: str) -> str:
        page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": content.encode()})
        page.wait_for_function("() => document.querySelector('#uploaded button')")
        said = page.inner_text("#uploaded")
        page.click("#uploaded button")
        return said

    said = upload("a, b.csv", "user,item,text\nuploader,vase,new\nuploader,bowl,\n")
    assert "2 interactions added." in said
    assert "no text in row 2" in said
    assert "0 interactions added, 1 row was known already." in upload("c.csv", "user,item,text\nuploader,vase,new\n")
    wait_until(lambda: len(ids(running, user="uploader")) == 2)
    before = running.client.get("/model").json()["stored"]
    assert "not a table that can be read" in upload("report.pdf", "x")
    wrong = upload("wrong.csv", "user,item,text\nann,,x\n")
    assert "wrong.csv" in wrong
    assert "column 'item' is empty in row 1" in wrong
    assert running.client.get("/model").json()["stored"] == before
    assert all("422" in problem for problem in opened.problems)
    opened.problems.clear()


def test_the_neighbourhood_can_be_clicked_through(page, running):
    first = ids(running, user="ann", labelled=False)[0]
    go_to(page, running, first)
    page.wait_for_selector("#around svg")
    assert page.locator("#around svg .edge.here").count() == 1
    other = page.locator(f"#around svg .link:not([data-id='{first}'])").first
    wanted = other.get_attribute("data-id")
    other.focus()
    page.keyboard.press("Enter")
    wait_for(page, wanted)
    page.wait_for_selector(f"#around:not([inert]) svg .link[data-id='{first}']")  # the way back
    page.locator("#around .others a").first.click()
    page.wait_for_function("key => document.querySelector('#panel .id').innerText !== key", arg=wanted)


def test_filters_match_parts_of_user_item_and_text(page, running):
    page.select_option("#filters [name=predicted]", "genuine")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#queue .chip')].every(chip => chip.innerText === 'genuine')"
    )
    page.select_option("#filters [name=predicted]", "")
    page.select_option("#filters [name=show]", "all")
    for name, part, found in (("user", "TERRIBLY", 1), ("item", "صبا", 1), ("text", "BUY N", 2)):
        page.fill(f"#filters [name={name}]", part)
        page.wait_for_function("n => document.querySelectorAll('#queue li').length === n", arg=found)
        assert page.inner_text("#matching") == f"{found} in this queue"
        page.fill(f"#filters [name={name}]", "")
    page.fill("#filters [name=user]", "nobody at all")
    page.wait_for_selector("text=Nothing is waiting.")
    assert page.locator("#queue li").count() == 0
    assert not page.locator("#bar").is_visible()


def test_words_after_emoji_and_in_arabic_are_marked_whole(page, running):
    for user, words in (("ann", {"lamp", "truly", "🎉🎉"}), ("محمد", {"المنتج", "شكرا", "😀"})):
        for key in ids(running, user=user, labelled=False):
            one = running.client.get(f"/interactions/{key}").json()
            go_to(page, running, key)
            assert page.locator("#panel .said").text_content() == one["text"]
            if one["item"] in ("lamp", "مصباح"):
                assert words & set(page.locator("#panel mark").all_text_contents()) >= words - {"🎉🎉", "😀"}
    direction = page.evaluate("getComputedStyle(document.querySelector('#panel .said')).direction")
    assert direction == "rtl"


def test_something_new_can_be_tried_and_kept(page, running):
    page.click("nav >> text=Try it")
    page.fill("#ask [name=user]", "somebody new")
    page.fill("#ask [name=item]", "<b>odd</b> & new")
    page.fill("#ask [name=text]", "It broke <script>alert(1)</script> on the first day.")
    page.click("#ask button[type=submit]")
    page.wait_for_selector("#answer .bars")
    assert "a new user, a new item" in page.inner_text("#answer")
    assert "<script>alert(1)</script>" in page.inner_text("#answer .said")  # shown, not run
    page.click("#keep")
    page.wait_for_function("() => document.querySelector('#panel')?.innerText.includes('somebody new')")
    kept = running.client.get("/interactions", params={"user": "somebody new"}).json()["interactions"]
    assert [one["item"] for one in kept] == ["<b>odd</b> & new"]


def test_progress_shows_days_reviewers_agreement_and_the_score_of_the_model(page, running):
    key = ids(running, user="terribly")[0]
    for who, label in (("kim", "spam"), ("lee", "genuine")):
        answer = running.client.post("/labels", json={"id": key, "label": label, "reviewer": who})
        assert answer.status_code == 200, answer.text
    page.click("nav >> text=Progress")
    page.wait_for_selector("#progress table")
    said = page.inner_text("#progress")
    told = running.client.get("/progress").json()
    for one in told["reviewers"]:
        assert one["name"] in said
    assert str(told["days"][-1]["verdicts"]) in page.locator(".days .count").all_inner_texts()
    assert f"of {told['model']['judged']:,} as the reviewers said" in said
    assert "Krippendorff's alpha" in said
    assert "kim and lee" in said


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A server whose model has fifty classes."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"{what} {number}" for what in ("delivery", "Größe", "מחיר", "x" * 60, "quality") for number in range(10)]
    frame = saft.demo_network(N).to_frame()
    labels = [names[row % 50] if row < 250 else None for row in range(N)]
    network = saft.read(frame.with_columns(pl.Series("label", labels, dtype=pl.String)))
    SaftClassifier(preset="fast").fit(network).save(folder / "model")
    with serving(folder / "model", folder / "kept.sqlite") as server:
        yield server


def test_with_fifty_classes_typing_chooses_one(opened, many):
    page = opened(many)
    assert page.locator("#choices button").count() == 50
    first = open_id(page)
    page.keyboard.type("größe 7")
    page.wait_for_function("() => document.querySelectorAll('#choices button').length === 1")
    assert page.locator("#choices kbd").all_inner_texts() == ["1", "enter"]
    page.keyboard.press("Enter")
    wait_for_another(page, first)
    wait_until(lambda: standing(many, first) == [("Größe 7", "kim")])
    assert page.locator("#choices button").count() == 50
    second, likely = open_id(page), page.locator("#choices button").first.get_attribute("data-class")
    page.keyboard.press("1")
    wait_for_another(page, second)
    wait_until(lambda: standing(many, second) == [(likely, "kim")])
    third, predicted = open_id(page), page.locator("#choices .likely").get_attribute("data-class")
    page.keyboard.press("Enter")
    wait_until(lambda: standing(many, third) == [(predicted, "kim")])


def test_on_a_phone_filters_are_folded_and_the_verdict_bar_stays(opened, running):
    page = opened(running, **PHONE)
    assert not page.locator("#filters").is_visible()
    for scroll in (0, 400, 100_000):
        page.evaluate("to => window.scrollTo(0, to)", scroll)
        box = page.locator("#bar").bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= PHONE["viewport"]["height"] + 1
    first = open_id(page)
    page.tap("#bar [data-class=genuine]")
    wait_for_another(page, first)
    page.tap("#fold summary")
    assert page.locator("#filters").is_visible()


@pytest.mark.parametrize(
    ("name", "options"),
    [("wide", {}), ("dark", {"color_scheme": "dark"}), ("phone", PHONE)],
)
def test_it_fits_every_screen(opened, running, many, tmp_path, name, options):
    pictures = Path(PICTURES or tmp_path)
    page = opened(running, **options)
    for user in ("ann", "محمد", "terribly"):
        go_to(page, running, ids(running, user=user)[-1])
        page.wait_for_selector("#around svg")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), user
        page.screenshot(path=pictures / f"{name} {user}.png")
    for view in ("Progress", "Try it", "Model", "Review"):
        page.click(f"nav >> text={view}")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        page.screenshot(path=pictures / f"{name} {view}.png")
    page = opened(many, **options)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.screenshot(path=pictures / f"{name} fifty.png")

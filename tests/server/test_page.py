"""Verdicts on the review page, in a real browser: keys, names, tokens, notes, what fails, and undo."""

import time

import pytest

from saft.server import team
from saft.server.database import Database
from tests.server.browsing import (
    open_id,
    standing,
    verdicts,
    wait_for,
    wait_for_another,
    wait_until,
)
from tests.server.conftest import serving


def test_reviewing_by_keyboard_stores_signed_verdicts_and_takes_them_back_one_by_one(page, running):
    first = open_id(page)
    page.keyboard.press("2")
    wait_for_another(page, first)
    wait_until(lambda: standing(running, first) == [("spam", "kim")])
    second = open_id(page)
    page.keyboard.press("a")
    wait_for_another(page, second)
    predicted = running.client.get(f"/interactions/{second}").json()["predicted"]
    wait_until(lambda: standing(running, second) == [(predicted, "kim")])
    third = open_id(page)
    page.keyboard.press("Space")
    wait_for_another(page, third)
    assert verdicts(running, third) == []
    for back in (second, first):
        page.keyboard.press("Backspace")
        wait_for(page, back)
        wait_until(lambda key=back: standing(running, key) == [])
    page.keyboard.press("Backspace")
    page.wait_for_function("() => document.querySelector('#said').innerText.includes('nothing to take back')")
    page.keyboard.press("x")
    page.wait_for_function("() => document.querySelector('#said').innerText.includes('choose the right class')")


def test_three_keys_within_half_a_second_file_one_verdict_on_each_of_three_interactions(page, running):
    page.evaluate("""() => {
        window.pressed = [];
        document.addEventListener("keydown", (event) => {
            window.pressed.push([document.querySelector("#panel .id").innerText, event.key]);
        }, true);
    }""")
    began = time.monotonic()
    for key in "123":
        page.keyboard.press(key)
    assert time.monotonic() - began < 0.5
    pressed = page.evaluate("window.pressed")
    assert [key for _, key in pressed] == ["1", "2", "3"]
    assert len({shown for shown, _ in pressed}) == 3
    labels = dict(zip("123", running.client.get("/model").json()["classes"], strict=True))
    for shown, key in pressed:
        wait_until(lambda shown=shown: standing(running, shown) != [])
        assert standing(running, shown) == [(labels[key], "kim")]
    for shown, _ in reversed(pressed):
        page.keyboard.press("Backspace")
        page.wait_for_function("key => document.querySelector('#panel .id').innerText === key", arg=shown)
    for shown, _ in pressed:
        wait_until(lambda shown=shown: standing(running, shown) == [])


def test_a_key_that_is_held_down_counts_once(page, running):
    first = open_id(page)
    page.keyboard.down("1")
    for _ in range(5):
        page.keyboard.down("1")  # the browser repeats it
    page.keyboard.up("1")
    wait_for_another(page, first)
    second = open_id(page)
    wait_until(lambda: len(standing(running, first)) == 1)
    assert standing(running, second) == []


@pytest.mark.parametrize("failure", ["lost", "busy"])
def test_a_verdict_that_fails_is_said_and_sent_once_and_its_interaction_comes_back(opened, running, failure):
    page = opened(running)
    sent = []

    def fail(route):
        sent.append(route.request.post_data_json["id"])
        if failure == "lost":
            route.abort()
        else:
            route.fulfill(status=503, json={"detail": "This took longer than the server allows."})

    page.route("**/labels", fail)
    first = open_id(page)
    page.keyboard.press("1")
    page.wait_for_selector("#toast[role=alert]:not([hidden])")
    assert "is not stored" in page.inner_text("#toast")
    page.wait_for_timeout(1500)
    assert sent == [first]
    assert page.locator(f"#queue [data-id={first}]").count() == 1
    page.click("#dismiss")
    page.keyboard.press("Backspace")
    page.wait_for_function("() => document.querySelector('#said').innerText.includes('nothing to take back')")
    assert opened.problems  # the browser tells of the failed request, and of nothing else
    assert all("Failed to load resource" in problem for problem in opened.problems)
    opened.problems.clear()


def test_two_reviewers_do_not_get_the_same_interaction(opened, running):
    pages = [opened(running, name) for name in ("kim", "lee")]
    seen: dict[str, set[str]] = {}
    for turn, page in enumerate(pages * 3):
        page.wait_for_selector("#bar:not([hidden])")
        seen.setdefault("kim" if page is pages[0] else "lee", set()).add(open_id(page))
        page.keyboard.press("1" if turn % 2 else "2")
        page.wait_for_timeout(250)
    assert len(seen["kim"]) == len(seen["lee"]) == 3
    assert not seen["kim"] & seen["lee"]
    for name, keys in seen.items():
        for key in keys:
            wait_until(lambda key=key: standing(running, key) != [])
            assert [who for _, who in standing(running, key)] == [name]


def test_a_name_is_asked_for_once_and_signs_the_verdict_on_what_was_shown(opened, running):
    page = opened(running, name=None)
    first = open_id(page)
    page.keyboard.press("1")
    page.fill("#introduce input", "Zoë")
    page.keyboard.press("Enter")
    wait_for_another(page, first)
    wait_until(lambda: [who for _, who in standing(running, first)] == ["Zoë"])
    second = open_id(page)
    page.keyboard.press("1")
    wait_until(lambda: [who for _, who in standing(running, second)] == ["Zoë"])
    assert page.inner_text("#who") == "Zoë"


def test_the_token_says_who_reviews_and_a_reader_cannot_judge(opened, model_folder, tmp_path):
    with serving(model_folder, tmp_path / "team.sqlite") as server:
        database = Database(tmp_path / "team.sqlite")
        tokens = {name: team.add(database, name, role) for name, role in (("kim", "review"), ("rae", "read"))}
        database.close()
        server.client.headers["Authorization"] = f"Bearer {tokens['kim']}"
        wait_until(lambda: server.client.get("/me").json()["name"] == "kim")
        for name, token in tokens.items():
            page = opened(server, name=None, wait="#login[open]")
            page.fill("#login input", token)
            page.keyboard.press("Enter")
            page.wait_for_selector("#panel .legend")
            assert page.inner_text("#who").startswith(name)
            assert page.locator("#bar").is_visible() == (name == "kim")
            first = open_id(page)
            page.keyboard.press("1")
            if name == "kim":
                wait_until(lambda key=first: standing(server, key) != [])
                assert [who for _, who in standing(server, first)] == ["kim"]
            else:
                page.wait_for_selector("#toast >> text=may only read")
                assert verdicts(server, first) == []
    assert all("401" in problem for problem in opened.problems)  # what the browser says of a missing token
    opened.problems.clear()


def test_a_class_button_is_a_verdict_too_and_takes_the_note_along(page, running):
    first = open_id(page)
    page.keyboard.press("n")
    page.keyboard.type("1 seen before", delay=1)  # letters and digits of a note are no keys
    page.keyboard.press("Enter")
    page.click("#bar [data-class=genuine]")
    wait_for_another(page, first)
    wait_until(lambda: standing(running, first) == [("genuine", "kim")])
    assert page.input_value("#note") == ""
    page.goto(f"{running.url}/#/review/{first}")
    page.wait_for_selector(".past .note")
    assert page.inner_text(".past .note").strip("“”") == "1 seen before"
    assert "kim" in page.inner_text(".past")
    assert "decided" in page.inner_text("#counts")

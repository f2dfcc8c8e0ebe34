"""The review page in a real browser: load, review, take back, follow a neighbour, try something new."""

import os
import shutil
from pathlib import Path

import pytest

from tests.server.conftest import serving

playwright = pytest.importorskip("playwright.sync_api", reason="driving a browser needs playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")
# The folder for screenshots; the test's temporary folder if it is not set.
PICTURES = os.environ.get("SAFT_PICTURES")


@pytest.fixture(scope="module")
def running(model_folder, tmp_path_factory):
    with serving(model_folder, tmp_path_factory.mktemp("page") / "kept.sqlite") as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, running, tmp_path):
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(running.url)
    opened.wait_for_selector("#panel .legend")
    yield opened
    opened.screenshot(path=Path(PICTURES or tmp_path) / "last.png")
    context.close()
    assert problems == []


def open_id(page) -> str:
    return page.locator("#panel .meta").first.locator("span").last.inner_text()


def decided(running) -> dict[str, str]:
    found = running.client.get("/interactions", params={"reviewed": True, "limit": 200}).json()["interactions"]
    return {one["id"]: one["label"] for one in found}


def wait_for_another(page, key: str) -> None:
    page.wait_for_function(
        "key => !document.querySelector('#panel .meta')?.innerText.endsWith(key) "
        "&& document.querySelector('#panel .legend')",
        arg=key,
    )


def test_reviewing_by_keyboard_stores_verdicts_and_takes_them_back(page, running):
    first = open_id(page)
    page.keyboard.press("2")
    wait_for_another(page, first)
    assert decided(running)[first] == "spam"
    second = open_id(page)
    page.keyboard.press("a")
    wait_for_another(page, second)
    assert decided(running)[second] == running.client.get(f"/interactions/{second}").json()["predicted"]
    third = open_id(page)
    page.keyboard.press("Space")
    wait_for_another(page, third)
    assert third not in decided(running)
    page.keyboard.press("Backspace")
    page.wait_for_function("key => document.querySelector('#panel .meta')?.innerText.endsWith(key)", arg=second)
    assert second not in decided(running)
    page.keyboard.press("x")
    page.wait_for_function("() => document.querySelector('#toast').innerText.includes('number')")


def test_a_class_button_is_a_verdict_too(page, running):
    first = open_id(page)
    page.click("#panel [data-class=genuine]")
    wait_for_another(page, first)
    assert decided(running)[first] == "genuine"
    assert "decided" in page.inner_text("#counts")


def test_the_neighbourhood_can_be_clicked_through(page):
    first = open_id(page)
    assert page.locator("#around svg .edge.here").count() == 1
    other = page.locator(f"#around svg .link:not([data-id='{first}'])").first
    wanted = other.get_attribute("data-id")
    other.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("key => document.querySelector('#panel .meta')?.innerText.endsWith(key)", arg=wanted)
    assert page.locator(f"#around svg .link[data-id='{first}']").count() == 1  # the way back
    page.locator("#around .history button").first.click()
    wait_for_another(page, wanted)


def test_filters_narrow_the_queue(page):
    page.select_option("#filters [name=predicted]", "genuine")
    page.wait_for_function(
        "() => [...document.querySelectorAll('#queue .chip')].every(chip => chip.innerText === 'genuine')"
    )
    page.fill("#filters [name=user]", "nobody at all")
    page.keyboard.press("Tab")
    page.wait_for_selector("text=Nothing is waiting.")
    assert page.locator("#queue li").count() == 0


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


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("wide", {"viewport": {"width": 1440, "height": 900}}),
        ("dark", {"viewport": {"width": 1440, "height": 900}, "color_scheme": "dark"}),
        ("phone", {"viewport": {"width": 390, "height": 844}, "has_touch": True}),
    ],
)
def test_it_fits_every_screen(browser, running, tmp_path, name, options):
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(running.url)
    page.wait_for_selector("#panel .legend")
    for view in ("Review", "Try it", "Model"):
        page.click(f"nav >> text={view}")
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        page.screenshot(path=Path(PICTURES or tmp_path) / f"{name} {view}.png")
    context.close()

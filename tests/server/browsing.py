"""What tests of the review page do in a browser, and read from it and from the server."""

import os
import shutil
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# The folder for screenshots; the test's temporary folder if it is not set.
PICTURES = os.environ.get("SAFT_PICTURES")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LONG = "user_with_a_terribly_long_identifier_" + "0123456789_" * 12
TABLE = f"""user,item,text
ann,lamp,"Great 👩‍👩‍👧‍👦 lamp 🎉🎉 truly the best"
ann,rug,Buy now
ann,chair,Buy now
محمد,مصباح,"هذا المنتج رائع جدا 😀 وأنصح به الجميع (iPhone 15) شكرا"
{LONG},{"https://shop.example/" + "a-slug-" * 20},{"o" * 200} and words
"""


def open_id(page) -> str:
    return page.locator("#panel .id").inner_text()


def wait_for(page, key: str) -> None:
    """Until it is shown, with its reasons."""
    page.wait_for_function(
        "key => document.querySelector('#panel .id')?.innerText === key && document.querySelector('#panel .legend')",
        arg=key,
    )


def wait_for_another(page, key: str) -> None:
    page.wait_for_function(
        "key => ![key, undefined].includes(document.querySelector('#panel .id')?.innerText)"
        " && document.querySelector('#panel .legend')",
        arg=key,
    )


def go_to(page, running, key: str) -> None:
    page.goto(f"{running.url}/#/review/{key}")
    wait_for(page, key)


def wait_until(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def ids(running, **filters) -> list[str]:
    found = running.client.get("/interactions", params={"limit": 200, **filters}).json()["interactions"]
    return [one["id"] for one in found]


def claimed(server, name: str | None) -> list[str]:
    """What is this reviewer's at the moment; servers that want a token are not asked."""
    if name is None:
        return []
    found = server.client.get("/interactions", params={"limit": 200}).json()["interactions"]
    return [one["id"] for one in found if one["claimed_by"] == name]


def verdicts(running, key: str) -> list[dict]:
    return running.client.get(f"/interactions/{key}/history").json()["verdicts"]


def standing(running, key: str) -> list[tuple[str, str | None]]:
    return [(one["label"], one["reviewer"]) for one in verdicts(running, key) if one["taken_back"] is None]

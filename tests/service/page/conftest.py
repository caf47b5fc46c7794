"""A browser, and services whose page it shows."""

import os
import shutil
from contextlib import ExitStack
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from playwright import sync_api

from aftereffect import open_storage
from pages import EVIL, HOURLY
from playing import LATE, played
from services import in_thread

#: What a browser itself says about an answer that is no success, or does not come.
NETWORK = "Failed to load resource"
#: How pages are opened. What pulses is drawn sixty times a second, and would take much of a core.
PAGE = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium; where there is none these tests are left out, but never in CI."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        why = "Chromium is not installed: Debian has it in the package chromium"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Opens pages; in the end, none may have had an error or called another host. `network_errors` are part of some tests."""
    contexts, seen = [], SimpleNamespace(errors=[], urls=[], hosts=set(), network_errors=False)

    def visited(url, **options):
        contexts.append(browser.new_context(**PAGE | options))
        page = contexts[-1].new_page()
        seen.hosts.add(urlsplit(url).netloc)
        page.on(
            "console",
            lambda message: (
                seen.errors.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        page.on("request", lambda request: seen.urls.append(request.url))
        page.on("dialog", lambda dialog: seen.errors.append(dialog.message))
        page.goto(url)
        return page

    visited.seen = seen
    yield visited
    for context in contexts:
        context.close()
    errors = [
        error for error in seen.errors if not (seen.network_errors and error.startswith(NETWORK))
    ]
    assert errors == []
    assert {urlsplit(url).netloc for url in seen.urls} <= seen.hosts


@pytest.fixture
def storage(tmp_path):
    with open_storage(f"sqlite:///{tmp_path}/live.db") as opened:
        yield opened


@pytest.fixture
def serve(storage):
    """Starts services on the storage; gives their address."""
    with ExitStack() as running:
        yield lambda **options: f"{running.enter_context(in_thread(storage.url, **options))}/"


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """A service that is only looked at: experiments of every kind."""
    url = f"sqlite:///{tmp_path_factory.mktemp('gallery')}/live.db"
    with open_storage(url) as storage:
        played(storage, "banner", ["A", "B", "C", "D", "E"], 3_000)
        played(storage, "short", ["A", "B"], 40, late=3)
        played(storage, "late", ["A", "B", "C"], 400, shares=LATE)
        played(storage, "fresh", ["A", "B"], 0)
        played(storage, "over", ["A", "B"], 20).end()
        played(storage, "planned", ["A", "B"], 40, policy="exp3", horizon=40)
        played(storage, "hours", ["A", "B"], 58, late=2, start="2026-03-28T00:00", **HOURLY)
        played(storage, "autumn", ["A", "B"], 5, start="2026-10-25T00:00", **HOURLY)
        daily = {"slot": "1d", "start": "2025-10-20T06:00", "timezone": "Europe/Berlin"}
        played(storage, "days", ["A", "B"], 100, late=2, **daily)
        played(storage, "crowd", [f"arm {number}" for number in range(70)], 2_000)
        evil = [EVIL, "'\"><script>window.hurt=1</script>", "x" * 100]
        played(storage, "evil", evil, 12, unit="<b onclick=alert()>")
        waiting = played(storage, "waiting", ["A", "B"], 1)
        for _ in range(3):
            waiting.ask()
        status = waiting.status()
        assert (status.next.hold, status.awaited, status.state) == (
            True,
            (1,),
            "waiting for totals",
        )
    with in_thread(url) as address:
        yield f"{address}/"

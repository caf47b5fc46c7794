"""How the page follows a service: what it asks for and when, lag estimates, downloads, tokens, and services that go away."""

import csv
import re
import time
from urllib.parse import urlsplit

import pytest

from aftereffect.service import create_token
from pages import drawn, estimated, expect, fact, part
from playing import played, under
from services import Process, in_thread

#: Seconds in which an experiment with so many slots must be drawn, on a machine that is busy with
#: other tests.
SLOWEST_OPENING, MANY_SLOTS = 5, 100_000


def test_the_history_can_be_saved(storage, serve, visit):
    """With the token of the visitor, which is in no address."""
    visit.seen.network_errors = True
    experiment = played(storage, "saved", ["A", "=B"], 30)
    token, _ = create_token(storage, "read")
    page = visit(serve())
    page.get_by_role("textbox", name="Token").fill(token)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="saved").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download the history (CSV)").click()
    assert saved.value.suggested_filename == "saved.csv"
    rows = list(csv.DictReader(saved.value.path().read_text(encoding="utf-8").splitlines()))
    assert [float(row["total"]) for row in rows] == [row.total for row in experiment.history()]
    assert {row["arm"] for row in rows} == {"A", "'=B"}
    assert not any(token in url for url in visit.seen.urls)
    page.route("**/export*", lambda route: route.fulfill(status=503, json={"message": "busy"}))
    page.get_by_role("button", name="Download the history (CSV)").click()
    expect(part(page, "download-problem")).to_have_text("The download failed. busy")


def test_says_how_late_rewards_arrive(gallery, visit):
    page = visit(f"{gallery}#late")
    estimated(page)
    number = r"\d+\.\d"
    band = rf"\(90% band {number} to {number}\)"
    after = rf"nine tenths have arrived after {number} slots \({number} to {number}\)"
    sentence = re.compile(rf"^A reward takes 7\.[3-7] slots on average {band}; {after}\.$")
    expect(part(page, "lag-sentence")).to_have_text(sentence)
    expect(part(page, "lag-note")).to_contain_text("arms and totals of 400 slots")
    chart = part(page, "lag-chart")
    expect(chart.locator(".mean")).to_have_attribute("d", re.compile("^M"))
    expect(chart.locator(".mean-lag")).to_have_attribute("d", re.compile("^M"))
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("half within [78] slots")
    )
    reader = chart.get_by_role("slider")
    reader.focus()
    page.keyboard.press("Home")
    expect(reader).to_have_attribute(
        "aria-valuetext", re.compile(r"^In the slot of the pull, arrived \d")
    )
    page.get_by_text("Share that has arrived, as a table").click()
    rows = part(page, "lag-table").locator("tbody tr")
    expect(rows.last).to_contain_text("100.0%")
    assert 5 < rows.count() <= 16
    page.goto(f"{gallery}#short")
    expect(part(page, "lag-sentence")).to_have_text(
        "Unknown: 37 slots with totals are too few, at least 100 are needed."
    )
    expect(chart.locator(".drawing")).to_be_hidden()
    expect(part(page, "lag-table")).to_be_hidden()
    page.goto(f"{gallery}#banner")
    expect(part(page, "lag-sentence")).to_have_text("A reward arrives in the slot of its pull.")


def test_asks_for_the_lag_only_when_there_are_more_totals(storage, serve, visit):
    experiment = played(storage, "live", ["A", "B"], 60)
    page = visit(f"{serve()}#live")
    expect(part(page, "lag-sentence")).to_contain_text("60 slots")
    for told in (62, 63):
        while experiment.status().received < told:
            experiment.tell(experiment.ask().slot, 20)
        expect(fact(page, "totals received")).to_have_text(str(told))
    expect(part(page, "lag-sentence")).to_contain_text("63 slots")
    assert sum(url.endswith("/lag") for url in visit.seen.urls) == 2


def test_an_estimate_that_fails_or_takes_long_holds_up_nothing(storage, serve, visit):
    visit.seen.network_errors = True
    experiment = played(storage, "live", ["A", "B"], 60)
    page = visit("about:blank")
    kept = []
    page.route("**/lag", lambda route: kept.append(route))  # a list's own method it does not take
    visit.seen.hosts.add(urlsplit(address := serve()).netloc)
    page.goto(f"{address}#live")
    drawn(page)
    experiment.ask()
    expect(fact(page, "slots decided")).to_have_text("61")
    expect(part(page, "lag-sentence")).to_have_text("Estimating …")
    kept[0].fulfill(status=500, json={"message": "it is broken"})
    expect(part(page, "lag-problem")).to_have_text(
        "The estimate failed; trying again: it is broken."
    )
    expect(part(page, "lag-sentence")).to_be_empty()
    experiment.ask()
    expect(fact(page, "slots decided")).to_have_text("62")
    expect(part(page, "pulse")).to_have_text("Live")
    expect(part(page, "problem")).to_be_hidden()
    assert len(kept) == 1


def test_follows_a_running_experiment_without_touching_what_one_is_at(storage, serve, visit):
    experiment = played(storage, "live", ["A", "B", "C"], 50)
    page = visit(f"{serve()}#live", viewport={"width": 800, "height": 500})
    drawn(page)
    reader = part(page, "totals").get_by_role("slider")
    reader.focus()
    page.keyboard.press("Home")
    page.evaluate(
        """() => {
        getSelection().selectAllChildren(document.querySelector('[data-part=arms] tbody th .name'));
        const nodes = [...document.querySelectorAll('main *')].filter(node =>
        node.checkVisibility()); window.before = { scroll: scrollY, nodes };
    }"""
    )
    path = part(page, "totals").locator(".mean").get_attribute("d")
    for _ in range(5):
        slot = experiment.ask()
        experiment.tell(slot.slot, 20)
    expect(fact(page, "slots decided")).to_have_text("55")
    expect(part(page, "totals").locator(".mean")).not_to_have_attribute("d", path)
    expect(reader).to_be_focused()
    expect(reader).to_have_attribute("aria-valuetext", re.compile("^Slot 0, round 0"))
    assert page.evaluate("window.before.scroll === scrollY && scrollY > 0")
    assert page.evaluate("String(getSelection())") == "A"
    assert page.evaluate("window.before.nodes.every(node => node.isConnected)")
    experiment.end()
    expect(page.locator(".now")).to_contain_text("Ended after 55 slots")


@pytest.mark.parametrize("name", ["", "banner"])
def test_rests_while_nobody_looks(gallery, visit, name):
    page = visit(f"{gallery}#{name}")
    page.clock.install()
    page.reload()
    expect(part(page, "pulse")).to_have_text("Live")
    if name:
        estimated(page)
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    look = """hidden => {
        Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(look, True)
    page.wait_for_load_state("networkidle")
    requests.clear()
    page.clock.fast_forward(60_000)
    assert requests == []
    asked = f"**/v1/experiments{'/' + name if name else ''}"
    with page.expect_request(asked):
        page.evaluate(look, False)
    with page.expect_request(asked):  # and it goes on
        pass


def test_a_service_that_goes_away_and_comes_back(storage, serve, visit):
    visit.seen.network_errors = True
    experiment = played(storage, "live", ["A", "B"], 20)
    with in_thread(storage.url) as address:
        page = visit(f"{address}/#live")
        drawn(page)
    expect(page.get_by_role("status")).to_contain_text("does not answer; trying again")
    expect(fact(page, "slots decided")).to_have_text("20")
    experiment.ask()
    with in_thread(storage.url, port=urlsplit(address).port):
        expect(page.get_by_role("status")).to_have_text("Live")
        expect(fact(page, "slots decided")).to_have_text("21")
        page.close()


def test_a_token(storage, serve, visit):
    visit.seen.network_errors = True
    played(storage, "secret", ["A", "B"], 5)
    token, _ = create_token(storage, "read")
    page = visit(serve())
    field = page.get_by_role("textbox", name="Token")
    field.fill("ae_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("The token was refused")
    field.fill("no tokën")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("This is not a token")
    field.fill(token)
    page.get_by_role("button", name="Show experiments").click()
    expect(page.get_by_role("link", name="secret")).to_be_visible()
    expect(field).to_be_hidden()
    page.reload()
    page.get_by_role("link", name="secret").click()
    expect(fact(page, "slots decided")).to_have_text("5")
    assert page.evaluate(
        "[Object.values(sessionStorage), Object.values(localStorage), document.cookie]"
    ) == [[token], [], ""]
    page.get_by_role("button", name="Forget the token").click()
    expect(field).to_be_visible()
    expect(field).to_have_value("")
    assert "secret" not in page.inner_text("main")
    assert page.evaluate("Object.values(sessionStorage)") == []
    assert not any(token in url for url in visit.seen.urls)


def test_under_a_path(storage, serve, visit):
    played(storage, "inner", ["A", "B"], 12)
    with under("/team/bandits", serve(root_path="/team/bandits")) as url:
        page = visit(url)
        page.get_by_role("link", name="inner").click()
        drawn(page)
        assert all(urlsplit(each).path.startswith("/team/bandits/") for each in visit.seen.urls)
        page.context.close()


def test_very_many_slots_open_fast(storage, visit):
    played(storage, "large", ["A", "B", "C", "D", "E"], MANY_SLOTS)
    seconds = []
    while (
        len(seconds) < 3 and min(seconds, default=SLOWEST_OPENING) >= SLOWEST_OPENING
    ):  # the machine may have been busy
        service = Process(storage.url)  # it knows nothing yet
        start = time.perf_counter()
        page = visit(f"{service.address}/#large")
        page.wait_for_selector("[data-part=totals] .mean[d^=M]")
        seconds.append(time.perf_counter() - start)
        expect(fact(page, "slots decided")).to_have_text(f"{MANY_SLOTS:,}")
        page.close()
        service.end()
    print(f"\n{MANY_SLOTS:,} slots opened in {min(seconds):.2f} s")
    assert min(seconds) < SLOWEST_OPENING

"""The list of experiments, and the status of one: what runs now, times, charts and warnings."""

import re
from itertools import pairwise

import pytest

from aftereffect import Experiment
from aftereffect.live import events
from pages import EVIL, HOURLY, drawn, expect, fact, part, read_table, read_ticks
from playing import played


def test_shows_all_experiments_and_what_each_plays(gallery, visit):
    page = visit(gallery)
    expect(page.locator(".experiments li:visible")).to_have_count(12)
    row = page.locator(".experiments li", has=page.get_by_role("link", name="banner"))
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("3,000 slots, 5 arms")
    expect(
        page.locator(".experiments li", has=page.get_by_role("link", name="over"))
    ).to_contain_text("ended")
    expect(page).to_have_title("Experiments · aftereffect")


def test_search_appears_with_many_experiments(storage, serve, visit):
    for number in range(12):
        played(storage, f"exp-{number}", ["A", "B"], 0)
    page = visit(serve())
    page.get_by_label("Search").fill("EXP-1")
    expect(page.locator(".experiments li:visible")).to_have_count(3)
    page.get_by_label("Search").fill("nothing like it")
    expect(part(page, "none")).to_be_visible()


def test_shows_an_experiment_as_its_status_has_it(gallery, visit):
    page = visit(f"{gallery}#banner")
    drawn(page)
    expect(page).to_have_title("banner · aftereffect")
    expect(page.locator(".now")).to_have_text(
        re.compile(r"Now \s*[A-E], planned up to slot [\d,]+\.")
    )
    expect(fact(page, "slots decided")).to_have_text("3,000")
    expect(part(page, "arms").locator("tbody tr")).to_have_count(5)
    means = [
        float(text)
        for text in part(page, "arms").locator("tbody td:nth-child(5)").all_inner_texts()
    ]
    assert means == sorted(means)
    for name in ("means", "shares", "totals"):
        assert len(part(page, name).get_by_role("img").get_attribute("aria-label")) > 40
    expect(page.get_by_text("not corrected for seasons")).to_be_visible()
    assert "radius" not in page.inner_text("main")


@pytest.mark.parametrize(
    ("name", "sentence", "waits"),
    [
        ("fresh", "No slots yet. Slot 0 will use", "Slot 0 is next"),
        ("over", "Ended after 20 slots", "This is the final status."),
        ("planned", "All 40 slots of its horizon are decided.", "You can end it."),
        ("short", "Now", "the totals of slots 37\u201339"),
        ("waiting", "Holds", "until the total of slot 1 comes. Slot 4 is next"),
    ],
)
def test_says_what_runs_now(gallery, visit, name, sentence, waits):
    page = visit(f"{gallery}#{name}")
    expect(page.locator(".now")).to_contain_text(sentence)
    expect(part(page, "waiting")).to_contain_text(waits)


def test_hours_have_the_times_of_clocks_that_change(gallery, visit):
    """In the night to 29 March, clocks skip the hour from 2 to 3."""
    page = visit(f"{gallery}#hours", timezone_id="America/New_York")
    drawn(page)
    expect(page.locator(".now")).to_have_text(
        re.compile(r"Now \s*[AB], planned up to Mon 30 Mar, 13:00\.")
    )
    expect(part(page, "waiting")).to_contain_text(
        "Outstanding: the totals of Mon 30 Mar, 09:00\u201311:00. Mon 30 Mar, 11:00 is next, in round"
    )
    expect(fact(page, "slot length")).to_have_text("1 hour")
    expect(fact(page, "start")).to_have_text("Sat 28 Mar 2026, 00:00 (Europe/Berlin)")
    night = ["Sun 29 Mar, 03:00", "Sun 29 Mar, 01:00", "Sun 29 Mar, 00:00", "Sat 28 Mar, 23:00"]
    rows = read_table(page, "totals-table")
    assert rows[31:35] == night
    assert (rows[0], rows[-1]) == ("Mon 30 Mar, 10:00", "Sat 28 Mar, 00:00")
    assert read_table(page, "shares-table")[-1] == "Mon 30 Mar, 11:00"
    for chart in ("shares", "totals"):
        labels, places = zip(*read_ticks(page, chart), strict=True)
        assert labels[:6] == ("Sat 28 Mar", "06:00", "12:00", "18:00", "Sun 29 Mar", "06:00")
        gaps = [after - before for before, after in pairwise(places)]
        assert gaps[4] == pytest.approx(gaps[0] * 5 / 6, abs=0.2)
    reader = part(page, "totals").get_by_role("slider")
    reader.focus()
    page.keyboard.press("Home")
    expect(reader).to_have_attribute("aria-valuetext", re.compile("^Sat 28 Mar, 00:00, round 0"))


def test_an_hour_that_comes_twice_has_its_offset(gallery, visit):
    page = visit(f"{gallery}#autumn")
    drawn(page)
    night = ["00:00", "01:00", "02:00 GMT+2", "02:00 GMT+1", "03:00"]
    assert read_table(page, "totals-table") == [f"Sun 25 Oct, {time}" for time in night[::-1]]


def test_days_have_dates(gallery, visit):
    page = visit(f"{gallery}#days", timezone_id="America/New_York")
    drawn(page)
    expect(page.locator(".now")).to_contain_text(re.compile(r"planned up to \w+ \d+ \w+ 2026\."))
    expect(part(page, "waiting")).to_contain_text(
        "the totals of Mon 26 Jan \u2013 Tue 27 Jan 2026. Wed 28 Jan 2026 is next"
    )
    expect(fact(page, "start")).to_have_text("Mon 20 Oct 2025, 06:00 (Europe/Berlin)")
    rows = read_table(page, "totals-table")
    assert (rows[0], rows[-7], rows[-1]) == ("Tue 27 Jan 2026", "Sun 26 Oct", "Mon 20 Oct")
    assert read_table(page, "shares-table")[-1] == "Tue 27 Jan 2026"
    labels = [label for label, _ in read_ticks(page, "totals")]
    assert labels[:2] == ["Mon 27 Oct", "Mon 10 Nov"]
    assert "Mon 5 Jan 2026" in labels


def test_without_a_calendar_slots_have_numbers(gallery, visit):
    page = visit(f"{gallery}#short")
    drawn(page)
    expect(page.locator(".now")).to_have_text(re.compile(r"planned up to slot \d+\."))
    for title in ("slot length", "start", "control", "history", "unit", "covariates"):
        expect(fact(page, title)).to_have_count(0)
    expect(part(page, "arms").get_by_role("columnheader", name="probability")).to_have_count(0)
    expect(part(page, "drawn")).to_be_hidden()
    assert read_table(page, "totals-table")[:2] == ["39", "38"]
    assert read_table(page, "shares-table")[-1] == "40"
    assert [label for label, _ in read_ticks(page, "totals")][:3] == ["0", "5", "10"]


def test_shows_control_history_and_the_probabilities_of_a_draw(storage, serve, visit):
    experiment = Experiment.create(
        "drawn",
        arms=["A", "B"],
        policy="adaptive-switchback",
        control="B",
        history=[40.0 + slot % 24 for slot in range(336)],
        start="2026-03-02T00:00",
        storage=storage,
        **HOURLY,
    )
    for _ in range(3):
        experiment.tell(experiment.ask().slot, 40)
    page = visit(f"{serve()}#drawn")
    drawn(page)
    expect(fact(page, "control")).to_have_text("B")
    expect(fact(page, "history")).to_have_text("336 slots")
    following = experiment.status().next
    percents = {arm: f"{share:.1%}" for arm, share in following.probabilities.items()}
    expect(part(page, "drawn")).to_contain_text(
        f"{following.arm}, was drawn with probability {percents[following.arm]}."
    )
    page.get_by_role("button", name="probability").click()
    expect(part(page, "arms").locator("tbody td:last-child")).to_have_text(
        sorted(percents.values(), key=lambda text: -float(text[:-1]))
    )
    experiment.end()
    expect(part(page, "drawn")).to_be_hidden()


@pytest.fixture
def at(monkeypatch):
    """Sets the time at which events are recorded, in UTC."""
    return lambda time: monkeypatch.setattr(events, "now", lambda: f"{time}+00:00")


def test_silence_and_the_last_total_have_times(storage, serve, visit, at):
    experiment = Experiment.create(
        "quiet",
        arms=["A", "B"],
        policy="fixed-switchback(block=2)",
        covariates=["temperature", "rain"],
        unit="EUR",
        start="2025-03-29T20:00",
        storage=storage,
        **HOURLY,
    )
    for slot in range(8):
        at(f"2025-03-{29 if slot < 3 else 30}T{(19 + slot) % 24:02}:04:00.000000")
        experiment.ask(slot)
        if slot >= 2:
            experiment.tell(slot - 2, 40 + slot)
    page = visit(serve(), timezone_id="America/New_York")
    row = page.locator(".experiments li")
    expect(row).to_contain_text("silent since Sun 30 Mar, 04:04")  # clocks changed that night
    page.get_by_role("link", name="quiet").click()
    drawn(page)
    expect(part(page, "state")).to_have_text("silent since Sun 30 Mar, 04:04")
    expect(page.locator(".now")).to_contain_text("Next")
    expect(part(page, "waiting")).to_contain_text("No total has come since Sun 30 Mar, 04:04.")
    expect(fact(page, "last total")).to_have_text(
        re.compile(r"^Sun 30 Mar, 04:04 \([\d,]+ days ago\)$")
    )
    expect(fact(page, "totals come")).to_have_text("2 hours late")
    expect(fact(page, "unit of the totals")).to_have_text("EUR")
    expect(fact(page, "covariates")).to_have_text("temperature and rain")
    expect(part(page, "means").locator(".axis-title")).to_have_text("mean total per hour (EUR)")
    expect(part(page, "totals").locator(".grid .axis-title")).to_have_text("total per hour (EUR)")
    expect(part(page, "arms").get_by_role("columnheader", name="mean (EUR)")).to_be_visible()
    reader = part(page, "totals").get_by_role("slider")
    reader.focus()
    page.keyboard.press("Home")
    expect(reader).to_have_attribute("aria-valuetext", re.compile("total 42.00 EUR"))
    for chart in ("shares", "totals"):
        assert any("30 Mar" in label for label, _ in read_ticks(page, chart))
    experiment.end()
    expect(part(page, "state")).to_have_text("ended")


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("fresh", "not begun"),
        ("banner", "running"),
        ("waiting", "waiting for totals"),
        ("planned", "complete"),
        ("over", "ended"),
    ],
)
def test_has_the_states_of_the_status(gallery, visit, name, state):
    page = visit(gallery)
    row = page.locator(".experiments li", has=page.get_by_role("link", name=name))
    expect(row.locator(".state")).to_have_text(state)
    page.goto(f"{gallery}#{name}")
    expect(part(page, "state")).to_have_text(state)


def test_short_rounds_are_not_shaded(storage, serve, visit):
    """One arm after the other in each slot: the strip has the share of each, and nothing flickers."""
    played(storage, "short", ["A", "B", "C"], 300, policy="ucb1")
    played(storage, "long", ["A", "B", "C"], 300, policy="ars-ucb")
    address = serve()

    def count_boxes(layer):
        paths = part(page, "totals").locator(f".{layer} path").all()
        return [(path.get_attribute("d") or "").count("M") for path in paths]

    page = visit(f"{address}#short")
    drawn(page)
    assert sum(count_boxes("rounds")) == 0
    narrow = count_boxes("strip")
    assert len(narrow) == 3
    assert max(narrow) <= 1200 / 24
    page = visit(f"{address}#long")
    drawn(page)
    assert sum(count_boxes("rounds")) > 5


def test_warns_and_shows_gaps(storage, serve, visit):
    """A policy whose rounds are too short for its feed, and an outage."""
    experiment = Experiment.create(
        "late", arms=["A", "B"], policy="ucb1", reward_range=(0, 10), storage=storage
    )
    for slot in range(100):
        experiment.ask(slot)
        if slot >= 24:
            experiment.tell(slot - 24, slot % 7)
    experiment.skip(100, 139)
    experiment.ask(140)
    page = visit(f"{serve()}#late")
    drawn(page)
    expect(part(page, "notes").locator("li")).to_have_text(
        re.compile("^Totals come 24 slots late, and .* that come so late[.]$")
    )
    expect(fact(page, "totals come")).to_have_text("24 slots late")
    expect(fact(page, "slots decided")).to_have_text("101, 40 skipped")
    expect(fact(page, "totals learned")).to_have_text(re.compile(r"^\d+, \d+ waiting$"))
    table = part(page, "totals-table")
    table.locator("summary").click()
    expect(table.locator("tbody tr").nth(5)).to_contain_text("none")


def test_without_experiments_it_says_how_to_begin(serve, storage, visit):
    page = visit(serve())
    expect(page.get_by_text("aftereffect create")).to_be_visible()
    played(storage, "first", ["A", "B"], 3)
    expect(page.get_by_role("link", name="first")).to_be_visible()
    expect(page.get_by_text("aftereffect create")).to_be_hidden()


def test_an_experiment_that_is_not_there(gallery, visit):
    visit.seen.network_errors = True
    page = visit(f"{gallery}#bannner")
    expect(page.get_by_role("alert").last).to_contain_text("there is no experiment 'bannner'")
    page.goto(f"{gallery}#..")
    expect(page.get_by_role("alert").last).to_contain_text("cannot be shown")


def test_many_arms_are_grouped(gallery, visit):
    page = visit(f"{gallery}#crowd")
    drawn(page)
    expect(part(page, "arms").locator("tbody tr")).to_have_count(70)
    expect(part(page, "means").locator("circle")).to_have_count(49)
    expect(part(page, "left-out")).to_contain_text("the 49 arms with most pulls")
    expect(part(page, "shares").locator(".areas path")).to_have_count(12)
    expect(part(page, "totals").locator(".legend li")).to_have_count(12)
    expect(part(page, "grouped")).to_contain_text("and the other 59 together")


def test_says_how_many_totals_may_still_change(storage, serve, visit):
    with Experiment.create(
        "ads",
        arms=["A", "B"],
        policy="ucb1",
        reward_range=(0, 9),
        slot="1d",
        start="2190-01-01",
        final_after="72h",
        storage=storage,
    ) as experiment:
        for slot in range(2):
            experiment.ask(slot)
            experiment.tell(slot, 5)
    played(storage, "banner", ["A", "B"], 3)
    address = serve()
    page = visit(f"{address}#ads")
    expect(fact(page, "provisional")).to_have_text("2 totals, final after 72h")
    page = visit(f"{address}#banner")
    expect(fact(page, "totals come")).to_be_visible()
    expect(fact(page, "provisional")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_units_have_their_arms_and_totals(storage, serve, visit, width):
    experiment = Experiment.create(
        "stores",
        arms=["A", "B"],
        units=["north", EVIL],
        policy="fixed-unit-switchback(block=4)",
        seed=1,
        storage=storage,
    )
    for slot in range(9):
        experiment.ask(slot)
        experiment.tell(slot, {"north": 10 + slot, EVIL: 30})
    experiment.ask(9)
    page = visit(f"{serve()}#stores", viewport={"width": width, "height": 900})
    drawn(page)
    status = experiment.status()
    rows = part(page, "units").locator("tbody tr")
    expect(rows).to_have_count(2)
    for number, unit in enumerate(status.units):
        expect(rows.nth(number).locator("th")).to_have_text(unit.unit)
        expect(rows.nth(number).locator(".name").last).to_have_text(unit.arm)
        cells = [f"{unit.received}", f"{unit.missing}", f"{unit.outstanding}"]
        expect(rows.nth(number).locator("td").nth(1)).to_have_text(cells[0])
        expect(rows.nth(number).locator("td").nth(3)).to_have_text(cells[2])
    expect(part(page, "before")).to_contain_text("in 1 unit")
    expect(part(page, "lag-card")).to_be_hidden()
    expect(fact(page, "units")).to_have_text("2")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.goto(page.url.partition("#")[0])
    expect(part(page, "rows").locator("li").first).to_contain_text("in 1 unit")

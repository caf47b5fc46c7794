"""What the page says is known of the arms, and what a plan promised: every number is that of the answer in JSON."""

import json
import math
import re
from collections import Counter
from datetime import datetime, timedelta
from types import SimpleNamespace
from urllib.parse import urlsplit

import numpy as np
import pytest

from aftereffect import Experiment, open_storage
from aftereffect import plan as make_plan
from aftereffect.cli import main
from aftereffect.live import _state
from pages import EVIL, drawn, expect, fact, part, read_ticks
from playing import played
from services import Process, in_thread
from worlds import play_shop


def test_what_we_know(storage, serve, visit):
    """Every number is that of the answer in JSON."""
    results = play_shop(slots=800, storage=storage).results()
    page = visit(f"{serve()}#shop")
    sentences = part(page, "known-sentences").locator("li")
    expect(sentences).to_have_text(results.to_dict()["sentences"])
    (effect,) = results.effects
    assert effect.is_shown
    span = f"at least {effect.low:+.1f} %"
    if effect.high is not None:
        span = f"{effect.low:+.1f} % to {effect.high:+.1f} %"
    rows = part(page, "known-table").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("control")
    expect(rows.nth(1).locator("td").nth(0)).to_have_text(f"{effect.percent:+.1f} % ({span})")
    expect(rows.nth(1).locator("td").nth(1)).to_contain_text(f"{effect.amount:+.2f}")
    expect(part(page, "known-table")).to_contain_text("per hour (EUR)")
    expect(part(page, "known-note")).to_contain_text("a probability of 95 %")
    chart = part(page, "known-chart")
    expect(chart.locator(".effect")).to_have_attribute("d", re.compile("^M"))
    reader = chart.get_by_role("slider")
    reader.focus()
    page.keyboard.press("End")
    expect(reader).to_have_attribute(
        "aria-valuetext", re.compile(f"Apr, .*, B {re.escape(f'{effect.percent:+.1f}')}")
    )
    labels = [label for label, _ in read_ticks(page, "known-chart")]
    assert "Mon 16 Mar" in labels


def span(middle, low, high, write):
    """An effect with its interval, as the page writes it."""
    if low is None and high is None:
        return "not yet"
    if high is None:
        return f"{write(middle)} (at least {write(low)})"
    if low is None:
        return f"{write(middle)} (at most {write(high)})"
    return f"{write(middle)} ({write(low)} to {write(high)})"


def percent(number):
    return f"{number:+.1f} %".replace("+0.0", "0.0" if number <= 0 else "+0.0")


def percents(effect):
    return span(effect["percent"], effect["low"], effect["high"], percent)


def chance(share):
    return "over 99 %" if share > 0.99 else "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """An experiment with three arms of which C was stopped, and a rule to stop."""
    url = f"sqlite:///{tmp_path_factory.mktemp('guarded')}/live.db"
    rng = np.random.default_rng(3)
    with pytest.MonkeyPatch.context() as patch, open_storage(url) as storage:
        patch.setattr(_state, "_JUDGED_AGAIN", 0.3)
        experiment = play_shop(
            "guarded", slots=0, storage=storage, arms=["A", "B", "C"],
            policy="fixed-switchback(block=3)", control_share=0.3, floors={"B": 0.3, "C": 0.3},
            stop_when_loss_below=5, history=None,
            guardrails=["guardrail(complaints, tolerated=2.5, stops=true)", "guardrail(refunds, harm=less)"],
        )  # fmt: skip
        for slot in range(620):
            arm = experiment.ask(slot).arm
            counts = {"complaints": rng.poisson(200 * (1.4 if arm == "C" else 1)), "refunds": 3}
            total = 100 * rng.lognormal(0, 0.05) * (1.2 if arm == "B" else 1)
            experiment.tell(slot, round(total, 2), guardrails=counts)
        assert experiment.status().arms[2].stopped
    with in_thread(url) as address:
        yield SimpleNamespace(url=url, page=f"{address}/#guarded")


def test_every_number_of_the_card_is_that_of_the_results(guarded, visit, capsys):
    """Those of `aftereffect results --format json`: tables, sentences, and the chart, look by look."""
    assert main(["results", "guarded", "--format", "json", "--storage", guarded.url]) == 0
    results = json.loads(capsys.readouterr().out)
    page = visit(guarded.page)
    sentences = part(page, "known-sentences").locator("li")
    expect(sentences).to_have_text(results["sentences"])
    assert any("The rule says" in sentence for sentence in results["sentences"])
    assert any("C is stopped" in sentence for sentence in results["sentences"])
    effects, best = results["effects"], results["probabilities"]
    amounts = [[effect[f"amount{end}"] for end in ("", "_low", "_high")] for effect in effects]
    largest = max(abs(number) for row in amounts for number in row if number is not None)
    digits = max(0, 3 - math.floor(math.log10(largest)))

    def amount(number):
        return ("+" if number > 0 else "") + f"{number:,.{digits}f}"

    names = [f"{effect['arm']}{' (stopped)' * (effect['arm'] == 'C')}" for effect in effects]
    assert read_cells(page, "known-table") == [
        ["A", "control", "\u2013", chance(best["A"])],
        *(
            [name, percents(effect), span(*row, amount), chance(best[effect["arm"]])]
            for name, effect, row in zip(names, effects, amounts, strict=True)
        ),
    ]
    expect(part(page, "known-note")).to_contain_text(f"probability of {100 * results['level']:g} %")
    limits = ["complaints (more than 2.5 % more does harm)", "refunds (less does harm)"]
    assert read_cells(page, "known-guardrails") == [
        [name, limit, percents(arm), arm["verdict"]]
        for limit, found in zip(limits, results["guardrails"], strict=True)
        for name, arm in zip(names, found["arms"], strict=True)
    ]
    verdicts = [arm["verdict"] for found in results["guardrails"] for arm in found["arms"]]
    assert "harm shown" in verdicts
    assert "not shown" in verdicts
    expect(part(page, "known-guardrails-note")).to_contain_text("a probability of 95 %")
    reader = part(page, "known-chart").get_by_role("slider")
    looks = [
        look
        for look in results["history"]
        if any((effect["low"], effect["high"]) != (None, None) for effect in look["effects"])
    ]
    assert len(looks) > 20
    reader.focus()
    page.keyboard.press("Home")
    for look in looks:
        said = reader.get_attribute("aria-valuetext").replace("\u00a0", " ")
        told = [f"{effect['arm']} {percents(effect)}" for effect in look["effects"]]
        assert said == ", ".join([f"Up to {name_time(look['time'])}", *told])
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    drawing = part(page, "known-chart").get_by_role("img")
    label = drawing.get_attribute("aria-label").replace("\u00a0", " ")
    now = ", ".join(f"{effect['arm']} {percents(effect)}" for effect in effects)
    assert label.endswith(f". Up to {name_time(looks[-1]['time'])}: {now}.")
    for number in range(2):
        assert_drawn(page, number, looks, results["slots"])
    legend = part(page, "known-chart").locator(".legend li")
    expect(legend).to_have_text(["B against A", "C (stopped) against A"])
    # And there is no other number, but for the axes and what was compared above.
    card = page.locator("section.card", has=part(page, "known-table"))
    compared = [part(page, f"known-{name}") for name in ("sentences", "table", "guardrails")]
    said = [place.inner_text() for place in compared]
    said += drawing.locator("text").all_text_contents()
    rest = Counter(find_numbers(card.inner_text())) - Counter(find_numbers(" ".join(said)))
    assert rest == {"95": 2}  # the levels in both notes, compared above


def find_numbers(text):
    return re.findall(r"\d[\d,.]*", text)


def name_time(time):
    """The end of a slot as the page writes it: midnight is the end of a day."""
    at = datetime.fromisoformat(time)
    clock = f"{at:%H:%M}"
    if clock == "00:00":
        at, clock = at - timedelta(days=1), "24:00"
    return f"{at:%a} {at.day} {at:%b}, {clock}"


def assert_drawn(page, number, looks, slots):
    """The band and the line of an effect go through its numbers, as the axes have them."""
    chart = part(page, "known-chart")
    ticks = [
        (
            float(tick.locator("text").text_content()),
            float(tick.locator("line").get_attribute("y1")),
        )
        for tick in chart.locator(".grid > g > g").all()
    ]
    (bottom, lowest), (top, highest) = min(ticks), max(ticks)
    first, last = (
        float(chart.locator(".grid line").first.get_attribute(end)) for end in ("x1", "x2")
    )
    past = [(look["slots"], look["effects"][number]) for look in looks]
    past = [(slot, each) for slot, each in past if (each["low"], each["high"]) != (None, None)]

    def place(slot, value, end=None):
        shown = min(max(end if value is None else value, bottom), top)
        height = lowest + (shown - bottom) / (top - bottom) * (highest - lowest)
        return first + slot / slots * (last - first), height

    band, line = (
        np.array(
            [corner.split() for corner in path.get_attribute("d").strip("MZ").split("L")], float
        )
        for path in chart.locator(".effects > g").nth(number).locator("path").all()
    )
    # A line of steps has a corner before each of its points but the first.
    ends = np.vstack([band[: len(past) * 2 - 1 : 2], band[len(past) * 2 - 1 :: 2][::-1]])
    highs = [place(slot, each["high"], top) for slot, each in past]
    lows = [place(slot, each["low"], bottom) for slot, each in past]
    assert ends == pytest.approx(np.array([*highs, *lows]), abs=0.15)
    middles = [place(slot, each["percent"]) for slot, each in past]
    assert line[::2] == pytest.approx(np.array(middles), abs=0.15)


def read_cells(page, name):
    """The texts of a table, without spaces that do not break."""
    rows = part(page, name).locator("tbody tr")
    expect(rows.first).to_be_visible()
    return [
        [text.strip().replace("\u00a0", " ") for text in row.locator("th, td").all_inner_texts()]
        for row in rows.all()
    ]


def test_a_stopped_arm_is_marked_wherever_arms_are_listed(guarded, visit):
    page = visit(guarded.page)
    drawn(page)
    status = Experiment.open("guarded", storage=guarded.url).status()
    reason = status.arms[2].stopped
    expect(part(page, "notes")).to_contain_text(f"C is stopped: {reason}.")
    expect(fact(page, "guardrails")).to_have_text(", ".join(status.guardrails))
    expect(fact(page, "rule to stop")).to_have_text("an expected loss below 5 EUR per hour")
    for place in ("arms", "shares", "totals", "means"):
        expect(part(page, place)).to_contain_text("C (stopped)")
    page.locator("[data-part=back]").click()
    expect(page.locator(".experiments svg[aria-label*='(stopped)']")).to_have_count(1)


@pytest.mark.compiled
def test_arms_that_come_and_go_are_marked_and_said(storage, serve, visit):
    policy = "adaptive-switchback(slots_per_day=2, delay=interval(0, 2))"
    experiment = play_shop(slots=60, storage=storage, arms=["A", "B", "C"], policy=policy)
    page = visit(f"{serve()}#shop")
    drawn(page)
    expect(part(page, "facts")).not_to_contain_text("came or went")
    experiment.change_arms(add="D", pause="B", retire="C")
    came = (
        "B paused from Tue 3 Mar, 12:00 on; C retired from Tue 3 Mar, 12:00 on; D active from Tue"
    )
    expect(fact(page, "arms that came or went")).to_contain_text(came)
    for place in ("arms", "shares", "totals", "means"):
        expect(part(page, place)).to_contain_text("B (paused)")
        expect(part(page, place)).to_contain_text("C (retired)")
    expect(part(page, "arms").locator("tbody tr")).to_have_count(4)
    known = part(page, "known-sentences")
    expect(known).to_contain_text("C is retired: it is no candidate to ship.")
    for slot in range(60, 90):
        experiment.ask(slot)
        experiment.tell(slot, 100)
    expect(fact(page, "slots decided")).to_have_text("90")
    expect(part(page, "totals")).to_contain_text("D")


@pytest.mark.parametrize("width", [390, 1280])
def test_guardrails_fit(guarded, visit, width):
    page = visit(guarded.page, viewport={"width": width, "height": 844})
    drawn(page)
    expect(part(page, "known-guardrails")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_request_for_results_ends_when_nobody_looks(guarded, visit):
    """It may take seconds; whoever looks again asks again."""
    page = visit(guarded.page.partition("#")[0])
    visit.seen.network_errors = True
    page.route("**/results*", lambda _: None)  # the service never answers
    with page.expect_request("**/results*"):
        page.goto(guarded.page)
    hide = """hidden => {
        Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    with page.expect_event("requestfailed", lambda request: "/results" in request.url):
        page.evaluate(hide, True)
    page.unroute("**/results*")
    page.evaluate(hide, False)
    expect(part(page, "known-guardrails")).to_be_visible()
    expect(part(page, "known-problem")).to_be_hidden()


def test_not_yet_and_why_nothing_is_known(storage, serve, visit, gallery):
    young = play_shop("young", slots=5, storage=storage)
    page = visit(f"{serve()}#young")
    sentences = part(page, "known-sentences").locator("li")
    expect(sentences).to_have_text(young.results().describe())
    expect(sentences).to_have_text([re.compile("^Not yet: ")])
    for name in ("known-table", "known-note", "known-problem"):
        expect(part(page, name)).to_be_hidden()
    visit.seen.hosts.add(urlsplit(gallery).netloc)
    page.goto(f"{gallery}#over")
    expect(sentences).to_have_text([re.compile("^Not known: .* does not record them")])
    assert not any(url.endswith("over/results") for url in visit.seen.urls)


#: What `Plan.lay_out` gives.
PLAN = {
    "digest": "0123456789abcdef",
    "sentences": ["Run fixed-switchback(block=6) for 8 weeks.", f"It costs 5 % of {EVIL}."],
    "command": f"aftereffect create NAME --arms A,B --policy '{'x' * 90}' --plan {'y' * 60}",
    "history": ["56 slots, 8.0 weeks, 90 per slot", "weekdays: Saturday +55 %, Monday -35 %"],
    "tables": [
        {"title": "2 arms", "rows": [["design", "loss"], ["fixed-switchback", "179 ± 11"]]},
        {
            "title": "Within so many weeks",
            "rows": [["smallest lift", "2 weeks"], ["x" * 60, "9 %"]],
        },
    ],
}


@pytest.mark.parametrize("width", [360, 1280])
def test_a_saved_plan_and_what_an_experiment_remembers_of_it(storage, serve, visit, width):
    slots = {"slots": 56 * 24, "end": 17 * 24, "end_low": 10 * 24, "end_high": None}
    about = {"slot": "1h", "arms": 2, "seed": 3, "version": "0.2.0", "digest": PLAN["digest"]}
    course = {"loss": 4000.0, "loss_low": 1500.0, "loss_high": 9000.0} | slots | about
    design = "floors(fixed-switchback(block=6), [0.45, 0.45])"
    play_shop(slots=200, storage=storage, plan={"design": design} | course)
    played(storage, "other", ["A", "B"], 3)
    page = visit(serve(plans=[PLAN]), viewport={"width": width, "height": 800})
    listed = part(page, "plans").get_by_role("listitem")
    expect(listed).to_have_text([f"Plan {PLAN['digest']}{PLAN['sentences'][0]}"])
    listed.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Plan {PLAN['digest']}")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    sentences = [sentence.replace(" %", "\u00a0%") for sentence in PLAN["sentences"]]
    expect(part(page, "plan-sentences").get_by_role("listitem")).to_have_text(sentences)
    expect(part(page, "plan-command")).to_have_text(PLAN["command"])
    for table, given in zip(page.get_by_role("table").all(), PLAN["tables"], strict=True):
        rows = [row.locator("th, td").all_text_contents() for row in table.get_by_role("row").all()]
        assert rows == given["rows"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("link", name="All experiments").click()
    page.get_by_role("link", name="shop").click()
    planned = part(page, "planned-sentences").get_by_role("listitem")
    expect(planned).to_have_text(
        [
            "The plan promised a stop on day 17 (day 10 or later); today is day 9.",
            "It promised to lose 4,000 EUR by day 56 (1,500 to 9,000).",
        ]
    )
    known = part(page, "known-sentences")
    expect(known).to_contain_text("Lost so far, by what is known:")
    expect(known).not_to_contain_text("promised")
    expect(part(page, "planned-note")).to_contain_text("with seed 3, made by version 0.2.0")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    part(page, "planned-link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Plan {PLAN['digest']}")
    page.goto(page.url.partition("#")[0] + "#other")
    expect(part(page, "body")).to_be_visible()
    expect(part(page, "planned")).to_be_hidden()
    page.goto(page.url.partition("#")[0] + "#plan:other")
    expect(part(page, "plan-problem")).to_contain_text("This service has no such plan")
    assert page.evaluate("window.hurt") is None


@pytest.mark.compiled
def test_a_service_shows_the_plans_that_it_was_started_with(tmp_path, visit):
    week = [60, 80, 90, 100, 120, 150, 70]
    totals = [total * (1 + day * 7919 % 13 / 100) for day, total in enumerate(week * 12)]
    design = "fixed-switchback(block=1, blocks_per_arm=14)"
    plan = make_plan(
        totals, slot="1d", weeks=12, lift="10%", runs=4, seed=1, designs=[design], jobs=1
    )
    plan.save(tmp_path / "plan.json")
    service = Process(f"sqlite:///{tmp_path}/live.db", "--plan", str(tmp_path / "plan.json"))
    try:
        page = visit(f"{service.address}/#plan:{plan.digest}")
        expect(part(page, "plan-command")).to_have_text(plan.command)
        tables = page.get_by_role("table")
        expect(tables.first.locator("thead th")).to_have_text(list(plan.rows()[0]))
        expect(tables.last.locator("tbody td")).to_have_text(list(plan.power_rows()[1][1:]))
    finally:
        service.end()

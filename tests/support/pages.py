"""What tests of the page share: its parts, and how to wait until they are drawn."""

import re

from playwright import sync_api

expect = sync_api.expect
expect.set_options(timeout=20_000)
#: Slots with times; the clocks change at the end of March and of October.
HOURLY = {"slot": "1h", "timezone": "Europe/Berlin"}
EVIL = "<img src=x onerror=window.hurt=1>"


def part(page, name):
    """What the page calls so."""
    return page.locator(f"[data-part={name}]").last


def fact(page, title):
    return part(page, "facts").locator("div", has_text=title).locator("dd")


def drawn(page):
    """Wait until the last of the charts is drawn."""
    expect(part(page, "totals").locator(".mean")).to_have_attribute("d", re.compile("^M"))


def estimated(page):
    """Wait until the page shows the lag, or why it is unknown."""
    expect(part(page, "lag-sentence")).to_contain_text(re.compile("[.]$"))


def read_ticks(page, chart):
    """The labels below a chart, and where they are."""
    return [
        (text.text_content(), float(text.get_attribute("x")))
        for text in part(page, chart).locator(".below g text").all()
    ]


def read_table(page, name):
    """The first cells of a table behind a chart."""
    part(page, name).locator("summary").click()
    cells = part(page, name).locator("tbody th")
    expect(cells.first).not_to_be_empty()
    return cells.all_text_contents()

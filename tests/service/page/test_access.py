"""The page for everybody: by keyboard and by pointer, on a phone, in light and dark, with any names."""

import re

import pytest

from pages import EVIL, drawn, estimated, expect, part
from playing import played


def test_names_on_a_phone(storage, serve, visit):
    """Names that differ in the middle only can be told apart in every chart, at any width."""
    names = [f"creative number {number:02} for the whole summer" for number in range(14)]
    played(storage, "names", names, 400)
    address = serve()
    for width in (390, 1280):
        page = visit(f"{address}#names", viewport={"width": width, "height": 844})
        drawn(page)
        for chart, labels in (("means", ".rows .label"), ("shares", ".names .label")):
            shown = part(page, chart).locator(labels).all_text_contents()
            assert len(set(shown)) == len(shown)
        if width == 390:
            expect(part(page, "means").locator(".label").first).to_have_text(names[0])
            expect(part(page, "shares").locator(".legend li")).to_have_count(12)
            expect(part(page, "shares").locator(".legend li").first).to_contain_text("creative")
            assert part(page, "shares").locator(".names .label").count() == 0


def test_by_keyboard(gallery, visit):
    page = visit(gallery)
    link = page.get_by_role("link", name="banner")
    expect(link).to_be_visible()
    for _ in range(20):
        page.keyboard.press("Tab")
        if link.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Enter")
    drawn(page)
    expect(page).to_have_url(f"{gallery}#banner")
    expect(page.get_by_role("heading", name="banner")).to_be_focused()
    for name, key, expected in (
        ("means", "Home", "^A, mean"),
        ("shares", "End", "^After 3,000 slots"),
        ("totals", "Home", "^Slots 0\u20137"),
    ):
        reader = part(page, name).get_by_role("slider")
        for _ in range(12):
            page.keyboard.press("Tab")
            if reader.evaluate("node => node === document.activeElement"):
                break
        page.keyboard.press(key)
        expect(reader).to_have_attribute("aria-valuetext", re.compile(expected))
        expect(part(page, name).locator(".tip")).to_be_visible()
        page.keyboard.press("Escape")
        expect(part(page, name).locator(".tip")).to_be_hidden()
    page.go_back()
    expect(link).to_be_focused()
    page.go_forward()
    expect(page.get_by_role("heading", name="banner")).to_be_visible()


def test_by_pointer(gallery, visit):
    page = visit(f"{gallery}#banner")
    drawn(page)
    part(page, "totals").get_by_role("slider").hover()
    tip = part(page, "totals").locator(".tip")
    expect(tip).to_contain_text("mean")
    expect(tip).to_contain_text("round")
    part(page, "arms").locator("tbody tr").nth(1).hover()
    expect(part(page, "shares").locator(".areas [data-chosen]")).to_have_count(1)
    page.get_by_role("button", name="mean").click()
    expect(part(page, "arms").locator("tbody th").first).to_have_text("E")
    page.get_by_text("Totals, as a table").click()
    expect(part(page, "totals-table").locator("tbody tr").first).to_contain_text("2,992\u20132,999")
    page.get_by_text("Share of pulls, as a table").click()
    expect(part(page, "shares-table").locator("tbody tr").last).to_contain_text("3,000")


def test_names_are_only_text(gallery, visit):
    page = visit(f"{gallery}#evil")
    drawn(page)
    expect(part(page, "arms")).to_contain_text(EVIL)
    expect(part(page, "arms")).to_contain_text("mean (<b onclick=alert()>)")
    assert page.locator("main b").count() == 0
    part(page, "totals").get_by_role("slider").hover()
    page.get_by_text("Totals, as a table").click()
    page.goto(f"{gallery}#{EVIL}")
    expect(page.get_by_role("heading", name=EVIL)).to_be_visible()
    visit.seen.network_errors = True
    assert page.evaluate("window.hurt") is None
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out(gallery, visit, width):
    page = visit(gallery, viewport={"width": width, "height": 740})
    expect(page.locator(".experiments .state").first).not_to_be_empty()
    for name in ("", "banner", "evil", "crowd", "late", "waiting", "hours", "days", "fresh"):
        page.goto(f"{gallery}#{name}")
        if name not in ("", "fresh"):
            drawn(page)
            estimated(page)
            for table in page.locator("summary:visible").all():
                table.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_every_control_has_a_name(gallery, visit):
    page = visit(gallery)
    for name in ("", "banner", "crowd", "late"):
        page.goto(f"{gallery}#{name}")
        if name:
            drawn(page)
            estimated(page)
        else:
            expect(page.locator(".experiments .state").first).not_to_be_empty()
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        seen = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"]
        ]
        controls = {
            "button",
            "link",
            "textbox",
            "searchbox",
            "slider",
            "image",
            "img",
            "table",
            "region",
        }
        assert [role for role, text in seen if role in controls and not text] == []
        assert {"banner", "main", "contentinfo"} <= {role for role, _ in seen}
    assert page.locator("html").get_attribute("lang") == "en"


#: Texts with less contrast to what is behind them than WCAG AA asks, and arms that can hardly be
#: seen.
CONTRAST = """() => {
  const pen = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const light = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map(v => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => (Math.max(light(one), light(other)) + 0.05) / (Math.min(light(one), light(other)) + 0.05);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const ratio = contrast(node instanceof SVGElement ? style.fill : style.color, behind(node));
    if (ratio < 4.5) found.push([node.textContent, ratio]);
  }
  const root = getComputedStyle(document.documentElement);
  for (const hue of [0, 1, 2, 3, 4, 5, 6, 7, 'others']) {
    const ratio = contrast(root.getPropertyValue(`--hue-${hue}`), root.getPropertyValue('--surface'));
    if (ratio < 3) found.push([`hue ${hue}`, ratio]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(gallery, visit, scheme):
    page = visit(gallery, color_scheme=scheme)
    expect(page.locator(".experiments .state").first).not_to_be_empty()
    assert page.evaluate(CONTRAST) == []
    for name in ("banner", "late"):
        page.goto(f"{gallery}#{name}")
        drawn(page)
        estimated(page)
        assert page.evaluate(CONTRAST) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground))) < 40) == (scheme == "dark")


def test_nothing_moves_for_those_who_do_not_want_it(gallery, visit):
    for motion, animations in (("reduce", 0), ("no-preference", 1)):
        page = visit(gallery, reduced_motion=motion)
        expect(part(page, "pulse")).to_have_text("Live")
        assert page.evaluate("document.getAnimations().length") == animations

"""Check the built site: every link within it leads somewhere, and no page loads from elsewhere.

Sphinx checks links in sources only. This reads the pages as a browser gets them.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Pages that Sphinx makes of all others; they link what it linked before.
SKIPPED = {"genindex.html", "search.html", "py-modindex.html"}


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.add(values["href"])
        source = values.get("src") or (values.get("href") if tag == "link" else None)
        if source:
            self.loaded.add(source)


def find_problems(site: Path) -> list[str]:
    """List links that lead nowhere, and what is loaded from other sites."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    problems = []
    for path, page in sorted(pages.items()):
        if path.name in SKIPPED:
            continue
        where = path.relative_to(site.resolve())
        for address in sorted(page.links | page.loaded):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in page.loaded and parts.scheme != "data":
                    problems.append(f"{where}: loads {address}")
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                problems.append(f"{where}: {address} does not exist")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                problems.append(f"{where}: {address} has no such heading")
    return problems


if __name__ == "__main__":
    found = find_problems(Path(sys.argv[1]))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)

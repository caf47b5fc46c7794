"""The report as one HTML page that holds its pictures and style, and opens from disk."""

import base64
import html
from pathlib import Path

from aftereffect.extras import imported

STYLE = Path(__file__).with_name("report.css")


def page(markdown: str, title: str, folder: Path) -> str:
    """The page; pictures named in the text are taken from the folder, as SVG, which is smaller and stays sharp."""
    reader = imported("markdown_it").MarkdownIt("commonmark").enable("table")
    tokens = reader.parse(markdown)
    for picture in (child for token in tokens for child in token.children or () if child.type == "image"):
        data = (folder / picture.attrGet("src")).with_suffix(".svg").read_bytes()
        picture.attrSet("src", f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}")
    body = reader.renderer.render(tokens, reader.options, {})
    # Wide tables scroll by themselves, so that a phone shows the text at its own width.
    body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
{STYLE.read_text()}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""

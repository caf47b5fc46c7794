"""Pictures of a plan, and the report as one HTML page."""

import base64
import html
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aftereffect._core import html_table, import_optional
from aftereffect.simulation import COLOURS

if TYPE_CHECKING:
    import matplotlib.figure

    from aftereffect.planning._plan import Plan

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: #222; background: #fff; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
.table { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
caption { text-align: left; padding-bottom: .5rem; } img { max-width: 100%; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ccc; text-align: right; }
th:first-child, td:first-child { text-align: left; }
pre { overflow-x: auto; background: #f4f4f4; padding: .6rem; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; }
 img { background: #fff; } pre { background: #2a2a2a; } th, td { border-color: #444; } }
"""


def draw(plan: "Plan") -> "matplotlib.figure.Figure":
    """Draw the level and season of the history, and what designs lose and when they end."""
    import_optional("matplotlib")
    figure_module: Any = import_module("matplotlib.figure")
    figure: matplotlib.figure.Figure = figure_module.Figure(
        figsize=(9.0, 6.5), layout="constrained"
    )
    axes: Any = figure.subplots(2, 2)
    history, unit = plan.history, f", {plan.unit}" if plan.unit else ""
    axes[0, 0].plot([100 * level for level in history.level], color=COLOURS[0], lw=1)
    axes[0, 0].set(
        title="history: level", xlabel="days" if plan.slot != "1w" else "weeks", ylabel="% of usual"
    )
    ends = [7 * place / len(history.season) for place in range(len(history.season) + 1)]
    axes[0, 1].stairs(history.season, ends, baseline=None, color=COLOURS[0])
    axes[0, 1].set(title="history: usual week", xlabel="days since Monday", ylabel=f"total{unit}")
    places = range(len(plan.promises))
    names = [promise.design for promise in plan.promises]
    for place, promise in zip(places, plan.promises, strict=True):
        colour = COLOURS[place % len(COLOURS)]
        axes[1, 0].plot([promise.loss_low, promise.loss_high], [place, place], color=colour, lw=3)
        axes[1, 0].plot(promise.loss.mean, place, "o", color=colour)
        known = [
            (int(weeks), 100 * each.mean)
            for weeks, each in promise.smallest.items()
            if each is not None
        ]
        axes[1, 1].plot(*zip(*known, strict=True), "o-", color=colour) if known else None
    axes[1, 0].set_yticks([])  # the legend names designs by their colours
    axes[1, 0].set_ylim(len(names) - 0.5, -0.5)
    axes[1, 0].set(title="loss: expected, and nine of ten worlds", xlabel=f"loss{unit}")
    axes[1, 1].set(title="smallest lift found nine times of ten", xlabel="weeks", ylabel="%")
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    handles = [
        import_module("matplotlib.lines").Line2D([], [], color=COLOURS[place % len(COLOURS)])
        for place in places
    ]
    figure.legend(handles, names, loc="outside lower center", frameon=False, fontsize="small")
    return figure


def write_html(plan: "Plan") -> str:
    """The report as one page that holds its style and its pictures, and opens from disk."""
    picture = io.BytesIO()
    draw(plan).savefig(picture, format="svg")
    data = base64.b64encode(picture.getvalue()).decode()
    shown = plan.lay_out()
    tables = [html_table(each["rows"], title=each["title"]) for each in shown["tables"]]
    sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in shown["sentences"])
    command = f"<pre>{html.escape(shown['command'])}</pre>" if shown["command"] else ""
    wrapped = "".join(f'<div class="table">{table}</div>' for table in tables)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Plan of an experiment</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Plan of an experiment</h1>
<h2>What to do</h2>
{sentences}{command}
<h2>The history</h2>
<pre>{html.escape(str(plan.history))}</pre>
<img alt="History, losses and lifts found" src="data:image/svg+xml;base64,{data}">
<h2>The designs</h2>
{wrapped}
<p>Digest {plan.digest}</p>
</main>
</body>
</html>
"""

"""The studies that the adversarial figures and claims rest on."""

from dataclasses import dataclass
from pathlib import Path

from aftereffect.errors import InputError
from aftereffect.paper.adversarial.figures import OURS, AdversarialFigure, Panel, clw
from aftereffect.paper.part import Part
from aftereffect.paper.settings import Settings, evenly_spaced
from aftereffect.policies import ArsClw, Policy
from aftereffect.simulation import Study

#: How d is misjudged in the figure on the price of not knowing it, in quarters: from d / 4 to 4 d.
QUARTERS = (1, 2, 3, 4, 5, 6, 8, 12, 16)


def _part(
    name: str, panel: Panel, policies: tuple[Policy, ...], slots: int, runs: int, settings: Settings, *, drawn: bool
) -> Part:
    return Part(name, policies, panel.environment(settings, slots), evenly_spaced(slots), runs, settings.seed, drawn)


def shown(figure: AdversarialFigure, panel: Panel, settings: Settings) -> Part:
    """What a panel shows."""
    slots, runs = settings.adversarial_horizon, settings.adversarial_replications
    return _part(f"{figure.name}{panel.key}", panel, tuple(panel.players.values()), slots, runs, settings, drawn=True)


def shorter(figure: AdversarialFigure, panel: Panel, settings: Settings) -> Part:
    """The same for a tenth of the slots, tuned to that: regret grows from horizon to horizon, not within a run."""
    slots, runs = max(settings.adversarial_horizon // 10, 100), settings.adversarial_replications
    return _part(f"{figure.name}{panel.key}-shorter", panel, (OURS,), slots, runs, settings, drawn=False)


def far(figure: AdversarialFigure, panel: Panel, settings: Settings, tenths: int) -> Part:
    """Many more slots and few runs, where asked for; or a tenth of them."""
    slots = settings.far_horizon // tenths
    name = f"{figure.name}{panel.key}-far-{tenths}"
    return _part(name, panel, (OURS, clw(panel.d)), slots, settings.far_replications, settings, drawn=False)


def misjudged(figure: AdversarialFigure, panel: Panel, settings: Settings) -> Part:
    """CLW told all kinds of d, and those who need not be told."""
    told = dict.fromkeys(max(1, round(panel.d * quarters / 4)) for quarters in QUARTERS)
    slots, runs = settings.adversarial_horizon, settings.adversarial_replications
    policies = (*map(clw, told), OURS, ArsClw())
    return _part(f"{figure.name}{panel.key}-misjudged", panel, policies, slots, runs, settings, drawn=False)


def parts(figure: AdversarialFigure, settings: Settings) -> list[Part]:
    """All that a figure and the claims about it rest on."""
    needed = [shown(figure, panel, settings) for panel in figure.panels]
    if figure.oblivious:
        return needed + [misjudged(figure, panel, settings) for panel in figure.panels]
    needed += [shorter(figure, panel, settings) for panel in figure.panels]
    if settings.far_horizon:
        needed += [far(figure, figure.panels[0], settings, tenths) for tenths in (1, 10)]
    return needed


@dataclass(frozen=True)
class AdversarialEvidence:
    """What was found in one panel; what does not apply is None."""

    figure: AdversarialFigure
    of: Panel
    about: str
    #: What one pull of the second best arm loses, on average.
    gap: float
    panel: Study
    tenth: Study | None
    misjudged: Study | None


def evidence(figure: AdversarialFigure, settings: Settings, folder: Path) -> list[AdversarialEvidence]:
    """What a folder holds about a figure, panel by panel, and once more from afar; nothing if a part is missing."""
    try:
        kept = {part.name: part.kept(folder) for part in parts(figure, settings)}
    except InputError:  # the files of another figure, which was not asked for: nothing here is by them
        return []
    if None in kept.values():
        return []
    found = []
    for panel in figure.panels:
        stem = f"{figure.name}{panel.key}"
        study = kept[stem]
        assert study is not None
        slots = settings.adversarial_horizon
        about = panel.told(settings)
        gap = panel.environment(settings, slots).second_gap(slots)
        found.append(
            AdversarialEvidence(figure, panel, about, gap, study, kept.get(f"{stem}-shorter"), kept.get(f"{stem}-misjudged"))
        )
    return found


def far_evidence(figure: AdversarialFigure, settings: Settings, folder: Path) -> AdversarialEvidence | None:
    """The same for the paper's panel, with the horizon by which claims are judged on request."""
    if figure.oblivious or not settings.far_horizon:
        return None
    panel = figure.panels[0]
    whole, tenth = (far(figure, panel, settings, tenths).kept(folder) for tenths in (1, 10))
    if whole is None or tenth is None:
        return None
    gap = panel.environment(settings, settings.far_horizon).second_gap(settings.far_horizon)
    return AdversarialEvidence(
        figure, panel, f"{panel.told(settings)}, {settings.far_horizon:,} slots", gap, whole, tenth, None
    )

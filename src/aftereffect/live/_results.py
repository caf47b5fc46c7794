"""Who won? What the log of an experiment shows, by `aftereffect.inference`."""

import numpy as np

from aftereffect._core import check_float
from aftereffect.errors import ConflictError, ParameterError, name_field
from aftereffect.inference import LEVELS, Results, Trial, analyse
from aftereffect.live._guardrails import compare_guarded
from aftereffect.live._reading import OpenLog
from aftereffect.live._trials import name_missing, read_trials
from aftereffect.live.settings import Settings, check_limit
from aftereffect.policies import has_probabilities

#: The most arms that are compared: time and memory grow with their number.
MAX_COMPARED = 40
#: The most slots that are read, the first ones, times the number of arms.
MAX_CELLS = 120_000


def check_results(level: object, stop_when_loss_below: object) -> float | None:
    """Check the arguments of `Experiment.results`; return the limit of the rule, if one is given.

    >>> check_results(0.95, 5)
    5.0
    """
    with name_field("level"):
        if check_float("level", level) not in LEVELS:
            raise ParameterError(
                f"level must be one of {', '.join(map(str, LEVELS))}, got {level!r}"
            )
    with name_field("stop_when_loss_below"):
        return check_limit(stop_when_loss_below)


def find_results(log: OpenLog, level: float, stop_when_loss_below: float | None) -> Results:
    """What the totals and draws of a log show; see `Experiment.results`."""
    settings = log.settings
    limit = check_results(level, stop_when_loss_below) or settings.stop_when_loss_below
    with log.reading() as (view, state):
        reason = explain_refusal(settings)
        if reason is not None:
            raise ConflictError(reason)
        decided = state.next_slot
        stopped = tuple(settings.arms[arm] for arm in sorted(state.stopped))
        first, (trial, *guarded) = read_trials(
            view, log.record, state, MAX_CELLS, [None, *settings.guarded]
        )
    obstacle = find_obstacle(trial)
    found = analyse(trial if obstacle is None else _clear(trial), settings.arms, level)
    looks = (look._replace(slots=first + look.slots) for look in found.history)
    return found._replace(
        slots=first + found.slots if found.blocks else 0,
        history=tuple(look._replace(time=settings.find_time(look.slots)) for look in looks),
        unit=settings.unit,
        slot_length=settings.slot,
        stop_when_loss_below=limit,
        guardrails=compare_guarded(settings, settings.guardrails, guarded),
        stopped=stopped,
        obstacle=obstacle,
        plan=settings.plan,
        decided=decided,
    )


def find_obstacle(trial: Trial) -> str | None:
    """Why these totals cannot be compared, in a sentence; None if they can be."""
    known = trial.totals[~np.isnan(trial.totals)]
    if len(known) == 0 or known.sum() > 0:
        return None
    return (
        "Not yet: arms are compared in percent, so the totals must have a positive sum, and that "
        f"of the {len(known):,} totals so far is {known.sum():,.6g}."
    )


def _clear(trial: Trial) -> Trial:
    """A trial of the same arms, in which nothing was played yet."""
    fields = ("totals", "played", "starts", "decided", "probabilities", "places", "history")
    return trial._replace(**{name: getattr(trial, name)[:0] for name in fields})


def explain_refusal(settings: Settings) -> str | None:
    """Why `Experiment.results` cannot compare the arms; None if it can."""
    arms = len(settings.arms)
    if not has_probabilities(settings.policy.initial(arms)):
        return name_missing(settings)
    if arms > MAX_COMPARED:
        return (
            f"results compare at most {MAX_COMPARED} arms, and {settings.name!r} has {arms:,}: the "
            "status has the mean total of each"
        )
    return None

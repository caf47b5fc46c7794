"""Who won, and which arms do harm? What a log shows of both, by `aftereffect.inference`."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from aftereffect._core import check_float
from aftereffect.errors import ConflictError, ParameterError, name_field
from aftereffect.inference import (
    LEVELS,
    GuardedArm,
    Guardrail,
    GuardrailResults,
    Results,
    Trial,
    analyse,
    find_level,
)
from aftereffect.live._reading import OpenLog
from aftereffect.live._state import ExperimentState, Stop
from aftereffect.live._trials import name_missing, read_trials
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings, check_limit
from aftereffect.live.storage import Log, Record
from aftereffect.policies import has_probabilities

#: The slots that are read before a decision, times the number of arms: nobody waits for long. So
#: with two arms, guardrails stop arms in the first 10,000 slots.
MAX_JUDGED = 20_000
#: The most arms that are compared: time and memory grow with their number.
MAX_COMPARED = 40
#: The most slots that are read, the first ones, times the number of arms.
MAX_CELLS = 120_000


def compare_guarded(
    settings: Settings, guardrails: Sequence[Guardrail], trials: Sequence[Trial]
) -> tuple[GuardrailResults, ...]:
    """What the totals of guardrails show of each arm.

    It never fails: what goes wrong in an analysis is the `problem` of its guardrail.
    """
    level = find_level(len(settings.guardrails))
    found = []
    for guardrail, trial in zip(guardrails, trials, strict=True):
        about = (guardrail.name, guardrail.harm, guardrail.tolerated, guardrail.stops, level)
        try:
            with np.errstate(all="ignore"):
                results = analyse(trial, settings.arms, level)
        except Exception as error:
            found.append(GuardrailResults(*about, 0, 0.0, (), _explain(error)))
            continue
        arms = (GuardedArm(*each, guardrail.judge(*each[3:5])) for each in results.effects)
        found.append(GuardrailResults(*about, results.blocks, results.mean, tuple(arms)))
    return tuple(found)


def judge_guardrails(log: Log, record: Record, state: ExperimentState) -> Iterator[Event]:
    """The events to record before the next decision, if guardrails are to be judged now.

    An arm is stopped if a guardrail that may do so shows harm; the control never is. Whatever goes
    wrong, the decision is made without it, and the log says why guardrails cannot be judged.
    """
    if not state.is_judgement_due:
        return
    settings = state.settings
    stopping = [guardrail for guardrail in settings.guardrails if guardrail.stops]
    names = [guardrail.name for guardrail in stopping]
    try:
        _, trials = read_trials(log, record, state, MAX_JUDGED, names)
        found = compare_guarded(settings, stopping, trials)
    except Exception as error:
        found, problem = (), _explain(error)
    else:
        problem = "; ".join(f"{each.guardrail}: {each.problem}" for each in found if each.problem)
    if (problem or None) != state.guardrail_problem:
        text = json.dumps({"problem": problem or None})
        yield state.head.next("judgement", state.next_slot, guardrails=text)
    for number, arm in enumerate(settings.arms[1:], 1):  # the first is the control
        stop = _find_stop(found, arm)
        if stop is not None and number not in state.stopped:
            text = json.dumps(stop._asdict())
            yield state.head.next(
                "stop", state.next_slot, revision=number, arm=number, guardrails=text
            )


def _find_stop(found: tuple[GuardrailResults, ...], arm: str) -> Stop | None:
    """Why to stop an arm: the first guardrail that shows harm."""
    for guardrail in found:
        for guarded in guardrail.arms:
            if guarded.arm == arm and guarded.verdict == "harm shown":
                reason = (
                    f"{guarded.describe_span()} % {guardrail.harm} {guardrail.guardrail} "
                    f"than {guarded.versus}"
                )
                return Stop(guardrail.guardrail, reason)
    return None


def _explain(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


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

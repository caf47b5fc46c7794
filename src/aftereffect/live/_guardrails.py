"""Guardrails of an experiment: compare their totals, and stop arms before a round begins."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from aftereffect.inference import (
    GuardedArm,
    Guardrail,
    GuardrailResults,
    Trial,
    analyse,
    find_level,
)
from aftereffect.live._state import ExperimentState, Stop
from aftereffect.live._trials import read_trials
from aftereffect.live.events import Event
from aftereffect.live.settings import Settings
from aftereffect.live.storage import Log, Record

#: The slots that are read before a decision, times the number of arms: nobody waits for long. So
#: with two arms, guardrails stop arms in the first 10,000 slots.
MAX_JUDGED = 20_000


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

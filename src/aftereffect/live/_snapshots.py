"""Snapshots: a state as text, so that a log need not be read from its beginning."""

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from aftereffect._core import Vector, __version__
from aftereffect.live._arms import Arm
from aftereffect.live._rounds import (
    Asked,
    Backlog,
    Journal,
    Round,
    RoundPlan,
    Shown,
    TotalStatistics,
)
from aftereffect.live._slotwise_state import SlotwiseState
from aftereffect.live._state import ArmTotals, Draws, ExperimentState, SnapshotMark, Stop
from aftereffect.live._unit_state import make_state
from aftereffect.live.events import Link, Snapshot, fingerprint
from aftereffect.live.settings import Settings
from aftereffect.policies import State, map_arrays, named_arrays

#: A snapshot is taken after so many events within a round.
_SNAPSHOT_EVENTS = 200
#: Writing so many slots into a snapshot costs as much as writing one event.
_SLOTS_PER_EVENT = 10
#: Writing so many slots of a journal costs less than deriving an event after it again.
_SLOTS_PER_STEP_AGAIN = 50
#: Arrays of so many bytes are compressed: most of them hold mostly zeros. The mark is not base64.
_MIN_COMPRESSED, _COMPRESSED = 4_096, "zlib:"
#: How many numbers of a step come before its totals.
_NUMBERS = 5
#: The attributes of a state that are JSON as they are.
_PLAIN = (
    *("next_slot", "rounds", "received", "missing", "learned", "planned", "lasted"),
    *("last_total_at", "slots_at_last_total", "ended"),
    *("batches", "notices", "notified", "arm_changes"),
    *("guardrail_problem", "guardrails_received", "guardrails_judged"),
)


def is_snapshot_due(state: ExperimentState) -> bool:
    """Whether to take a snapshot: a round has begun, or there are many events since the last.

    A snapshot that lists many slots is taken less often, so that writing snapshots never costs more
    than writing the events. The state of a policy that looks at every slot is large, and so is a
    journal: they are written after many events only.
    """
    events = state.head.seq - state.last_snapshot.seq
    if state.journal is not None:  # events after it may each make the policy take many steps again
        return events >= max(_SNAPSHOT_EVENTS, state.next_slot // _SLOTS_PER_STEP_AGAIN)
    if isinstance(state, SlotwiseState):
        return events >= max(_SNAPSHOT_EVENTS, state.next_slot // _SLOTS_PER_EVENT)
    current = state.round
    in_round = len(current.totals) + len(current.outstanding) if current else 0
    if events * _SLOTS_PER_EVENT < len(state.backlog.arms) + in_round:
        return False
    return events >= _SNAPSHOT_EVENTS or state.rounds > state.last_snapshot.rounds


def take_snapshot(state: ExperimentState) -> Snapshot:
    """Write a state as text."""
    current, backlog = state.round, state.backlog
    waiting = sorted(backlog.arms)
    fields: dict[str, Any] = {
        "version": __version__,
        "seq": state.head.seq,
        "hash": state.head.hash.hex(),
        **{name: getattr(state, name) for name in _PLAIN},
        "position": str(state.draws.position),
        "retry_plan": state.retry_plan,
        "skipped": state.skipped,
        "arms": state.arms,
        "stopped": [(arm, *stop) for arm, stop in state.stopped.items()],
        "recent_lateness": list(state.recent_lateness),
        "statistics": asdict(state.statistics),
        "policy_state": {name: _pack(array) for name, array in named_arrays(state.policy_state)},
        "arm_totals": {name: _pack(array) for name, array in vars(state.arm_totals).items()},
        "round": None if current is None else _write_round(current),
        "backlog": {
            "slots": _pack(waiting),
            "arms": _pack(backlog.arms[slot] for slot in waiting),
            "totals": _pack(_nan_if_none(backlog.total(slot)) for slot in waiting),
        },
    }
    if state.journal is not None:
        fields["journal"] = _write_journal(state.journal) | {"drawn": state.draws.drawn}
    if isinstance(state, SlotwiseState):
        fields["slots"] = {
            name: _pack(value) if isinstance(value, (list, np.ndarray)) else value
            for name, value in state.write().items()
        }
    text = json.dumps(fields)
    return Snapshot(text, fingerprint(text))


def restore_state(settings: Settings, start: Link, snapshot: Snapshot | None) -> ExperimentState:
    """The state in a snapshot; the state at `start` if there is none, or one of other code."""
    state = make_state(settings, start)
    if snapshot is None:
        return state
    snapshot.check()
    fields = json.loads(snapshot.text)
    names = [name for name, _ in named_arrays(state.policy_state)]
    is_of_this_code = fields["version"] == __version__ and fields.keys() >= {*_PLAIN}
    if not is_of_this_code or list(fields["policy_state"]) != names:
        return state
    if fields["arm_changes"]:
        state.set_arms(tuple(Arm(*arm) for arm in fields["arms"]))
    if isinstance(state, SlotwiseState):
        written = fields["slots"]
        state.read(
            {
                name: _unpack(value).tolist() if isinstance(value, str) else value
                for name, value in written.items()
            }
        )
    state.head = Link(fields["seq"], bytes.fromhex(fields["hash"]))
    state.last_snapshot = SnapshotMark(fields["seq"], fields["rounds"])
    for name in _PLAIN:
        setattr(state, name, fields[name])
    state.draws = Draws(settings.seed, int(fields["position"]))
    state.retry_plan = None if fields["retry_plan"] is None else RoundPlan(*fields["retry_plan"])
    state.skipped = [(first, last) for first, last in fields["skipped"]]
    state.stopped = {arm: Stop(guardrail, why) for arm, guardrail, why in fields["stopped"]}
    state.recent_lateness.extend(fields["recent_lateness"])
    state.statistics = TotalStatistics(**fields["statistics"])
    for name, array in named_arrays(state.policy_state):
        array.flat[:] = _unpack(fields["policy_state"][name])
    state.arm_totals = ArmTotals(
        **{name: _unpack(text) for name, text in fields["arm_totals"].items()}
    )
    state.round = None if fields["round"] is None else _read_round(fields["round"])
    state.backlog = _read_backlog(fields["backlog"])
    if "journal" in fields:
        state.journal = _read_journal(fields["journal"], state.policy_state)
        state.draws.drawn = fields["journal"]["drawn"]
    return state


def _write_round(current: Round) -> dict[str, Any]:
    slots = sorted(current.totals)
    return {
        "number": current.number,
        "plan": current.plan,
        "until": current.until,
        "outstanding": _pack(current.outstanding),
        "slots": _pack(slots),
        "totals": _pack(_nan_if_none(current.totals[slot]) for slot in slots),
        "probabilities": current.probabilities,
        **({"arms": current.arms} if current.arms else {}),
    }


def _read_round(fields: dict[str, Any]) -> Round:
    totals = zip(_unpack_slots(fields["slots"]), _unpack(fields["totals"]).tolist(), strict=True)
    return Round(
        fields["number"],
        RoundPlan(*fields["plan"]),
        fields["until"],
        outstanding=dict.fromkeys(_unpack_slots(fields["outstanding"])),
        totals={slot: None if np.isnan(total) else total for slot, total in totals},
        probabilities=fields["probabilities"],
        arms=tuple(fields.get("arms", ())),
    )


def _read_backlog(fields: dict[str, Any]) -> Backlog:
    backlog = Backlog()
    slots, arms = _unpack_slots(fields["slots"]), _unpack_slots(fields["arms"])
    for slot, arm, total in zip(slots, arms, _unpack(fields["totals"]).tolist(), strict=True):
        if np.isnan(total):
            backlog.add_slot(slot, arm)
        else:
            backlog.add_total(slot, arm, total)
    return backlog


def _write_journal(journal: Journal) -> dict[str, Any]:
    """The steps as lists of numbers; of a round, late totals come last."""
    heads: list[tuple[float, ...]] = []
    slots: list[int] = []
    totals: list[float] = []
    for step in journal.steps:
        if isinstance(step, Asked):
            heads.append((*step, *[-1] * (_NUMBERS - 2)))
            continue
        plan = (step.arm, step.until, step.window)
        heads.append((*plan, len(step.totals), len(step.late)))
        slots += [*step.totals, *step.late]
        totals += [*map(_nan_if_none, step.totals.values()), *step.late.values()]
    return {
        "steps": _pack(np.array(heads, np.float64).ravel()),
        "slots": _pack(slots),
        "totals": _pack(totals),
        "changed": journal.changed,
        "states": [
            (step, {name: _pack(array) for name, array in named_arrays(state)})
            for step, state in journal.states.items()
        ],
    }


def _read_journal(fields: dict[str, Any], blank: State) -> Journal:
    """What `_write_journal` wrote; `blank` is a state of the policy."""
    slots = iter(_unpack_slots(fields["slots"]))
    totals = iter(_unpack(fields["totals"]).tolist())
    steps: list[Asked | Shown] = []
    for row in np.reshape(_unpack(fields["steps"]), (-1, _NUMBERS)).astype(int).tolist():
        arm, until, window, count, late_count = row
        if late_count < 0:
            steps.append(Asked(*row[:2]))
            continue
        known = {
            slot: None if np.isnan(total := next(totals)) else total
            for slot in islice(slots, count)
        }
        late = {slot: next(totals) for slot in islice(slots, late_count)}
        steps.append(Shown(arm, until, window, known, late))
    journal = Journal(steps)
    journal.changed = fields["changed"]
    for step, arrays in fields["states"]:
        journal.states[step] = map_arrays(np.copy, blank)
        for name, array in named_arrays(journal.states[step]):
            array.flat[:] = _unpack(arrays[name])
    return journal


def _nan_if_none(total: float | None) -> float:
    return np.nan if total is None else total


def _pack(numbers: Iterable[float] | Vector) -> str:
    array = np.asarray(numbers if isinstance(numbers, np.ndarray) else list(numbers), np.float64)
    given = array.astype("<f8").tobytes()
    if len(given) < _MIN_COMPRESSED:
        return base64.b64encode(given).decode()
    return _COMPRESSED + base64.b64encode(zlib.compress(given, 1)).decode()


def _unpack(text: str) -> Vector:
    given = base64.b64decode(text.removeprefix(_COMPRESSED))
    if text.startswith(_COMPRESSED):
        given = zlib.decompress(given)
    return np.frombuffer(given, dtype="<f8").astype(np.float64)


def _unpack_slots(text: str) -> list[int]:
    """Integers from packed floats: slots are below 2^40, so floats hold them exactly."""
    return [int(number) for number in _unpack(text).tolist()]

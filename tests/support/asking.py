"""What tests of the rules of live experiments share: an experiment, its log and state, and refusals."""

import re

import pytest

import aftereffect as ae

SETTINGS = {"arms": ["A", "B", "C"], "policy": "ars-ucb", "reward_range": (0, 200)}


def created(name="banner", storage="memory://", **settings):
    return ae.Experiment.create(name, **(SETTINGS | settings), storage=storage)


def events(experiment):
    with experiment.storage.reading(1) as view:
        return view.events(0, 10**6)


def state(experiment):
    """What the policy knows when the next slot is decided."""
    with experiment._log.reading() as (_, state):
        return state.look_ahead().policy_state


def refused(experiment, error, message, call):
    """It is refused with that message, and the log is as it was."""
    before = events(experiment)
    with pytest.raises(error, match=re.escape(message)):
        call()
    assert events(experiment) == before
    assert experiment.verify().whole

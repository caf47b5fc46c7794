"""`follow` says at each look what `analyse` says of the slots that were known then."""

import numpy as np
import pytest

from aftereffect.inference import Trial, analyse, follow

LIMIT = 2.0


def make_trial(arms, lift):
    rng = np.random.default_rng(arms)
    starts, days = np.arange(0, 200, 2), 200
    decided = rng.choice(arms, len(starts))
    played = np.repeat(decided, 2)
    totals = 500 * (1 + lift * (played == 1)) * np.exp(rng.normal(0, 0.03, days))
    totals[[7, 50]] = np.nan
    chances = np.full((len(starts), arms), 1 / arms)
    return Trial(totals, played, starts, decided, chances, np.zeros(days, int))


def cut(trial, slots):
    """The record after so many slots."""
    blocks = int((trial.starts < slots).sum())
    return trial._replace(
        totals=trial.totals[:slots],
        played=trial.played[:slots],
        places=trial.places[:slots],
        starts=trial.starts[:blocks],
        decided=trial.decided[:blocks],
        probabilities=trial.probabilities[:blocks],
    )


@pytest.mark.parametrize(("arms", "lift"), [(2, 0.1), (3, 0.15), (3, 0.0)])
def test_each_look_is_that_of_an_analysis_then(arms, lift):
    trial, names = make_trial(arms, lift), "ABC"[:arms]
    course = follow(trial, LIMIT)
    assert course.slots[0] == 0
    assert len(course.slots) > 40
    # A block has ended when the next one has begun, so a look needs one slot more. Where that slot
    # is already the next look, there is no record in which this look is the last.
    looks = 1 + np.flatnonzero(np.diff(course.slots[1:]) > 1)[::9]
    assert len(looks) > 4
    for look in looks:
        found = analyse(cut(trial, int(course.slots[look]) + 1), names)
        assert found.slots == course.slots[look]
        assert names[course.leaders[look]] == found.leader
        assert course.losses[look] == pytest.approx(found.loss, rel=0.02)
        shown = [name for name, is_it in zip(names, course.is_better[look], strict=True) if is_it]
        assert shown == [each.arm for each in found.effects if (each.low or -1) > 0]


def test_it_stops_at_the_first_look_at_which_results_say_so():
    trial, names = make_trial(3, 0.15), "ABC"
    course = follow(trial, LIMIT)
    says = [
        analyse(cut(trial, int(slots) + 1), names)._replace(stop_when_loss_below=LIMIT).stops
        for slots in course.slots[: course.stop + 3]
    ]
    assert says == [False] * course.stop + [True] * 3
    assert course.leaders[course.stop] == 1


def test_it_does_not_stop_where_too_little_is_known():
    trial = make_trial(2, 0.0)
    course = follow(cut(trial, 30), 1e9)
    assert course.stop is None or course.slots[course.stop] > 0
    assert follow(trial, 1e-12).stop is None

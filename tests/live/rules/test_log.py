"""Everything follows from the log: for several clients and threads, after an interrupt, from a snapshot, in another version, and whatever the clock says."""

import pytest

import aftereffect as ae
from asking import created


def test_an_interrupt_while_looking_ahead_leaves_nothing_behind(monkeypatch):
    experiment = created(policy="exp3", horizon=1_000, seed=1)
    for slot in range(5):
        experiment.ask()
        experiment.tell(slot, slot)
    with experiment._log.reading() as (_, state):
        kernels = state.kernels

    def interrupted(*given):
        kernels.decide(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(state, "kernels", kernels._replace(decide=interrupted))
        with pytest.raises(KeyboardInterrupt):
            experiment.status()
    for slot in range(5, 20):
        experiment.ask()
        experiment.tell(slot, slot)
    checked = experiment.verify()
    assert checked.whole
    assert checked.difference is None


def test_two_who_hold_the_same_experiment_see_each_other(connect):
    one, two = created(storage=connect()), created(storage=connect())
    assert one.ask().slot == 0
    assert two.ask(0) == one.ask(0)
    two.tell(0, 5)
    assert one.ask().slot == 1
    assert two.ask().slot == 2
    assert one.tell(0, 5).change == "unchanged"
    with pytest.raises(ae.ConflictError):
        one.tell(0, 6)
    assert one.status() == two.status()
    one.tell_many([(1, 1), (2, 1)])
    assert two.status().slots == one.status().slots == 3
    assert one.ask(3) == two.ask(3)  # the second knew nothing of it when it asked
    assert two.status().slots == 4


def test_long_logs_are_read_in_pieces(monkeypatch):
    from aftereffect.live import _reading as reading

    experiment = created()
    for slot in range(40):
        experiment.ask()
        experiment.tell(slot, slot)
    status, history = experiment.status(), experiment.history()
    monkeypatch.setattr(reading, "_PIECE", 7)
    monkeypatch.setattr(reading, "_SLOTS", 3)
    experiment.storage._find(1).visible = 80, None
    again = ae.Experiment.open("banner", storage=experiment.storage)
    assert again.status() == status
    assert again.history() == history
    assert [line.slot for line in again.history(after=4, limit=5)] == [5, 6, 7, 8, 9]
    assert again.history(after=38, limit=5) == history[39:]
    assert again.verify()[:4] == ("banner", 80, 40, status.rounds)


def test_a_clock_that_jumps_changes_nothing(monkeypatch):
    from aftereffect.live import events as log

    times = iter([f"20{year}-01-01T00:00:00+00:00" for year in (30, 20, 99, 10) * 20])
    monkeypatch.setattr(log, "now", lambda: next(times))
    experiment = created(seed=1)
    for slot in range(10):
        experiment.ask()
        experiment.tell(slot, slot)
    assert experiment.verify().whole
    monkeypatch.undo()
    other = created(seed=1)
    for slot in range(10):
        assert other.ask() == experiment.ask(slot)
        other.tell(slot, slot)


def test_a_snapshot_only_saves_time():
    """Taken by another version, or not there, the log alone gives the same."""
    storage = ae.open_storage("memory://")
    experiment = created(storage=storage, seed=3)
    for slot in range(40):
        experiment.ask()
        experiment.tell(slot, slot % 7)
    status = experiment.status()
    stored = storage._find(1)
    count, saved = stored.visible
    strange = saved._replace(text=saved.text.replace('"missing": ', '"missing": 9'))
    for snapshot in (saved, None, of_version(saved, "0.0.9"), of_version(strange, "0.0.9")):
        stored.visible = count, snapshot
        assert ae.Experiment.open("banner", storage=storage).status() == status
        assert experiment.verify().whole


def of_version(snapshot, version):
    from aftereffect.live.events import fingerprint

    text = snapshot.text.replace(f'"version": "{ae.__version__}"', f'"version": "{version}"')
    assert text != snapshot.text
    return type(snapshot)(text, fingerprint(text))


def test_decisions_of_another_version_are_not_damage(monkeypatch):
    """Where today's code would decide otherwise, what was decided stands, and verify says from where on."""
    from aftereffect.live import events as log

    storage = ae.open_storage("memory://")
    with monkeypatch.context() as patch:
        patch.setattr(log, "__version__", "0.0.7")
        patch.setattr(ae.ArsUcb, "kernels", lambda self: ae.Ucb1().kernels())
        patch.setattr(ae.ArsUcb, "initial", lambda self, arms: ae.Ucb1().initial(arms))
        old = created(storage=storage)
        for slot in range(12):
            old.ask()
            old.tell(slot, slot)
        storage._find(1).visible = 24, None
    experiment = ae.Experiment.open("banner", storage=storage)
    checked = experiment.verify()
    assert checked.whole
    assert checked.difference == (3, "0.0.7")
    assert str(checked) == (
        "banner: whole, 24 events, 12 slots, 12 rounds; version 0.0.7 decided, "
        f"and this version, {ae.__version__}, would differ from slot 3 on"
    )
    assert [line.round for line in experiment.history()] == list(range(12))
    assert [line.arm for line in experiment.history()] == [
        decided.arm for decided in map(old.ask, range(12))
    ]
    assert experiment.ask().slot == 12
    assert experiment.tell(12, 1).change == "recorded"


def test_threads_may_share_an_experiment(connect):
    from concurrent.futures import ThreadPoolExecutor

    experiment = created(storage=connect())

    def pairs(_):
        numbers = []
        for _ in range(10):
            slot = experiment.ask()
            experiment.tell(slot.slot, 1)
            numbers.append(slot.slot)
        return numbers

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for part in pool.map(pairs, range(4)) for number in part]
    assert sorted(numbers) == list(range(40))
    assert experiment.status().received == 40
    assert experiment.verify().whole

"""What the page draws is proved by the log: a right picture, or an error."""

import random
import shutil
import sqlite3
from collections import Counter

import pytest

import aftereffect as ae
from aftereffect.service import create_token, find_scope
from aftereffect.service._timeline import Timeline
from databases import played, url
from services import call, in_thread

FLIPS = 600


def picture(path):
    """All that a timeline knows, as a page would ask for it."""
    with ae.open_storage(url(path)) as storage:
        timeline = Timeline(ae.Experiment.open("banner", storage=storage))
        arms, totals = timeline.first_slots(10**6)
        return repr((timeline.summarize(400), arms, totals))


def with_history(path):
    """The same from the history, which is proved in another way."""
    with ae.open_storage(url(path)) as storage:
        experiment = ae.Experiment.open("banner", storage=storage)
        return [(line.arm, line.round, line.total) for line in experiment.history()]


@pytest.fixture
def database(tmp_path):
    """An experiment with a log of some pages, and two tokens."""
    path = played(tmp_path / "whole.db", slots=200)
    with ae.open_storage(url(path)) as storage:
        made = [create_token(storage, scope, "for a test")[0] for scope in ("read", "admin")]
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path, made


def test_a_flipped_bit_never_changes_the_picture(database, tmp_path):
    path, _ = database
    truth, data = picture(path), path.read_bytes()
    target = tmp_path / "flipped" / "whole.db"
    rng, found = random.Random(15), Counter()
    for _ in range(FLIPS):
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        target.parent.mkdir()
        target.write_bytes(flipped)
        try:
            assert picture(target) == truth, (
                f"bit {bit} of byte {place} changes the picture, and nobody noticed"
            )
            found["right"] += 1
        except (ae.StorageError, ae.NotFoundError) as error:
            found["refused" if "\n" not in str(error) else "in several lines"] += 1
        shutil.rmtree(target.parent)
    assert min(found["refused"], found["right"]) > 100, found
    assert found["in several lines"] == 0


def test_a_flipped_bit_never_changes_a_token(database, tmp_path):
    """Bits of the pages with the tokens, one by one: a token opens what it opened, or nothing."""
    path, made = database
    data = path.read_bytes()
    begin = data.index(b"for a test") - 200
    target = tmp_path / "flipped" / "whole.db"
    found = Counter()
    scopes = ["read", "admin"]
    for place in range(begin, data.rindex(b"for a test") + 200, 3):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        target.parent.mkdir()
        target.write_bytes(flipped)
        with ae.open_storage(url(target)) as storage:
            for token, scope in zip(made, scopes, strict=True):
                try:
                    opened = find_scope(token, storage)
                    assert opened in (scope, None), f"byte {place}: {scope} became {opened}"
                    found[opened == scope] += 1
                except ae.StorageError as error:
                    found["refused" if "\n" not in str(error) else "in several lines"] += 1
            try:
                known = storage.tokens()
                assert [record.scope for record in known] in (scopes, scopes[:1], scopes[1:], []), (
                    known
                )
            except ae.StorageError:
                found["list refused"] += 1
        shutil.rmtree(target.parent)
    assert min(found[True], found["refused"]) > 20, found
    assert found["in several lines"] == 0


@pytest.mark.parametrize(
    "change",
    [
        "scope = 'admin'",
        "scope = x'00ff'",
        "label = CAST(x'61ff' AS TEXT)",
        "label = label || 'x'",
        "created_at = 'yesterday'",
        "revoked_at = x'ff'",
        "revoked_at = 'never'",
        "digest = 'text'",
        "seal = NULL",
        "seal = zeroblob(32)",
        "id = 7",
    ],
)
def test_a_changed_token_is_told_and_can_be_revoked(database, change):
    path, made = database
    with sqlite3.connect(path) as connection:
        assert (
            connection.execute(f"UPDATE aftereffect_tokens SET {change} WHERE id = 1").rowcount == 1
        )
    connection.close()
    number = 7 if change == "id = 7" else 1
    with ae.open_storage(url(path)) as storage:
        said = f"token {number} is not what was recorded"
        with pytest.raises(ae.CorruptionError, match=said) as caught:
            storage.tokens()
        (problem,) = storage.examine()
        assert problem in str(caught.value)
        assert ae.Experiment.open("banner", storage=storage).verify().problems == (problem,)
        if change != "digest = 'text'":  # that one is not found at all
            with pytest.raises(ae.CorruptionError, match=said):
                find_scope(made[0], storage)
        assert find_scope(made[1], storage) == "admin"
        assert storage.revoke_token(number, "today").revoked_at is not None
        assert storage.examine() == []
        assert len(storage.tokens()) == 2
        assert find_scope(made[0], storage) is None


def test_the_last_event_is_proved_too(database):
    path, _ = database
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE aftereffect_events SET total = 4.5 WHERE seq = 12")
    connection.close()
    with ae.open_storage(url(path)) as storage:
        timeline = Timeline(ae.Experiment.open("banner", storage=storage))
        for _ in range(2):  # and what was read before the error is not taken for all of it
            with pytest.raises(
                ae.CorruptionError,
                match=r"'banner' is damaged, .*event 12 of the log is not what was recorded",
            ):
                timeline.summarize(400)


def test_after_a_back_up_was_restored_under_a_running_service(tmp_path):
    """By SQLite's own way, which writes into the file that is open; the log grows on beyond where it was."""
    path, copy = tmp_path / "live.db", tmp_path / "copy.db"
    with in_thread(url(path)) as service, ae.open_storage(url(path)) as storage:
        experiment = ae.Experiment.create(
            "banner", arms=["A", "B"], policy="ucb1", reward_range=(0, 9), storage=storage
        )

        def play(slots, total):
            for _ in range(slots):
                experiment.tell(experiment.ask().slot, total)

        def restore(source, target):
            with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
                old.backup(new)
            old.close()
            new.close()

        play(60, 1)
        restore(path, copy)
        play(40, 2)
        assert call(service, "GET", "/v1/experiments/banner/timeline")[1]["slots"] == 100
        restore(copy, path)
        seen = call(service, "GET", "/v1/experiments/banner/timeline")[1]
        assert (seen["slots"], seen["pieces"][-1]["high"]) == (60, 1.0)
        play(70, 3)
        seen = call(service, "GET", "/v1/experiments/banner/timeline?pieces=2000")[1]
        shown = [
            (experiment.settings.arms[piece["arm"]], piece["mean"]) for piece in seen["pieces"]
        ]
        assert shown == [(line.arm, line.total) for line in experiment.history()]
        assert [total for _, total in shown[60:]] == [3.0] * 70


def test_the_picture_is_that_of_the_history(database):
    path, _ = database
    with ae.open_storage(url(path)) as storage:
        experiment = ae.Experiment.open("banner", storage=storage)
        _, _, pieces = Timeline(experiment).summarize(10**6)
    shown = [(experiment.settings.arms[piece.arm], piece.round, piece.mean) for piece in pieces]
    assert shown == with_history(path)


def test_a_timeline_shows_what_was_played_and_gaps():
    experiment = ae.Experiment.create(
        "gap", arms=["A", "B"], policy="ars-ucb", reward_range=(0, 10), storage="memory://"
    )
    for slot in (0, 1):
        experiment.ask(slot)
    experiment.tell(0, 5, arm="B")
    experiment.skip(2, 4)
    experiment.tell(3, 7, arm="A")
    experiment.ask(5)
    timeline = Timeline(experiment)
    slots, width, pieces = timeline.summarize(100)
    assert (slots, width) == (6, 1)
    assert [(piece.arm, piece.round, piece.mean) for piece in pieces] == [
        (1, 0, 5.0),
        (0, 0, None),
        (None, None, None),
        (0, None, 7.0),
        (None, None, None),
        (0, 1, None),  # of the first round nothing is known, so that it is planned again
    ]
    assert pieces[-1].pulls == [3, 1]
    assert timeline.first_slots(10)[0].tolist() == [1, 0, -1, 0, -1, 0]

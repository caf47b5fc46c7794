"""Databases that were damaged, changed or are something else: a clear error, nothing invented, nothing made worse."""

import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections import defaultdict

import pytest

import aftereffect as ae
from aftereffect.live.events import Link, fingerprint, is_intact
from aftereffect.live.storage import _schema as schema
from databases import SETTINGS, contents, everything, lines_of, url

#: Of bytes in which a bit is flipped; every event has about 150.
STRIDE = 31


@pytest.mark.slow
def test_a_flipped_bit_in_any_row_is_noticed(whole, tmp_path):
    """Bits are flipped all over the file, until every event was hit in many places."""
    truth = everything(whole)
    assert truth[0] == "answers"
    before = lines_of(whole)
    data = whole.read_bytes()
    hit, answers = defaultdict(int), defaultdict(int)
    target = tmp_path / "flipped" / "whole.db"
    target.parent.mkdir()
    for place in range(0, len(data), STRIDE):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place // STRIDE % 8)
        target.write_bytes(flipped)
        changed = set()
        try:
            after = lines_of(target)
            changed = {
                row
                for row, (a, b) in enumerate(
                    zip(before["aftereffect_events"], after["aftereffect_events"], strict=True)
                )
                if a != b
            }
        except (sqlite3.Error, ValueError):
            after = None
        for row in changed:
            hit[row] += 1
        kind, said = everything(target)
        answers[kind] += 1
        if kind == "error":
            assert isinstance(said, (ae.StorageError, ae.NotFoundError)), said
            assert "\n" not in str(said)
        elif kind == "answers":
            assert after == before, f"byte {place}: data changed, and nobody noticed"
            assert said == truth[1]
        for file in target.parent.iterdir():
            file.unlink()
    assert len(hit) == len(before["aftereffect_events"])
    assert answers["error"] + answers["verify"] > 200


def test_every_cell_of_every_event_is_proved(whole, tmp_path):
    """Changed by SQL, so that SQLite itself finds nothing: each cell of each row."""
    changes = {
        "kind": "'other'",
        "slot": "slot + 1000",
        "revision": "revision + 7",
        "round": "coalesce(round, 0) + 1",
        "arm": "CASE WHEN arm IS NULL THEN 0 ELSE NULL END",
        "until": "coalesce(until, 0) + 1",
        "window": "coalesce(window, 0) + 1",
        "total": "coalesce(total, 0) + 0.001",
        "version": "version || ' '",
        "at": "'2000-01-01'",
        "key": "'k' || seq",
        "probabilities": "'[1.0, 0.0]'",
        "covariates": "'[1.0, null]'",
        "guardrails": "'{}'",
        "units": "'[0, 1]'",
        "hash": "zeroblob(32)",
    }
    assert set(changes) | {"experiment", "seq"} == {column.name for column in schema.events.columns}
    target = tmp_path / "changed.db"
    with sqlite3.connect(whole) as connection:
        numbers = [row[0] for row in connection.execute("SELECT seq FROM aftereffect_events")]
    connection.close()
    for place, number in enumerate(numbers):
        column = list(changes)[place % len(changes)]
        assert changed_by(
            whole,
            target,
            f"UPDATE aftereffect_events SET {column} = {changes[column]} WHERE seq = {number}",
        ) in (
            "error",
            "verify",
        )
    for column, change in changes.items():
        for number in (1, 2, numbers[-1]):
            statement = f"UPDATE aftereffect_events SET {column} = {change} WHERE seq = {number}"
            assert changed_by(whole, target, statement) in ("error", "verify"), statement


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM aftereffect_events WHERE seq = 50",
        "DELETE FROM aftereffect_events WHERE seq < 3",
        "DELETE FROM aftereffect_events WHERE seq > 20",
        "UPDATE aftereffect_experiments SET settings = replace(settings, '200', '201')",
        "UPDATE aftereffect_experiments SET settings = x'00'",
        "UPDATE aftereffect_experiments SET digest = zeroblob(32)",
        "UPDATE aftereffect_experiments SET snapshot = replace(snapshot, '\"missing\": ', '\"missing\": 1')",
        "UPDATE aftereffect_experiments SET snapshot_digest = NULL",
        "UPDATE aftereffect_experiments SET snapshot = NULL",
        "UPDATE aftereffect_experiments SET snapshot = '{}', snapshot_digest = zeroblob(32)",
        "UPDATE aftereffect_schema SET version = 0",
        "DELETE FROM aftereffect_schema",
        "INSERT INTO aftereffect_schema VALUES (1)",
        "DROP TABLE aftereffect_events",
    ],
)
def test_changes_from_outside_are_noticed(whole, tmp_path, statement):
    assert changed_by(whole, tmp_path / "changed.db", statement) in ("error", "verify")


def changed_by(whole, target, statement):
    shutil.copy(whole, target)
    with sqlite3.connect(target) as connection:
        assert connection.execute(statement).rowcount != 0
    connection.close()
    kind, said = everything(target)
    if kind == "error":
        assert isinstance(said, ae.StorageError), said
    return kind


def forged(snapshot, old, new):
    """Changed, and given the digest that it would have."""
    text = snapshot.text.replace(old, new)
    assert text != snapshot.text
    return snapshot._replace(text=text, digest=fingerprint(text))


def test_a_snapshot_that_is_not_the_fold_of_the_log(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with experiment.storage.writing(1) as log:
        log.save(forged(log.snapshot(), '"missing": ', '"missing": 1'))
    (problem,) = experiment.verify().problems
    assert re.fullmatch(
        "the snapshot that was taken at event [0-9]+ does not agree with the log", problem
    )


def test_a_log_that_is_shorter_than_its_snapshot(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("DELETE FROM aftereffect_events WHERE seq > 100")
    connection.close()
    checked = ae.Experiment.open("banner", storage=url(whole), check=False).verify()
    (problem,) = checked.problems
    assert re.fullmatch(
        "the log ends with event 100, but the snapshot was taken at event [0-9]+", problem
    )


def test_a_log_that_was_written_anew_does_not_fit_its_snapshot(whole):
    """Whoever changes the last event and its hash along with it."""
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with experiment.read_log() as view:
        seq = json.loads(view.snapshot().text)["seq"]
        before, last = view.events(seq - 2, 2)
    other = Link(before.seq, before.hash).next("total", last.slot, round=last.round, total=3.5)
    with sqlite3.connect(whole) as connection:
        connection.execute(
            "UPDATE aftereffect_events SET total = ?, at = ?, hash = ? WHERE seq = ?",
            (other.total, other.at, other.hash, seq),
        )
    connection.close()
    with pytest.raises(ae.CorruptionError, match="its snapshot does not belong to its log"):
        ae.Experiment.open("banner", storage=url(whole))


def test_problems_of_the_medium_are_reported(whole, monkeypatch):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    assert experiment.storage.examine() == []
    with sqlite3.connect(whole) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'aftereffect_keys'")
    connection.close()
    found = ae.open_storage(url(whole)).examine()
    assert any("never used" in line for line in found), found
    again = ae.Experiment.open("banner", storage=url(whole)).verify()
    assert not again.whole
    assert again.problems[: len(found)] == tuple(found)


def test_a_log_that_became_shorter_under_a_running_client(whole):
    """A back-up was restored, say: the client goes on with what is there, and leaves no gap."""
    copy = whole.read_bytes()
    experiment = ae.Experiment.open("banner", storage=url(whole))
    for _ in range(10):
        experiment.tell(experiment.ask().slot, 1)
    assert experiment.status().slots == 70
    experiment.storage.close()
    whole.write_bytes(copy)
    assert experiment.ask().slot == 60
    assert experiment.verify().whole


def test_decisions_and_totals_that_are_gone(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with sqlite3.connect(whole) as connection:
        connection.execute("DELETE FROM aftereffect_events WHERE slot = 3")
        connection.execute("DELETE FROM aftereffect_events WHERE slot = 5 AND kind = 'total'")
    connection.close()
    for call in (
        lambda: experiment.ask(3),
        lambda: experiment.tell(3, 1),
        lambda: experiment.tell(5, 0),
        lambda: experiment.history(after=1, limit=3),
    ):
        with pytest.raises(ae.CorruptionError, match=r"the log|is not what was recorded"):
            call()


def test_exporting_a_damaged_experiment_says_so(whole, tmp_path):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_events SET total = 4.5 WHERE seq = 6")
    connection.close()
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with pytest.raises(ae.CorruptionError, match="experiment 'banner' is damaged"):
        experiment.export(tmp_path / "x.csv")
    assert not (tmp_path / "x.csv").exists()


def test_verify_goes_on_beyond_a_damaged_snapshot(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_experiments SET snapshot = '{}'")
    connection.close()
    checked = ae.Experiment.open("banner", storage=url(whole), check=False).verify()
    assert (checked.events, checked.slots, checked.problems) == (
        120,
        60,
        ("its snapshot is not what was recorded",),
    )


def test_a_damaged_experiment_is_named_and_not_written_to(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute(
            "UPDATE aftereffect_events SET total = 4.5 WHERE seq = (SELECT max(seq) FROM aftereffect_events)"
        )
    connection.close()
    before = lines_of(whole)
    for call in (
        lambda: ae.Experiment.open("banner", storage=url(whole)),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).ask(),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).tell(59, 1),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).end(),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).history(after=55),
    ):
        with pytest.raises(
            ae.CorruptionError,
            match=r"experiment 'banner' is damaged, .*event 120 .* is not what was recorded",
        ):
            call()
    assert lines_of(whole) == before
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url(whole))
    assert str(experiment.verify()) == (
        "banner: damaged; 119 events, 60 slots, 50 rounds passed the check\nevent 120 of the log is not what was recorded"
    ).replace("50 rounds", f"{experiment.verify().rounds} rounds")


def test_an_old_decision_is_proved_when_it_is_asked_for_again(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with sqlite3.connect(whole) as connection:
        connection.execute(
            "UPDATE aftereffect_events SET arm = 2 - arm WHERE kind = 'decision' AND slot = 3"
        )
        connection.execute(
            "UPDATE aftereffect_events SET total = 1.5 WHERE kind = 'total' AND slot = 5"
        )
    connection.close()
    assert experiment.ask(2).slot == 2
    for slot, call in (
        (3, lambda: experiment.ask(3)),
        (5, lambda: experiment.tell(5, 0)),
        (3, experiment.history),
    ):
        with pytest.raises(
            ae.CorruptionError, match=f"about slot {slot}, is not what was recorded"
        ):
            call()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_truncated_file(whole, share):
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * share)])
    before = contents(whole)
    kind, said = everything(whole)
    assert kind in ("error", "verify")
    if share == 0:
        assert isinstance(said, ae.NotFoundError)  # an empty file is an empty database
    elif kind == "error":
        assert isinstance(said, ae.StorageError)
        with pytest.raises(ae.StorageError):
            ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).ask()
    assert contents(whole)["whole.db"] == before["whole.db"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"slot,total\n0,37\n" * 200,
            "the file is not an SQLite database, or its beginning is damaged",
        ),
        (os.urandom(4096), "the file is not an SQLite database, or its beginning is damaged"),
    ],
    ids=["csv", "random"],
)
def test_a_file_that_is_no_database(tmp_path, content, message):
    path = tmp_path / "live.db"
    path.write_bytes(content)
    for call in (
        lambda: ae.Experiment.open("banner", storage=url(path)),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(path)),
    ):
        with pytest.raises(ae.StorageError, match=f"^{re.escape(url(path))}: {message}$"):
            call()
    assert contents(path) == {"live.db": content}


def test_a_database_of_another_program(tmp_path):
    path = tmp_path / "live.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'banner'"):
        ae.Experiment.open("banner", storage=url(path))
    with pytest.raises(ae.StorageError, match=r"the file is a database of another program"):
        ae.Experiment.create("banner", **SETTINGS, storage=url(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    connection.close()
    assert len(path.read_bytes()) == len(before)


def find_by_key(path, slots=60):
    """An experiment whose every slot was asked for with a key."""
    experiment = ae.Experiment.create("banner", **SETTINGS, seed=1, storage=url(path))
    for slot in range(slots):
        experiment.ask(key=f"key-{slot}")
    experiment.storage.close()
    return path


def test_a_key_that_the_index_lost_decides_nothing_twice(tmp_path):
    """An index that lacks one entry, as a flipped bit in it can bring about; SQLite finds nothing wrong while it reads."""
    path = find_by_key(tmp_path / "live.db")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        old = "SELECT sql FROM sqlite_master WHERE name = 'aftereffect_keys'"
        (statement,) = connection.execute(old).fetchone()
        connection.execute("DROP INDEX aftereffect_keys")
        connection.execute(statement.replace("IS NOT NULL", "<> 'key-20'"))
        connection.execute(
            "UPDATE sqlite_master SET sql = ? WHERE name = 'aftereffect_keys'", (statement,)
        )
    connection.close()
    with sqlite3.connect(path) as connection:
        lost = connection.execute(
            "SELECT seq FROM aftereffect_events WHERE experiment = 1 AND key = 'key-20'"
        ).fetchall()
    connection.close()
    assert lost == []
    before = lines_of(path)
    for _ in range(2):
        with ae.open_storage(url(path)) as storage:
            experiment = ae.Experiment.open("banner", storage=storage)
            assert experiment.ask(key="key-19").slot == 19
            with pytest.raises(
                ae.CorruptionError,
                match="event 21 of the log has the key 'key-20', but the index of keys does",
            ):
                experiment.ask(key="key-20")
            assert not experiment.verify().whole
    assert lines_of(path) == before
    experiment = ae.Experiment.open("banner", storage=url(path))
    assert [experiment.ask(key=key).slot for key in ("new", "new", "newer", "new")] == [
        60,
        60,
        61,
        60,
    ]


def test_a_flipped_bit_in_the_index_of_keys(tmp_path):
    """Asked by every key again: the slot that it stands for, or an error."""
    path = find_by_key(tmp_path / "live.db", slots=40)
    data = path.read_bytes()
    target = tmp_path / "flipped" / "live.db"
    answers = defaultdict(int)
    # A key stands in the table and in its index; this is the page where keys follow each other
    # closely.
    size = 4096
    page = max(
        range(0, len(data), size), key=lambda begin: data[begin : begin + size].count(b"key-")
    )
    assert data[page : page + size].count(b"key-") >= 40
    for place in range(page, page + size, 23):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        target.parent.mkdir()
        target.write_bytes(flipped)
        try:
            with ae.open_storage(url(target)) as storage:
                experiment = ae.Experiment.open("banner", storage=storage)
                for slot in range(40):
                    assert experiment.ask(key=f"key-{slot}").slot == slot, f"byte {place}"
            answers["right"] += 1
        except ae.StorageError:
            answers["refused"] += 1
        shutil.rmtree(target.parent)
    assert min(answers["right"], answers["refused"]) > 10, answers


def test_keys_of_a_log_that_was_restored(tmp_path):
    """What was known of the log before is forgotten: a key is free again if its event is gone."""
    path = find_by_key(tmp_path / "live.db", slots=5)
    copy = path.read_bytes()
    experiment = ae.Experiment.open("banner", storage=url(path))
    assert [experiment.ask(key=key).slot for key in ("a", "b", "a")] == [5, 6, 5]
    experiment.storage.close()
    path.write_bytes(copy)
    assert [experiment.ask(key=key).slot for key in ("b", "a", "b", "key-3")] == [5, 6, 5, 3]


def test_rows_changed_in_postgresql_are_noticed(postgres):
    url = postgres.url()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url)
    for slot in range(20):
        experiment.ask()
        experiment.tell(slot, slot)
    postgres.sql(
        url.rpartition("/")[2], "UPDATE aftereffect_events SET total = total + 1e-9 WHERE seq = 10"
    )
    assert [*experiment.verify().problems] == ["event 10 of the log is not what was recorded"]
    with pytest.raises(
        ae.CorruptionError,
        match=r"experiment 'banner' is damaged, .*event 10 of the log, about slot 4",
    ):
        experiment.history()
    experiment.storage.close()


#: The fields that later versions added to events, in this order.
ADDED = ("probabilities", "covariates", "guardrails", "units")


def test_hashes_are_those_of_plain_json():
    """Whatever writes it: logs of all versions are checked with the same hashes."""
    texts = ("", 'ä ☃ 🎈 " \\ \n \x00 \u2028', "\udcff", "x" * 1_000)
    assert fingerprint(*texts) == hashlib.sha256(json.dumps(texts).encode()).digest()
    for total in (0.1, -1 / 3, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 0.0, None):
        event = Link(2**40, b"before").next("total", 2**39, round=7, total=total, key='k "ä"')
        assert event.hash == hashlib.sha256(b"before" + json.dumps(event[:-5]).encode()).digest()
        assert not is_intact(event._replace(total=b"1"), b"before")
        for name in ADDED:
            assert not is_intact(event._replace(**{name: "[0.5]"}), b"before")
    for place, name in enumerate(ADDED):
        event = Link(7, b"before").next("total", 3, total=1.0, **{name: "[3.5]"})
        hashed = event[: len(event) - len(ADDED) + place]
        assert event.hash == hashlib.sha256(b"before" + json.dumps(hashed).encode()).digest()
        assert not is_intact(event._replace(**{name: None}), b"before")
        for other in {*ADDED} - {name}:
            moved = event._replace(**{name: None, other: "[3.5]"})
            assert not is_intact(moved, b"before"), (name, other)

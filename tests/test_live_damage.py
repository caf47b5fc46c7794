"""Files that are damaged, foreign, full, read-only or newer: a clear error, nothing invented, nothing made worse."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

import aftereffect as ae
from aftereffect.live.events import Link, fingerprint
from aftereffect.live.storage import schema

#: Of bytes in which a bit is flipped; every event has about 150.
STRIDE = 31
SETTINGS = {"arms": ["A", "B", "C"], "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 200)}


def url(path):
    return f"sqlite:///{path}"


def played(path, slots=60, name="banner"):
    """An experiment with a log of some pages; all of it in the file itself, not in what SQLite keeps beside it."""
    experiment = ae.Experiment.create(name, **SETTINGS, seed=1, storage=url(path))
    for slot in range(slots):
        experiment.ask()
        if slot % 7 == 3:
            experiment.missing(slot)
        else:
            experiment.tell(slot, slot % 5)
    experiment.storage.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@pytest.fixture
def whole(tmp_path):
    return played(tmp_path / "whole.db")


def everything(path):
    """All that a client can do with an experiment; what it answers, or the error it meets."""
    try:
        with ae.open_storage(url(path)) as storage:
            experiment = ae.Experiment.open("banner", storage=storage)
            checked = experiment.verify()
            if not checked.whole:
                return "verify", "; ".join(checked.problems)
            return "answers", (experiment.history(), experiment.status())
    except ae.AftereffectError as error:
        return "error", error


def contents(path):
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def lines_of(path):
    """The rows of all tables, as text that shows types."""
    with sqlite3.connect(path) as connection:
        rows = {
            table: [repr(row) for row in connection.execute(f"SELECT * FROM {table}")]
            for table in ("aftereffect_experiments", "aftereffect_events", "aftereffect_schema")
        }
    connection.close()
    return rows


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
                for row, (a, b) in enumerate(zip(before["aftereffect_events"], after["aftereffect_events"], strict=True))
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
        "value": "coalesce(value, 0) + 0.001",
        "version": "version || ' '",
        "at": "'2000-01-01'",
        "key": "'k' || seq",
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
            whole, target, f"UPDATE aftereffect_events SET {column} = {changes[column]} WHERE seq = {number}"
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
        "UPDATE aftereffect_experiments SET snapshot = replace(snapshot, '\"told\": ', '\"told\": 1')",
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
        log.save(forged(log.snapshot(), '"told": ', '"told": 1'))
    (problem,) = experiment.verify().problems
    assert re.fullmatch("the snapshot taken at event [0-9]+ is not the fold of the log", problem)


def test_a_log_that_is_shorter_than_its_snapshot(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("DELETE FROM aftereffect_events WHERE seq > 100")
    connection.close()
    checked = ae.Experiment.open("banner", storage=url(whole), check=False).verify()
    (problem,) = checked.problems
    assert re.fullmatch("the log ends with event 100, but the snapshot was taken at event [0-9]+", problem)


def test_a_log_that_was_written_anew_does_not_fit_its_snapshot(whole):
    """Whoever changes the last event and its hash along with it."""
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with experiment.viewing() as view:
        seq = json.loads(view.snapshot().text)["seq"]
        before, last = view.events(seq - 2, 2)
    other = Link(before.seq, before.hash).next("outcome", last.slot, round=last.round, value=3.5)
    with sqlite3.connect(whole) as connection:
        connection.execute(
            "UPDATE aftereffect_events SET value = ?, at = ?, hash = ? WHERE seq = ?", (other.value, other.at, other.hash, seq)
        )
    connection.close()
    with pytest.raises(ae.CorruptionError, match="its snapshot and its log do not belong together"):
        ae.Experiment.open("banner", storage=url(whole))


def test_what_the_medium_says_is_told(whole, monkeypatch):
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


def test_commits_are_synced(whole):
    with ae.open_storage(url(whole)) as storage, storage.engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_another_client_that_holds_a_row_for_too_long(postgres):
    import psycopg

    place = postgres.url()
    ae.Experiment.create("banner", **SETTINGS, storage=place).storage.close()
    with (
        ae.open_storage(place, patience=0.3) as storage,
        psycopg.connect(place.replace("+psycopg", "")) as other,
    ):
        other.execute("SELECT * FROM aftereffect_experiments FOR UPDATE")
        experiment = ae.Experiment.open("banner", storage=storage)
        with pytest.raises(ae.StorageError, match="another client has been writing for too long: nothing of this was recorded"):
            experiment.ask()
        assert experiment.status().slots == 0
        other.rollback()
        assert experiment.ask().number == 0


def test_a_log_that_became_shorter_under_a_running_client(whole):
    """A back-up was restored, say: the client goes on with what is there, and leaves no gap."""
    copy = whole.read_bytes()
    experiment = ae.Experiment.open("banner", storage=url(whole))
    for _ in range(10):
        experiment.tell(experiment.ask().number, 1)
    assert experiment.status().slots == 70
    experiment.storage.close()
    whole.write_bytes(copy)
    assert experiment.ask().number == 60
    assert experiment.verify().whole


def test_decisions_and_outcomes_that_are_gone(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with sqlite3.connect(whole) as connection:
        connection.execute("DELETE FROM aftereffect_events WHERE slot = 3")
        connection.execute("DELETE FROM aftereffect_events WHERE slot = 5 AND kind = 'outcome'")
    connection.close()
    for call in (
        lambda: experiment.ask(3),
        lambda: experiment.tell(3, 1),
        lambda: experiment.tell(5, 0),
        lambda: experiment.history(after=1, limit=3),
    ):
        with pytest.raises(ae.CorruptionError, match=r"gone|is not what was recorded"):
            call()


def test_exporting_a_damaged_experiment_says_so(whole, tmp_path):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_events SET value = 4.5 WHERE seq = 6")
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
    assert (checked.events, checked.slots, checked.problems) == (120, 60, ("its snapshot is not what was recorded",))


def test_a_damaged_experiment_is_named_and_not_written_to(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_events SET value = 4.5 WHERE seq = (SELECT max(seq) FROM aftereffect_events)")
    connection.close()
    before = lines_of(whole)
    for call in (
        lambda: ae.Experiment.open("banner", storage=url(whole)),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).ask(),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).tell(59, 1),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).close(),
        lambda: ae.Experiment.create("banner", **SETTINGS, storage=url(whole)).history(after=55),
    ):
        with pytest.raises(
            ae.CorruptionError, match=r"experiment 'banner' is damaged, .*event 120 .* is not what was recorded"
        ):
            call()
    assert lines_of(whole) == before
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url(whole))
    assert str(experiment.verify()) == (
        "banner: damaged, 119 events, 60 slots, 50 rounds could be checked\nevent 120 of the log is not what was recorded"
    ).replace("50 rounds", f"{experiment.verify().rounds} rounds")


def test_an_old_decision_is_proved_when_it_is_asked_for_again(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_events SET arm = 2 - arm WHERE kind = 'decision' AND slot = 3")
        connection.execute("UPDATE aftereffect_events SET value = 1.5 WHERE kind = 'outcome' AND slot = 5")
    connection.close()
    assert experiment.ask(2).number == 2
    for slot, call in ((3, lambda: experiment.ask(3)), (5, lambda: experiment.tell(5, 0)), (3, experiment.history)):
        with pytest.raises(ae.CorruptionError, match=f"about slot {slot}, is not what was recorded"):
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
        (b"slot,value\n0,37\n" * 200, "the file is no database of SQLite, or its beginning is damaged"),
        (os.urandom(4096), "the file is no database of SQLite, or its beginning is damaged"),
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
    with pytest.raises(ae.StorageError, match=r"the file is a database of another program: name another file$"):
        ae.Experiment.create("banner", **SETTINGS, storage=url(path))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    connection.close()
    assert len(path.read_bytes()) == len(before)


def test_a_newer_schema_is_refused(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_schema SET version = 7")
    connection.close()
    before = lines_of(whole)
    for call in (
        lambda: ae.Experiment.open("banner", storage=url(whole)),
        lambda: ae.Experiment.create("other", **SETTINGS, storage=url(whole)),
        lambda: ae.open_storage(url(whole)).names(),
    ):
        with pytest.raises(
            ae.StorageError, match=r"its tables have version 7, made by a newer aftereffect; this one knows up to 1: update it$"
        ):
            call()
    assert lines_of(whole) == before


def test_an_older_schema_is_migrated_once_and_its_experiments_go_on(whole, monkeypatch):
    """The second version of the tables, as it might be: made from those of the first, step by step, in one transaction."""
    steps = []

    def second(connection):
        connection.exec_driver_sql("ALTER TABLE aftereffect_experiments ADD COLUMN owner TEXT")
        steps.append(2)

    def third(connection):
        assert connection.exec_driver_sql("SELECT owner FROM aftereffect_experiments").all() == [(None,)]
        steps.append(3)

    monkeypatch.setattr(schema, "VERSION", 3)
    monkeypatch.setattr("aftereffect.live.storage.database.VERSION", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {2: second, 3: third})
    experiment = ae.Experiment.open("banner", storage=url(whole))
    assert experiment.ask().number == 60
    assert ae.Experiment.open("banner", storage=url(whole)).verify().whole
    assert steps == [2, 3]
    assert lines_of(whole)["aftereffect_schema"] == ["(3,)"]


def test_a_migration_that_fails_leaves_all_as_it_was(whole, monkeypatch):
    def broken(connection):
        connection.exec_driver_sql("ALTER TABLE aftereffect_experiments ADD COLUMN owner TEXT")
        raise ae.StorageError("no luck")

    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setattr("aftereffect.live.storage.database.VERSION", 2)
    monkeypatch.setattr(schema, "MIGRATIONS", {2: broken})
    before = lines_of(whole)
    with pytest.raises(ae.StorageError, match="no luck"):
        ae.Experiment.open("banner", storage=url(whole))
    monkeypatch.undo()
    assert lines_of(whole) == before
    assert everything(whole)[0] == "answers"


def test_a_full_disk_records_nothing_and_goes_on_when_there_is_room(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    pages = whole.stat().st_size // 4096
    limit = [pages + 2]
    sa.event.listen(experiment.storage.engine, "checkout", lambda raw, *_: raw.execute(f"PRAGMA max_page_count = {limit[0]}"))
    asked, told, problems = [], [], set()
    for _ in range(300):  # first there is no room for one of them, in the end for neither
        try:
            asked.append(experiment.ask())
            experiment.tell(asked[-1].number, 1)
            told.append(asked[-1].number)
        except ae.StorageError as error:
            problems.add(str(error))
            status = experiment.status()
            assert (status.slots, status.told) == (60 + len(asked), 60 + len(told))
    assert problems == {f"{url(whole)}: the disk is full: nothing of this was recorded, make room and try again"}
    assert experiment.verify().whole
    limit[0] = 10**6
    assert [experiment.ask(slot.number) for slot in asked] == asked
    assert all(experiment.tell(slot, 1).change == "unchanged" for slot in told)
    for _ in range(100):
        experiment.ask()
    assert ae.Experiment.open("banner", storage=url(whole)).verify().whole


@pytest.mark.parametrize("closed", ["folder", "file"])
def test_a_place_that_may_not_be_written(whole, closed):
    """In a process of its own, which has given up the rights that root has."""
    folder = whole.parent
    program = f"""
import os, sys
import aftereffect as ae
import aftereffect.live.storage.sqlite
from sqlalchemy.dialects.sqlite import pysqlite
os.chmod({str(folder)!r}, 0o555 if {closed!r} == "folder" else 0o755)
os.chmod({str(whole)!r}, 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)
settings = dict(arms=["A", "B", "C"], policy="ars-ucb(growth=power(1))", reward_range=(0, 200))
for call in (
    lambda: ae.Experiment.create("banner", **settings, storage={url(whole)!r}).ask(),
    lambda: ae.Experiment.create("banner", **settings, storage={url(folder / "new.db")!r}).ask(),
):
    try:
        print("no error:", call())
    except ae.StorageError as error:
        print(error)
"""
    for parent in [folder, *folder.parents][:-1]:
        if os.geteuid() == 0 and parent.stat().st_uid == 0 and parent.name.startswith(("pytest-", "test_", "popen-")):
            parent.chmod(0o755)
    before = whole.read_bytes()
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    finally:
        folder.chmod(0o755)
        whole.chmod(0o644)
    first, second = done.stdout.splitlines()
    assert re.search("it may not be written|it cannot be opened", first), done.stdout
    assert re.search("it may not be written|it cannot be opened", second), done.stdout
    assert whole.read_bytes() == before
    assert not (folder / "new.db").exists()
    assert everything(whole)[0] == "answers"


def test_a_process_that_goes_elsewhere(tmp_path, monkeypatch):
    """A relative path is one file for good, and a link leads to the file's own log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage="sqlite:///live.db")
    (tmp_path / "other" / "link.db").symlink_to(tmp_path / "live.db")
    experiment.ask()
    experiment.storage.close()
    monkeypatch.chdir(tmp_path / "other")
    assert experiment.tell(0, 1).change == "recorded"
    linked = ae.Experiment.open("banner", storage="sqlite:///link.db")
    assert linked.ask().number == 1
    assert experiment.ask(1) == linked.ask(1)
    assert [file.name for file in Path().iterdir()] == ["link.db"]


def test_more_threads_than_connections(connect):
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=connect())
    experiment.ask()
    with ThreadPoolExecutor(40) as forty:
        together = threading.Barrier(40, timeout=60)

        def look(_):
            with experiment.viewing() as view:
                together.wait()  # all of them hold one at the same time
                return len(view.events(0, 10))

        assert set(forty.map(look, range(40))) == {1}


def test_a_forked_process_makes_connections_of_its_own(tmp_path):
    """Without them it would use, and at its end close, those of its parent."""
    program = f"""
import os
import aftereffect as ae
experiment = ae.Experiment.create("banner", arms=["A", "B"], policy="ucb1", reward_range=(0, 9), storage="sqlite:///{tmp_path}/live.db")
for _ in range(5):
    experiment.tell(experiment.ask().number, 1)
child = os.fork()
for _ in range(30):
    experiment.tell(experiment.ask().number, 1)
if child == 0:
    experiment.storage.close()
    os._exit(0)
os.waitpid(child, 0)
print(experiment.status().told, experiment.verify().whole)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "65 True\n"


def test_a_folder_that_does_not_exist(tmp_path):
    path = tmp_path / "none" / "live.db"
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'banner' in sqlite:"):
        ae.Experiment.open("banner", storage=url(path))
    with pytest.raises(ae.StorageError, match="it cannot be opened: the folder must exist"):
        ae.Experiment.create("banner", **SETTINGS, storage=url(path))
    assert list(tmp_path.iterdir()) == []


def test_opening_what_does_not_exist_makes_no_file(tmp_path):
    with pytest.raises(ae.NotFoundError):
        ae.Experiment.open("banner", storage=url(tmp_path / "live.db"))
    assert ae.open_storage(url(tmp_path / "live.db")).names() == []
    assert list(tmp_path.iterdir()) == []


def test_another_process_that_holds_the_lock_for_too_long(whole):
    experiment = ae.Experiment.open("banner", storage=ae.open_storage(url(whole), patience=0.2))
    with sqlite3.connect(whole, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            ae.StorageError, match="another process has been writing for too long: nothing of this was recorded"
        ):
            experiment.ask()
        assert experiment.status().slots == 60  # readers wait for nobody
        connection.execute("ROLLBACK")
    connection.close()
    assert experiment.ask().number == 60


def test_places_that_cannot_be_files(tmp_path):
    with pytest.raises(ae.StorageError, match="it cannot be opened: "):
        ae.Experiment.create("banner", **SETTINGS, storage=url(tmp_path))
    odd = tmp_path / "what? # 100% ü.db"
    ae.Experiment.create("banner", **SETTINGS, storage=url(odd)).ask()
    assert odd.exists()
    assert ae.Experiment.open("banner", storage=url(odd)).status().slots == 1


@pytest.mark.parametrize("patience", [-1, float("nan"), float("inf"), 1e12, "long"])
def test_patience_that_cannot_be(patience):
    with pytest.raises(ae.ParameterError, match="patience must be a number from 0 to 86400, got "):
        ae.open_storage("memory://", patience=patience)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (
            "live.db",
            "such as sqlite:///aftereffect.db, got something else: known: memory, sqlite, postgresql+psycopg",
        ),
        (
            "mysql://me:secret@host/x",
            "a storage is a URL such as sqlite:///aftereffect.db, got one that begins with 'mysql': known: ",
        ),
        ("postgresql://host/x", "got one that begins with 'postgresql': did you mean 'postgresql+psycopg'?"),
        ("sqlite://", "a storage in a file is written sqlite:///file.db; for one in memory write memory://"),
        ("sqlite:///:memory:", "a storage in a file is written sqlite:///file.db; for one in memory write memory://"),
        ("postgresql+psycopg://me:secret@host:port/x", "the URL of the storage cannot be read: write one such as sqlite:///"),
        (7, "a storage is a URL such as sqlite:///aftereffect.db, got something else"),
    ],
)
def test_urls_that_cannot_be(storage, message):
    with pytest.raises(ae.AftereffectError) as caught:
        ae.Experiment.open("banner", storage=storage)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there():
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/nothing"
    with pytest.raises(ae.StorageError, match="the server cannot be reached, or the connection broke") as caught:
        ae.Experiment.open("banner", storage=url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_started_again(postgres):
    url = postgres.url()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url)
    first = experiment.ask()
    postgres.stop("immediate")
    with pytest.raises(ae.StorageError, match="the server cannot be reached, or the connection broke"):
        experiment.tell(0, 1)
    postgres.start()
    assert experiment.ask(0) == first
    assert experiment.tell(0, 1).change == "recorded"
    assert experiment.verify().whole
    experiment.storage.close()


def test_a_password_is_not_shown(postgres):
    url = postgres.url().replace("postgres@", "postgres:secret@")
    with ae.open_storage(url) as storage:
        assert "secret" not in repr(ae.Experiment.create("banner", **SETTINGS, storage=storage))
        assert storage.url.endswith(url.rpartition("@")[2])
        with pytest.raises(ae.NotFoundError) as caught:
            ae.Experiment.open("other", storage=storage)
    assert "secret" not in str(caught.value)


def test_rows_changed_in_postgresql_are_noticed(postgres):
    url = postgres.url()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url)
    for slot in range(20):
        experiment.ask()
        experiment.tell(slot, slot)
    postgres.sql(url.rpartition("/")[2], "UPDATE aftereffect_events SET value = value + 1e-9 WHERE seq = 10")
    assert [*experiment.verify().problems] == ["event 10 of the log is not what was recorded"]
    with pytest.raises(ae.CorruptionError, match=r"experiment 'banner' is damaged, .*event 10 of the log, about slot 4"):
        experiment.history()
    experiment.storage.close()


def test_a_server_that_would_not_sync_is_told_to(postgres):
    url = postgres.url()
    postgres.sql(url.rpartition("/")[2], f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    with ae.open_storage(url) as storage, storage.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_database_of_the_first_schema_still_opens(tmp_path):
    """Kept as it was written when the tables had version 1; an experiment goes on where it was."""
    path = tmp_path / "first.db"
    text = (Path(__file__).parent / "schemas" / "1.sql").read_text()
    with sqlite3.connect(path) as connection:
        connection.executescript(text)
    connection.close()
    experiment = ae.Experiment.open("kept", storage=url(path))
    assert experiment.verify().whole
    status = experiment.status()
    assert (status.slots, status.told, status.missing) == (12, 11, 1)
    assert experiment.ask().number == 12

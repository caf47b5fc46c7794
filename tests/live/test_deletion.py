"""Deleting experiments: all of it into a file first, and then nothing is left."""

import csv
import io
import json
import sqlite3
import sys

import pytest

import aftereffect as ae
from aftereffect.cli import main
from aftereffect.live.events import Event, Link
from aftereffect.live.maintenance import export_log, read_last_hash, remove_exported
from databases import SETTINGS, lines_of, played, url


def lines_in(path):
    """The experiment and its events, from an exported log."""
    first, *rest = map(json.loads, path.read_text().splitlines())
    return first, [Event(**line | {"hash": bytes.fromhex(line["hash"])}) for line in rest]


def play(storage, name="banner", slots=20):
    experiment = ae.Experiment.create(name, **SETTINGS, seed=1, storage=storage)
    for slot in range(slots):
        experiment.ask(key=f"key {slot}")
        experiment.tell(slot, slot / 3)
    return experiment


def test_the_file_has_everything_and_the_storage_nothing(connect, tmp_path):
    storage = connect()
    experiment, other = play(storage), play(storage, "other", slots=5)
    with experiment.read_log() as view:
        log = view.events(0, 100)
    target = tmp_path / "banner.jsonl"
    assert ae.delete_experiment(storage, "banner", target) == 40
    first, events = lines_in(target)
    assert events == log
    assert (first["name"], json.loads(first["settings"])) == (
        "banner",
        {**experiment.settings.to_dict(), "arms": ["A", "B", "C"], "reward_range": [0, 200]},
    )
    place = Link(0, bytes.fromhex(first["digest"]))
    for event in events:
        place = place.follow(event)
    for call in (
        experiment.ask,
        experiment.status,
        experiment.end,
        experiment.history,
        lambda: experiment.tell(3, 1),
    ):
        with pytest.raises(
            ae.NotFoundError, match=r"there is no experiment with the id [0-9]+: it was deleted"
        ):
            call()
    assert storage.names() == ["other"]
    assert other.verify().whole
    again = ae.Experiment.create("banner", **SETTINGS, storage=storage)
    assert again.is_new
    assert again.ask().slot == 0
    with pytest.raises(ae.NotFoundError):
        experiment.ask()
    assert again.status().slots == 1


def test_nothing_is_removed_where_the_file_cannot_be_written(connect, tmp_path):
    storage = connect()
    experiment = play(storage, slots=3)
    (tmp_path / "there.jsonl").write_text("the only copy of another one\n")
    for target, message in (
        (tmp_path / "x.csv", r"its name must end in \.jsonl"),
        (tmp_path / "none" / "x.jsonl", "it does not exist, create it first"),
        (
            tmp_path / "there.jsonl",
            "the file exists and may be the log of another experiment",
        ),
    ):
        with pytest.raises(ae.OutputError, match=message):
            ae.delete_experiment(storage, "banner", target)
    with pytest.raises(
        ae.NotFoundError, match=r"there is no experiment 'bannr' in .*did you mean 'banner'"
    ):
        ae.delete_experiment(storage, "bannr", tmp_path / "x.jsonl")
    assert (tmp_path / "there.jsonl").read_text() == "the only copy of another one\n"
    assert experiment.verify().whole
    assert experiment.status().received == 3


def test_a_full_disk_keeps_the_experiment(whole, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aftereffect.live.maintenance.os.fsync", full)
    before = lines_of(whole)
    with (
        ae.open_storage(url(whole)) as storage,
        pytest.raises(ae.OutputError, match="No space left on device"),
    ):
        ae.delete_experiment(storage, "banner", tmp_path / "x.jsonl")
    assert lines_of(whole) == before
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE aftereffect_experiments SET settings = '{'",
        "UPDATE aftereffect_experiments SET settings = replace(settings, 'ars-ucb', 'unknown-policy')",
        "UPDATE aftereffect_experiments SET settings = x'00ff'",
        "UPDATE aftereffect_experiments SET snapshot = x'00', digest = 'text'",
        "UPDATE aftereffect_events SET total = 4.5 WHERE seq = 6",
        "UPDATE aftereffect_events SET kind = x'00', at = x'ff', hash = 'text', seq = -7 WHERE seq = 6",
        "DELETE FROM aftereffect_events WHERE seq < 10",
        "UPDATE aftereffect_experiments SET settings = CAST(x'7bff' AS TEXT), created_at = CAST(x'ff' AS TEXT)",
        "UPDATE aftereffect_events SET at = CAST(x'61ff62' AS TEXT), version = CAST(x'80' AS TEXT) WHERE seq IN (5, 7)",
        "UPDATE aftereffect_events SET kind = 'of a later version' WHERE seq = 9",
    ],
)
def test_a_damaged_experiment_can_be_deleted(whole, tmp_path, statement):
    with sqlite3.connect(whole) as connection:
        assert connection.execute(statement).rowcount
        count = connection.execute("SELECT count(*) FROM aftereffect_events").fetchone()[0]
    connection.close()
    target = tmp_path / "banner.jsonl"
    with ae.open_storage(url(whole)) as storage:
        assert ae.delete_experiment(storage, "banner", target) == count
        assert storage.names() == []
        assert ae.Experiment.create("banner", **SETTINGS, storage=storage).ask().slot == 0
    assert len(target.read_text().splitlines()) == count + 1
    assert all(isinstance(json.loads(line), dict) for line in target.read_text().splitlines())


def test_only_what_somebody_has_is_removed(connect, tmp_path):
    storage = connect()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=storage)
    target = tmp_path / "x.jsonl"
    for _ in range(2):  # also without any event
        export_log(storage, "banner", target)
        last = read_last_hash(target.read_text())
        slot = experiment.ask()
        with pytest.raises(
            ae.ConflictError, match="nothing was deleted, export it again"
        ) as conflict:
            remove_exported(storage, "banner", last)
        assert conflict.value.given == {"last": last}
        experiment.tell(slot.slot, 1)
    export_log(storage, "banner", target)
    remove_exported(storage, "banner", read_last_hash(target.read_text()))
    assert storage.names() == []


# On the command line


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Exit status and what a command prints, by a database with two experiments."""
    monkeypatch.setenv("AFTEREFFECT_STORAGE", url(tmp_path / "live.db"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    played(tmp_path / "live.db", slots=30)
    played(tmp_path / "live.db", slots=0, name="other")

    def run(*arguments):
        status = main(list(arguments))
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_delete_asks_twice_on_a_terminal(run, monkeypatch, tmp_path):
    for typed in ("", "\n", "n\n", "y\n", "y\nother\n", "no\nbanner\n", "banner\nbanner\n"):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        status, _, err = run("delete", "banner", "--export", "b.jsonl")
        assert (status, err) == (2, "aftereffect: experiment 'banner' was not deleted\n"), typed
        assert not (tmp_path / "b.jsonl").exists()
    monkeypatch.setattr(sys, "stdin", Terminal("y\nbanner\n"))
    status, out, _ = run("delete", "banner", "--export", "b.jsonl")
    assert status == 0
    assert out.endswith("banner: deleted; its 60 events are in b.jsonl\n")
    assert len((tmp_path / "b.jsonl").read_text().splitlines()) == 61
    assert run("status", "banner")[0] == 2


def test_delete_in_scripts(run, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\nbanner\n"))
    said = "aftereffect: delete asks before it acts, and there is no terminal: give --yes\n"
    assert run("delete", "banner", "--export", "b.jsonl") == (2, "", said)
    assert run("delete", "banner")[0] == 2
    assert run("delete", "nothing", "--yes", "--export", "b.jsonl")[2].startswith(
        "aftereffect: there is no experiment 'nothing'"
    )
    assert run("delete", "banner", "--yes", "--export", "b.jsonl") == (
        0,
        "banner: deleted; its 60 events are in b.jsonl\n",
        "",
    )
    assert "the file exists" in run("delete", "other", "--yes", "--export", "b.jsonl")[2]
    assert [line["name"] for line in json.loads(run("experiments", "--format", "json")[1])] == [
        "other"
    ]


def test_a_list_of_experiments(run, tmp_path):
    run("end", "other", "--yes")
    with sqlite3.connect(tmp_path / "live.db") as connection:
        last = connection.execute(
            "SELECT max(at) FROM aftereffect_events WHERE experiment = 1"
        ).fetchone()[0]
    connection.close()
    status, out, _ = run("experiments")
    policy = "ars-ucb(alpha=4, growth=power(1))"
    assert status == 0
    head, *lines = out.splitlines()
    assert head.split() == ["name", "policy", "state", "arms", "slots", "received", "last", "event"]
    assert lines[0].split("  ")[0] == "banner"
    assert lines[0].split()[-5:] == ["3", "30", "30", *last[:19].split("T")]
    first, second = json.loads(run("experiments", "--format", "json")[1])
    assert first == {
        "name": "banner",
        "policy": policy,
        "arms": 3,
        "slots": 30,
        "received": 30,
        "state": "running",
        "last_event_at": last,
        "problem": None,
    }
    assert (second["name"], second["state"], second["slots"]) == ("other", "ended", 0)
    rows = list(csv.DictReader(io.StringIO(run("experiments", "--format", "csv")[1])))
    assert [row["state"] for row in rows] == ["running", "ended"]


def test_an_empty_list(run, tmp_path):
    assert run("experiments", "--storage", url(tmp_path / "new.db")) == (0, "no experiments\n", "")
    assert run("experiments", "--storage", url(tmp_path / "new.db"), "--format", "json") == (
        0,
        "[]\n",
        "",
    )
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE aftereffect_experiments SET settings = replace(settings, 'ars-ucb', 'unknown-policy') WHERE id = 1",
        "UPDATE aftereffect_experiments SET digest = 'text' WHERE id = 1",
        "UPDATE aftereffect_experiments SET snapshot = '{}' WHERE id = 1",
        "UPDATE aftereffect_events SET kind = x'00' WHERE seq = 60",
        "UPDATE aftereffect_experiments SET name = x'62616e6e6572' WHERE id = 1",
        "UPDATE aftereffect_experiments SET name = CAST(x'62616e6e6572ff' AS TEXT) WHERE id = 1",
        "UPDATE aftereffect_experiments SET settings = CAST(x'7bff' AS TEXT) WHERE id = 1",
        "UPDATE aftereffect_events SET at = CAST(x'61ff62' AS TEXT) WHERE seq = 60",
    ],
)
def test_a_damaged_one_does_not_hide_the_others(run, tmp_path, statement):
    with sqlite3.connect(tmp_path / "live.db") as connection:
        assert connection.execute(statement).rowcount == 1
    connection.close()
    status, out, err = run("experiments", "--format", "json")
    first, second = json.loads(out)
    assert (status, err, first["state"], second["state"]) == (0, "", "damaged", "not begun")
    assert "banner" in first["name"]
    assert first["problem"]
    assert "is damaged: " in run("experiments")[1].splitlines()[-1]


@pytest.mark.parametrize("name", ["x'62616e6e6572'", "CAST(x'62616e6e6572ff' AS TEXT)"])
def test_a_name_that_is_no_text_any_more(run, tmp_path, name):
    with sqlite3.connect(tmp_path / "live.db") as connection:
        connection.execute(f"UPDATE aftereffect_experiments SET name = {name} WHERE id = 1")
    connection.close()
    for arguments in (("status", "banner"), ("ask", "banner")):
        status, _, err = run(*arguments)
        assert (
            status,
            err.endswith(": the name of experiment 1 is damaged: restore a backup\n"),
        ) == (2, True)
    assert run("status", "other")[0] == 0
    with ae.open_storage(url(tmp_path / "live.db")) as storage, pytest.raises(ae.CorruptionError):
        storage.names()

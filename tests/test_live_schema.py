"""Tables of other versions: newer ones are refused, older ones migrated."""

import sqlite3
from pathlib import Path

import pytest
from databases import SETTINGS, everything, lines_of, url

import aftereffect as ae
from aftereffect.live.storage import schema


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

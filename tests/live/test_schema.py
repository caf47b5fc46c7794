"""Tables of other versions: newer ones are refused, older ones migrated."""

import json
import sqlite3
from pathlib import Path

import pytest

import aftereffect as ae
from aftereffect.live.events import fingerprint, hash_event
from aftereffect.live.storage import _schema as schema
from aftereffect.live.storage._schema import VERSION
from databases import SETTINGS, everything, lines_of, url

SCHEMAS = Path(__file__).parent / "schemas"


def test_a_newer_schema_is_refused(whole):
    with sqlite3.connect(whole) as connection:
        connection.execute("UPDATE aftereffect_schema SET version = 12")
    connection.close()
    before = lines_of(whole)
    for call in (
        lambda: ae.Experiment.open("banner", storage=url(whole)),
        lambda: ae.Experiment.create("other", **SETTINGS, storage=url(whole)),
        lambda: ae.open_storage(url(whole)).names(),
    ):
        with pytest.raises(
            ae.StorageError,
            match=r"its tables have version 12, made by a newer aftereffect; this version can read up to 11: update aftereffect$",
        ):
            call()
    assert lines_of(whole) == before


def test_an_older_schema_is_migrated_once_and_its_experiments_go_on(whole, monkeypatch):
    """Later versions of the tables, as they might be: made step by step, in one transaction."""
    steps = []

    def next_one(connection):
        connection.exec_driver_sql("ALTER TABLE aftereffect_experiments ADD COLUMN owner TEXT")
        steps.append(schema.VERSION - 1)

    def the_one_after(connection):
        assert connection.exec_driver_sql("SELECT owner FROM aftereffect_experiments").all() == [
            (None,)
        ]
        steps.append(schema.VERSION)

    migrations = schema.MIGRATIONS | {VERSION + 1: next_one, VERSION + 2: the_one_after}
    monkeypatch.setattr(schema, "VERSION", VERSION + 2)
    monkeypatch.setattr("aftereffect.live.storage._database.VERSION", VERSION + 2)
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    experiment = ae.Experiment.open("banner", storage=url(whole))
    assert experiment.ask().slot == 60
    assert ae.Experiment.open("banner", storage=url(whole)).verify().whole
    assert steps == [VERSION + 1, VERSION + 2]
    assert lines_of(whole)["aftereffect_schema"] == [f"({VERSION + 2},)"]


def test_a_migration_that_fails_leaves_all_as_it_was(whole, monkeypatch):
    def broken(connection):
        connection.exec_driver_sql("ALTER TABLE aftereffect_experiments ADD COLUMN owner TEXT")
        raise ae.StorageError("no luck")

    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    monkeypatch.setattr("aftereffect.live.storage._database.VERSION", VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {VERSION + 1: broken})
    before = lines_of(whole)
    with pytest.raises(ae.StorageError, match="no luck"):
        ae.Experiment.open("banner", storage=url(whole))
    monkeypatch.undo()
    assert lines_of(whole) == before
    assert everything(whole)[0] == "answers"


def restore(tmp_path, version):
    """A database as it was written when the tables had that version."""
    path = tmp_path / "kept.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((SCHEMAS / f"{version}.sql").read_text())
    connection.close()
    return path


@pytest.mark.parametrize(
    "version",
    [
        # From version 4 on, the database has a policy that looks at every slot.
        pytest.param(version, marks=[pytest.mark.compiled] if version >= 4 else [])
        for version in range(1, VERSION + 1)
    ],
)
def test_a_database_of_every_schema_still_opens(tmp_path, version):
    """An experiment goes on where it was, and so do tokens."""
    path = restore(tmp_path, version)
    with ae.open_storage(url(path)) as storage:
        experiment = ae.Experiment.open("kept", storage=storage)
        assert experiment.verify().whole
        status = experiment.status()
        assert (status.slots, status.received, status.missing) == (12, 11, 1)
        assert experiment.ask().slot == 12
        before = storage.tokens()
        made = storage.add_token("new", "read", "today", b"3" * 32)
        assert storage.tokens() == [*before, made]
        assert storage.token(made.digest) == made
        with storage.writing(experiment.record.id) as log:
            log.remove("today")
        assert storage.names() == []
    assert lines_of(path)["aftereffect_schema"] == [f"({VERSION},)"]


@pytest.mark.compiled
def test_rules_guardrails_and_stops_of_the_seventh_schema(tmp_path):
    with ae.Experiment.open("kept", storage=url(restore(tmp_path, 7))) as experiment:
        status = experiment.status()
        assert status.stop_when_loss_below == 2.5
        assert [arm.arm for arm in status.arms if arm.stopped] == ["C"]
        assert status.guardrail_problem == "complaints: out of order"
        assert experiment.history()[7].guardrails == {"complaints": 3.0, "refunds": 2.0}
        assert experiment.verify().difference is None


@pytest.mark.compiled
def test_the_plan_of_the_eighth_schema(tmp_path):
    with ae.Experiment.open("kept", storage=url(restore(tmp_path, 8))) as experiment:
        plan = experiment.status().plan
        assert (plan.loss, plan.end_low, plan.end_high) == (1234.5, 10, None)
        assert plan.design == "fixed-switchback(block=2, blocks_per_arm=2)"
        assert experiment.verify().difference is None


def test_replaced_totals_batches_and_notices_of_the_ninth_schema(tmp_path):
    with ae.Experiment.open("kept", storage=url(restore(tmp_path, 9))) as experiment:
        line = experiment.history()[2]
        assert (line.total, line.revisions, line.learned) == (9.0, 1, True)
        with experiment._log.reading() as (_, state):
            assert state.look_ahead().policy_state.total.sum() == pytest.approx(3.6)
            assert list(state.notified.values()) == [8]
        assert experiment.status().final_after == "72h"
        assert experiment.tell_many({6: 8.0}, revise=True, key="monday") == []
        assert experiment.verify().difference is None


@pytest.mark.compiled
def test_arms_that_came_and_went_of_the_tenth_schema(tmp_path):
    with ae.Experiment.open("kept", storage=url(restore(tmp_path, 10))) as experiment:
        arms = {arm.arm: (arm.state, arm.since) for arm in experiment.status().arms}
        assert arms == {
            "A": ("active", None),
            "B": ("active", 8),
            "C": ("retired", 8),
            "D": ("active", 4),
        }
        assert experiment.ask(7).probabilities["B"] == 0
        assert experiment.change_arms(add="E").next.probabilities["E"] > 0
        assert experiment.verify().whole


def test_units_of_the_eleventh_schema(tmp_path):
    with ae.Experiment.open("kept", storage=url(restore(tmp_path, 11))) as experiment:
        assert [(unit.unit, unit.received) for unit in experiment.status().units] == [
            ("north", 8),
            ("south", 3),
        ]
        line = next(each for each in experiment.history(1, 1) if each.unit == "south")
        assert (line.total, line.played, line.revisions, line.covariates) == (
            8.5,
            "C",
            1,
            {"rain": 1.5},
        )
        assert set(experiment.ask(12).arms) == {"north", "south"}
        assert experiment.tell(12, {"north": 9, "south": 11})[0].change == "recorded"
        assert experiment.verify().difference is None


def test_snapshots_of_older_tables_are_not_read(whole):
    """Those of version 5 do not say how many slots there were when the last total came."""
    with sqlite3.connect(whole) as connection:
        (text,) = connection.execute("SELECT snapshot FROM aftereffect_experiments").fetchone()
        fields = json.loads(text)
        del fields["slots_at_last_total"]
        old = json.dumps(fields)
        connection.execute(
            "UPDATE aftereffect_experiments SET snapshot = ?, snapshot_digest = ?",
            (old, fingerprint(old)),
        )
        for column in ("guardrails", "units"):
            connection.execute(f"ALTER TABLE aftereffect_events DROP COLUMN {column}")
        connection.execute("UPDATE aftereffect_schema SET version = 5")
    connection.close()
    with ae.Experiment.open("banner", storage=url(whole)) as experiment:
        assert experiment.status().slots == 60
        assert experiment.status().unit is None
        assert experiment.verify().whole


def test_a_migration_does_not_hide_damage(tmp_path):
    """Events of the second schema get new hashes; one that was changed before keeps its own."""
    path = restore(tmp_path, 2)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE aftereffect_events SET value = 11.5 WHERE seq = 8")
    connection.close()
    with ae.open_storage(url(path)) as storage:
        with pytest.raises(ae.CorruptionError, match="event 8 of the log"):
            ae.Experiment.open("kept", storage=storage)
        found = ae.Experiment.open("kept", storage=storage, check=False).verify()
        assert (found.whole, found.events) == (False, 7)


def tables_of(path):
    """What each table of ours is made of: columns with their types, keys and indexes."""
    with sqlite3.connect(path) as connection:
        names = [
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            )
        ]
        made = {
            name: [
                sorted(
                    connection.execute(
                        f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{name}')"
                    )
                ),
                sorted(
                    connection.execute(
                        f"SELECT name, \"unique\", partial FROM pragma_index_list('{name}')"
                    )
                ),
            ]
            for name in names
        }
    connection.close()
    return made


@pytest.mark.parametrize("version", range(1, VERSION + 1))
def test_migrated_tables_are_those_that_are_made_today(tmp_path, version):
    path = restore(tmp_path, version)
    ae.open_storage(url(path)).names()
    ae.Experiment.create("banner", **SETTINGS, storage=url(tmp_path / "new.db"))
    assert tables_of(path) == tables_of(tmp_path / "new.db")


def test_tokens_of_the_first_schema_get_seals(tmp_path):
    path = restore(tmp_path, 1)
    rows = [
        (1, "ci", "read", b"1" * 32, "monday", None),
        (2, "shop", "write", b"2" * 32, "monday", "tuesday"),
    ]
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO aftereffect_tokens VALUES (?, ?, ?, ?, ?, ?)", rows)
    connection.close()
    with ae.open_storage(url(path)) as storage:
        assert [tuple(record) for record in storage.tokens()] == rows
        assert storage.examine() == []


def test_the_tables_in_postgresql_are_migrated_too(postgres):
    """As version 1 made them there, with a token and two events."""
    place = postgres.url()
    name = place.rpartition("/")[2]
    with ae.Experiment.create("banner", **SETTINGS, storage=place) as experiment:
        experiment.ask(0)
        experiment.tell(0, 37)
        with experiment.read_log() as view:
            decision, total = view.events(0, 10)
    old_hash = hash_event(decision.hash, total._replace(kind="outcome")).hex()
    for statement in (
        f"UPDATE aftereffect_events SET kind = 'outcome', hash = '\\x{old_hash}' WHERE seq = 2",
        "ALTER TABLE aftereffect_events RENAME COLUMN total TO value",
        "ALTER TABLE aftereffect_events DROP COLUMN probabilities",
        "ALTER TABLE aftereffect_events DROP COLUMN covariates",
        "ALTER TABLE aftereffect_events DROP COLUMN guardrails",
        "ALTER TABLE aftereffect_events DROP COLUMN units",
        "ALTER TABLE aftereffect_tokens DROP COLUMN seal",
        "DROP TABLE aftereffect_removed",
        "UPDATE aftereffect_schema SET version = 1",
        "INSERT INTO aftereffect_tokens (id, label, scope, digest, created_at) VALUES (1, 'ci', 'read', 'x', 'monday')",
        "SELECT nextval('aftereffect_tokens_id_seq')",
    ):
        postgres.sql(name, statement)
    with ae.open_storage(place) as storage:
        experiment = ae.Experiment.open("banner", storage=storage)
        assert experiment.verify().whole
        assert [(line.slot, line.total) for line in experiment.history()] == [(0, 37.0)]
        (record,) = storage.tokens()
        assert record == (1, "ci", "read", b"x", "monday", None)
        assert storage.add_token("new", "read", "today", b"3" * 32).id == 2
        with storage.writing(1) as log:
            log.remove("today")
        assert storage.create("other", "settings", "today", b"digest")[0].id == 2

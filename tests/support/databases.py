"""Databases with an experiment, for tests that damage, lock or move them."""

import sqlite3

import aftereffect as ae

SETTINGS = {"arms": ["A", "B", "C"], "policy": "ars-ucb(growth=power(1))", "reward_range": (0, 200)}


def url(path):
    return f"sqlite:///{path}"


def played(path, slots=60, name="banner"):
    """Make a file with an experiment whose log has some pages, and no write-ahead log beside it."""
    experiment = ae.Experiment.create(name, **SETTINGS, seed=1, storage=url(path))
    for slot in range(slots):
        experiment.ask()
        if slot % 7 == 3:
            experiment.mark_missing(slot)
        else:
            experiment.tell(slot, slot % 5)
    experiment.storage.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


def everything(path):
    """Open, verify and read an experiment: what it answers, or the error that it raises."""
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

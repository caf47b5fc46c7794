"""Storages that are full, locked, unreachable or odd: a clear error, nothing recorded, and it goes on."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

import aftereffect as ae
from databases import SETTINGS, everything, url


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
        ae.open_storage(place, lock_timeout=0.3) as storage,
        psycopg.connect(place.replace("+psycopg", "")) as other,
    ):
        other.execute("SELECT * FROM aftereffect_experiments FOR UPDATE")
        experiment = ae.Experiment.open("banner", storage=storage)
        with pytest.raises(
            ae.StorageError,
            match="another client has been writing for too long",
        ):
            experiment.ask()
        assert experiment.status().slots == 0
        other.rollback()
        assert experiment.ask().slot == 0


def test_another_process_that_holds_the_lock_for_too_long(whole):
    experiment = ae.Experiment.open("banner", storage=ae.open_storage(url(whole), lock_timeout=0.2))
    with sqlite3.connect(whole, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            ae.StorageError,
            match="another process has been writing for too long",
        ):
            experiment.ask()
        assert experiment.status().slots == 60  # readers wait for nobody
        connection.execute("ROLLBACK")
    connection.close()
    assert experiment.ask().slot == 60


def test_a_full_disk_records_nothing_and_goes_on_when_there_is_room(whole):
    experiment = ae.Experiment.open("banner", storage=url(whole))
    pages = whole.stat().st_size // 4096
    limit = [pages + 2]
    sa.event.listen(
        experiment.storage.engine,
        "checkout",
        lambda raw, *_: raw.execute(f"PRAGMA max_page_count = {limit[0]}"),
    )
    asked, given, problems = [], [], set()
    for _ in range(300):  # first there is no room for one of them, in the end for neither
        try:
            asked.append(experiment.ask())
            experiment.tell(asked[-1].slot, 1)
            given.append(asked[-1].slot)
        except ae.StorageError as error:
            problems.add(str(error))
            status = experiment.status()
            assert (status.slots, status.received) == (60 + len(asked), 60 + len(given))
    assert problems == {
        f"{url(whole)}: the disk is full; nothing was recorded: make room and try again"
    }
    assert experiment.verify().whole
    limit[0] = 10**6
    assert [experiment.ask(slot.slot) for slot in asked] == asked
    assert all(experiment.tell(slot, 1).change == "unchanged" for slot in given)
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
import aftereffect.live.storage._sqlite
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
        if (
            os.geteuid() == 0
            and parent.stat().st_uid == 0
            and parent.name.startswith(("pytest-", "test_", "popen-"))
        ):
            parent.chmod(0o755)
    before = whole.read_bytes()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
    finally:
        folder.chmod(0o755)
        whole.chmod(0o644)
    first, second = done.stdout.splitlines()
    assert re.search("it cannot be written|it cannot be opened", first), done.stdout
    assert re.search("it cannot be written|it cannot be opened", second), done.stdout
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
    assert linked.ask().slot == 1
    assert experiment.ask(1) == linked.ask(1)
    assert [file.name for file in Path().iterdir()] == ["link.db"]


def test_more_threads_than_connections(connect):
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=connect())
    experiment.ask()
    with ThreadPoolExecutor(40) as forty:
        together = threading.Barrier(40, timeout=60)

        def look(_):
            with experiment.read_log() as view:
                together.wait()  # all of them hold one at the same time
                return len(view.events(0, 10))

        assert set(forty.map(look, range(40))) == {1}


#: Forks processes that inherit an experiment, all of which play at once with their parent; says
#: what is there in the end.
FORKS = """
import os, sys
import aftereffect as ae
experiment = ae.Experiment.create("banner", arms=["A", "B"], policy="ucb1", reward_range=(0, 9), storage=sys.argv[1])
for _ in range(5):
    experiment.tell(experiment.ask().slot, 1)
children = []
for _ in range(5):
    children.append(os.fork())
    if children[-1] == 0:
        break
try:
    for _ in range(20):
        experiment.tell(experiment.ask().slot, 1)
except BaseException as error:
    print(type(error).__name__, error, flush=True)
if children[-1] == 0:
    experiment.storage.close()
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
print(experiment.status().received, experiment.verify().whole)
"""


@pytest.mark.parametrize("trial", range(3))
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_forked_processes_make_connections_of_their_own(request, tmp_path, kind, trial):
    """Without them they would use, and at their end close, those of their parent."""
    place = (
        f"sqlite:///{tmp_path}/live.db"
        if kind == "sqlite"
        else request.getfixturevalue("postgres").url()
    )
    done = subprocess.run(
        [sys.executable, "-c", FORKS, place], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("125 True\n", 0), done.stderr


def test_a_forked_process_outlives_the_connections_of_its_parent(tmp_path):
    """SQLite would take locks of the parent for the child's own, and clear away the log that the child writes to."""
    program = f"""
import os
import aftereffect as ae
settings = dict(arms=["A", "B"], policy="ucb1", reward_range=(0, 9))
experiment = ae.Experiment.create("banner", **settings, storage={url(tmp_path / "live.db")!r})
for _ in range(5):
    experiment.tell(experiment.ask().slot, 1)
(begun, begins), (closed, closes) = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    experiment.tell(experiment.ask().slot, 1)
    os.write(begins, b"x")
    os.read(closed, 1)
    for _ in range(10):
        experiment.tell(experiment.ask().slot, 1)
    os._exit(0)
os.read(begun, 1)
experiment.storage.close()
os.write(closes, b"x")
print(os.waitpid(child, 0)[1], experiment.status().received, experiment.verify().whole)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "0 16 True\n"


def test_a_process_that_was_forked_in_the_middle_of_a_transaction_is_refused(tmp_path):
    """Of another thread: nothing that such a process writes would be sure to stay."""
    program = f"""
import os, threading
import aftereffect as ae
storage = ae.open_storage("{url(tmp_path / "live.db")}")
experiment = ae.Experiment.create("banner", arms=["A", "B"], policy="ucb1", reward_range=(0, 9), storage=storage)
inside, done = threading.Event(), threading.Event()
def read():
    with experiment.read_log():
        inside.set()
        done.wait(60)
thread = threading.Thread(target=read)
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    try:
        ae.Experiment.open("banner", storage="{url(tmp_path / "live.db")}").ask()
        print("asked", flush=True)
    except ae.StorageError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
done.set()
thread.join()
print(experiment.ask().slot)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert (
        "this process was forked while another thread was using the file: start processes before threads"
        in first
    )
    assert second == "0"


@pytest.mark.parametrize("how", ["replaced", "removed", "written anew"])
def test_a_file_that_is_replaced_under_a_running_client(whole, tmp_path, how):
    """It would go on with the old file, which is gone when the last handle closes."""
    copy = tmp_path / "copy.db"
    shutil.copy(whole, copy)
    experiment = ae.Experiment.open("banner", storage=url(whole))
    experiment.ask()
    if how == "replaced":
        copy.replace(whole)
    else:
        whole.unlink()
        if how == "written anew":
            shutil.copy(copy, whole)
    storage = experiment.storage
    for call in (
        experiment.ask,
        lambda: experiment.tell(60, 1),
        experiment.status,
        experiment.history,
        experiment.end,
        storage.names,
        lambda: storage.find("banner"),
        lambda: storage.token(b""),
        lambda: storage.add_token("ci", "read", "today", b"1" * 32),
        lambda: storage.create("other", "", "today", b""),
    ):
        with pytest.raises(
            ae.StorageError,
            match=r"the file was replaced or removed while it was in use.*whole\.db-wal",
        ) as error:
            call()
        assert "\n" not in str(error.value)
    storage.close()
    for beside in ("whole.db-wal", "whole.db-shm"):
        (whole.parent / beside).unlink(missing_ok=True)
    if how != "removed":
        assert experiment.ask().slot == 60  # it was let go of, and opens what is there now
        assert experiment.verify().whole


def test_a_file_that_is_replaced_in_the_middle_of_a_transaction(whole, tmp_path):
    """What was written is in no file that anybody will see: it is not acknowledged."""
    copy = tmp_path / "copy.db"
    shutil.copy(whole, copy)
    with ae.open_storage(url(whole)) as storage:

        def save():
            with storage.writing(storage.find("banner").id) as log:
                log.save(log.snapshot())
                copy.replace(whole)

        with pytest.raises(
            ae.StorageError, match="the file that is there now does not belong to this storage"
        ):
            save()


def test_new_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        experiment = ae.Experiment.create("banner", **SETTINGS, storage=url(tmp_path / "live.db"))
        experiment.ask()
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
        assert modes == {"live.db": "0o600", "live.db-wal": "0o600", "live.db-shm": "0o600"}
    finally:
        os.umask(before)


@pytest.mark.slow
def test_the_default_is_a_file_of_the_user(tmp_path):
    """Whatever folder a command is run in; nothing is created before something is stored."""
    (tmp_path / "work").mkdir()
    for variables, folder in (
        ({"XDG_DATA_HOME": f"{tmp_path}/data"}, tmp_path / "data"),
        (
            {"XDG_DATA_HOME": "relative", "HOME": f"{tmp_path}/home"},
            tmp_path / "home" / ".local" / "share",
        ),
        ({"HOME": f"{tmp_path}/other"}, tmp_path / "other" / ".local" / "share"),
    ):
        surroundings = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("XDG_", "AFTEREFFECT_"))
        }

        def run(*arguments, env=surroundings | variables | {"COLUMNS": "400"}):
            command = [sys.executable, "-m", "aftereffect", *arguments]
            return subprocess.run(
                command, capture_output=True, text=True, env=env, cwd=tmp_path / "work"
            )

        assert run("status", "banner").returncode == 2
        assert not folder.exists()
        done = run("create", "banner", "--arms", "A,B", "--policy", "ucb1", "--reward-range", "0,1")
        assert done.returncode == 0, done.stderr
        file = folder / "aftereffect" / "aftereffect.db"
        assert [oct(path.stat().st_mode & 0o777) for path in (file.parent, file)] == [
            "0o700",
            "0o600",
        ]
        assert run("ask", "banner").stdout.startswith("slot 0: play A")
        assert f"[default: {url(file)}]" in run("ask", "--help").stdout
    assert list((tmp_path / "work").iterdir()) == []


def test_a_folder_that_does_not_exist(tmp_path):
    path = tmp_path / "none" / "live.db"
    with pytest.raises(ae.NotFoundError, match="there is no experiment 'banner' in sqlite:"):
        ae.Experiment.open("banner", storage=url(path))
    with pytest.raises(ae.StorageError, match="it cannot be opened: its folder must exist"):
        ae.Experiment.create("banner", **SETTINGS, storage=url(path))
    assert list(tmp_path.iterdir()) == []


def test_opening_what_does_not_exist_makes_no_file(tmp_path):
    with pytest.raises(ae.NotFoundError):
        ae.Experiment.open("banner", storage=url(tmp_path / "live.db"))
    assert ae.open_storage(url(tmp_path / "live.db")).names() == []
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_files(tmp_path):
    with pytest.raises(ae.StorageError, match="it cannot be opened: "):
        ae.Experiment.create("banner", **SETTINGS, storage=url(tmp_path))
    odd = tmp_path / "what? # 100% ü.db"
    ae.Experiment.create("banner", **SETTINGS, storage=url(odd)).ask()
    assert odd.exists()
    assert ae.Experiment.open("banner", storage=url(odd)).status().slots == 1


@pytest.mark.parametrize("lock_timeout", [-1, float("nan"), float("inf"), 1e12, "long"])
def test_lock_timeouts_that_cannot_be(lock_timeout):
    with pytest.raises(
        ae.ParameterError, match="lock_timeout must be a number from 0 to 86400, got "
    ):
        ae.open_storage("memory://", lock_timeout=lock_timeout)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        (
            "live.db",
            "a storage must be a URL such as sqlite:///FILE or memory://, got a text without ://",
        ),
        (
            "mysql://me:secret@host/x",
            "unknown scheme 'mysql' in the URL of a storage: known: memory, sqlite, postgresql+psycopg",
        ),
        (
            "postgresql://host/x",
            "unknown scheme 'postgresql' in the URL of a storage: did you mean 'postgresql+psycopg'?",
        ),
        (
            "sqlite://",
            "an SQLite storage must be sqlite:///FILE",
        ),
        (
            "sqlite:///:memory:",
            "an SQLite storage must be sqlite:///FILE",
        ),
        (
            "postgresql+psycopg://me:secret@host:port/x",
            "the URL of the storage cannot be read",
        ),
        (7, "a storage must be a URL such as sqlite:///FILE or memory://, got int"),
    ],
)
def test_urls_that_cannot_be(storage, message):
    with pytest.raises(ae.AftereffectError) as caught:
        ae.Experiment.open("banner", storage=storage)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there():
    url = "postgresql+psycopg://me:secret@127.0.0.1:1/nothing"
    with pytest.raises(
        ae.StorageError, match="the server cannot be reached, or the connection broke"
    ) as caught:
        ae.Experiment.open("banner", storage=url)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_started_again(postgres):
    url = postgres.url()
    experiment = ae.Experiment.create("banner", **SETTINGS, storage=url)
    first = experiment.ask()
    postgres.stop("immediate")
    with pytest.raises(
        ae.StorageError, match="the server cannot be reached, or the connection broke"
    ):
        experiment.tell(0, 1)
    postgres.start()
    assert experiment.ask(0) == first
    assert experiment.tell(0, 1).change == "recorded"
    assert experiment.verify().whole
    experiment.storage.close()


def test_a_schema_that_may_not_be_used(postgres):
    """PostgreSQL hides tables in it as if they were not there."""
    place = postgres.url()
    name = place.rpartition("/")[2]
    ae.Experiment.create("banner", **SETTINGS, storage=place).storage.close()
    for statement in (
        "CREATE ROLE guest LOGIN",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "CREATE SCHEMA other",
        f"ALTER ROLE guest IN DATABASE {name} SET search_path = 'nothing', \"public\"",
    ):
        postgres.sql(name, statement)
    with ae.open_storage(place.replace("postgres@", "guest@")) as storage:
        for call in (
            lambda: ae.Experiment.open("banner", storage=storage),
            storage.names,
            lambda: storage.find("banner"),
            lambda: storage.has_tokens(),
            lambda: ae.Experiment.create("banner", **SETTINGS, storage=storage),
        ):
            with pytest.raises(
                ae.StorageError,
                match=r"its tables are in the schema 'public'.*GRANT USAGE ON SCHEMA public",
            ):
                call()
        postgres.sql(name, "GRANT USAGE ON SCHEMA public TO guest")
        with pytest.raises(
            ae.StorageError,
            match=r"this user may not do that: grant it rights on the tables aftereffect_\*",
        ):
            storage.names()
        postgres.sql(name, "GRANT ALL ON ALL TABLES IN SCHEMA public TO guest")
        assert ae.Experiment.open("banner", storage=storage).ask().slot == 0
    postgres.sql(name, "ALTER ROLE guest IN DATABASE " + name + " SET search_path = other")
    with ae.open_storage(place.replace("postgres@", "guest@")) as storage:
        assert storage.names() == []  # tables that it would not look for are not its own


def test_a_password_is_not_shown(postgres):
    url = postgres.url().replace("postgres@", "postgres:secret@")
    with ae.open_storage(url) as storage:
        assert "secret" not in repr(ae.Experiment.create("banner", **SETTINGS, storage=storage))
        assert storage.url.endswith(url.rpartition("@")[2])
        with pytest.raises(ae.NotFoundError) as caught:
            ae.Experiment.open("other", storage=storage)
    assert "secret" not in str(caught.value)


def test_a_server_that_would_not_sync_is_made_to(postgres):
    url = postgres.url()
    postgres.sql(
        url.rpartition("/")[2],
        f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off",
    )
    with ae.open_storage(url) as storage, storage.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"

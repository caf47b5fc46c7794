"""What docs/service.md says to do."""

import re
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

import aftereffect as ae
from aftereffect import lag
from aftereffect.service import _connections, _routes, create_token
from aftereffect.service._access import is_loopback
from aftereffect.service._experiments import LIMITS
from services import EXPERIMENT, call, in_thread

GUIDE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()


def test_the_table_has_every_request_and_no_other():
    told = set(re.findall(r"`(GET|POST|PUT|DELETE) (/[^?` ]*)", GUIDE))
    routes = [
        route
        for router in (_routes.router, _routes.scan_router, _routes.monitoring)
        for route in router.routes
        if isinstance(route, APIRoute)
    ]
    assert told == {(method, route.path) for route in routes for method in route.methods}


def test_the_client(tmp_path):
    (program,) = re.findall("```python\n(.*?)```", GUIDE, re.DOTALL)
    with in_thread(f"sqlite:///{tmp_path}/live.db") as service:
        exec(program.replace("http://127.0.0.1:8750", service))
        assert ae.Client(service).experiment("checkout-banner").status().received == 1


def test_the_limits_are_those_of_the_service():
    told = {
        kind: tuple(map(int, numbers))
        for kind, *numbers in re.findall(
            r"^\| (\w+)[^|]* \| (\d+) \| (\d+) \| (\d+) \|$", GUIDE, re.M
        )
    }
    assert told == {
        word: LIMITS[kind][:3]
        for word, kind in (
            ("changes", "write"),
            ("status", "read"),
            ("history", "scan"),
            ("lag", "heavy"),
        )
    }
    limits = (
        f"{_connections.MAX_HEADERS}, and {_connections.MAX_HEAD >> 10} KB in all | 431 |",
        f"{_connections.MAX_URL >> 10} KB | 414 |",
        f"connections from one peer | {_connections.MAX_PER_PEER} |",
        f"connections in all | {_connections.MAX_CONNECTIONS:,}; if",
    )
    assert all(limit in GUIDE for limit in limits)
    assert (
        f"at most {lag.MAX_SLOTS:,} slots, and fewer if there are nine arms or more. "
        f"With more than {lag.MAX_ARMS} arms, there is no estimate." in " ".join(GUIDE.split())
    )


def test_metrics_are_scraped_with_a_token(tmp_path):
    (text,) = re.findall("```yaml\n(.*?)```", GUIDE, re.DOTALL)
    assert "credentials_file:" in text
    storage = f"sqlite:///{tmp_path}/live.db"
    with ae.open_storage(storage) as place:
        token, _ = create_token(place, "read")
        ae.Experiment.create(**EXPERIMENT, storage=place).ask()
    with in_thread(storage) as service:
        assert call(service, "GET", "/metrics")[0] == 401
        text = call(service, "GET", "/metrics", token=token)[1]
    for name in re.findall(r"`(aftereffect_\w+)`", GUIDE):
        assert f"# TYPE {name} gauge" in text


def played(storage, slots):
    experiment = ae.Experiment.create(**EXPERIMENT, storage=storage)
    for _ in range(slots):
        slot = experiment.ask()
        experiment.tell(slot.slot, slot.slot)
    return experiment


def test_back_up_and_restore_of_sqlite(tmp_path):
    """A copy made while it is written to is whole, and restored it goes on from there."""
    database, copy = tmp_path / "aftereffect.db", tmp_path / "copy.db"
    experiment = played(f"sqlite:///{database}", 30)
    with sqlite3.connect(database) as source, sqlite3.connect(copy) as target:
        source.backup(target)  # as .backup of the shell does
    source.close()
    target.close()
    before = experiment.status()
    for _ in range(5):
        experiment.ask()
    experiment.storage.close()
    for name in ("aftereffect.db-wal", "aftereffect.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(copy, database)
    restored = ae.Experiment.open("banner", storage=f"sqlite:///{database}")
    assert restored.verify().whole
    assert restored.status() == before
    assert restored.ask().slot == 30


def test_back_up_and_restore_of_postgresql(postgres, tmp_path):
    dump, restore = (
        shutil.which(name) or postgres.bin / name for name in ("pg_dump", "pg_restore")
    )
    url = postgres.url()
    experiment = played(url, 20)
    before = experiment.status()
    place = ["--host=127.0.0.1", f"--port={postgres.port}", "--username=postgres"]
    name, copy = url.rpartition("/")[2], tmp_path / "copy.dump"
    with copy.open("wb") as file:
        subprocess.run([dump, *place, "--format=custom", name], stdout=file, check=True)
    experiment.ask()
    experiment.storage.close()
    subprocess.run(
        [restore, *place, "--clean", "--if-exists", f"--dbname={name}", copy], check=True
    )
    restored = ae.Experiment.open("banner", storage=url)
    assert restored.verify().whole
    assert restored.status() == before
    assert restored.ask().slot == 20
    restored.storage.close()


def test_a_path_prefix(tmp_path):
    """As a proxy that takes the prefix away: addresses that the service tells of begin with it."""
    with in_thread(f"sqlite:///{tmp_path}/live.db", root_path="/experiments") as service:
        assert (
            call(service, "POST", "/v1/experiments", EXPERIMENT)[2]["Location"]
            == "/experiments/v1/experiments/banner"
        )
        document = call(service, "GET", "/openapi.json")[1]
        assert document["servers"] == [{"url": "/experiments"}]


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "::1", "127.8.8.8", "localhost", "0.0.0.0", "192.168.1.4", "example.org", "::"],
)
def test_what_is_this_machine_alone(host):
    assert is_loopback(host) == (host in ("127.0.0.1", "::1", "127.8.8.8", "localhost"))

"""What holds for all tests."""

import os

import pytest

import postgres as postgres_server
from aftereffect import open_storage
from databases import played


@pytest.fixture(scope="session", autouse=True)
def without_counting(request):
    """Every driver compiles without counting references, which makes it slow; some tests allow it."""
    if request.config.getoption("--no-compiler"):
        yield None
        return
    from aftereffect.simulation import _compiled  # here: it loads numba

    compile_driver = _compiled._compile

    def checked(clones, world, *, counting):
        assert not counting, (
            f"{clones.play_batch.__qualname__} cannot be compiled without counting references"
        )
        return compile_driver(clones, world, counting=counting)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_compiled, "_compile", checked)
        yield compile_driver


@pytest.fixture
def counting_allowed(without_counting, monkeypatch):
    """For kernels that make arrays of their own."""
    from aftereffect.simulation import _compiled

    monkeypatch.setattr(_compiled, "_compile", without_counting)


@pytest.fixture(scope="session")
def postgres():
    """A real server; where its programs are not installed the tests that need it are left out, but never in CI."""
    if postgres_server.programs() is None:
        why = "PostgreSQL's programs (initdb, postgres, pg_ctl) are not installed: Debian has them in the package postgresql"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)
    server = postgres_server.Server()
    yield server
    server.remove()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def connect(request, tmp_path):
    """Gives a storage, each time a new one over the same place."""
    if request.param == "memory":
        storage = open_storage("memory://")
        yield lambda **options: storage
        return
    url = (
        f"sqlite:///{tmp_path}/live.db"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres").url()
    )
    opened = []

    def connected(**options):
        opened.append(open_storage(url, **options))
        return opened[-1]

    yield connected
    for storage in opened:
        storage.close()


@pytest.fixture
def whole(tmp_path):
    """A database with an experiment that was played for a while."""
    return played(tmp_path / "whole.db")


@pytest.fixture
def storage(tmp_path):
    """Where a service keeps its experiments."""
    return f"sqlite:///{tmp_path}/live.db"


@pytest.fixture
def service(storage):
    """The address of a service on it."""
    from services import in_thread  # here: tests of other things need not load it

    with in_thread(storage) as address:
        yield address


@pytest.fixture
def tokens(storage):
    """One of each scope."""
    from aftereffect.service import create_token

    with open_storage(storage) as place:
        return {scope: create_token(place, scope)[0] for scope in ("read", "write", "admin")}

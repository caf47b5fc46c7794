"""The files of deploy/: each is run, or checked as far as it can be without what it deploys to."""

import configparser
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import aftereffect as ae
from aftereffect._core.installation import EXTRAS
from aftereffect.cli import app
from services import EXPERIMENT, in_thread

DEPLOY = Path(__file__).parents[2] / "deploy"
BIN = Path(sys.executable).parent


def unit():
    parser = configparser.ConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string((DEPLOY / "aftereffect.service").read_text())
    return parser


def test_the_unit_starts_the_service():
    command = unit()["Service"]["ExecStart"].split()
    assert command[0].endswith("/aftereffect")
    assert app.parse_args(command[1:])[0].__name__ == "serve"
    # Requests under way get ten seconds: systemd must wait longer before it kills.
    assert int(unit()["Service"]["TimeoutStopSec"]) > 10


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_accepts_the_unit(tmp_path):
    text = (DEPLOY / "aftereffect.service").read_text()
    path = tmp_path / "aftereffect.service"
    path.write_text(text.replace("/opt/aftereffect/bin/aftereffect", str(BIN / "aftereffect")))
    done = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def instructions():
    """The instructions of the Containerfile, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def values(name):
    return [rest for word, rest in instructions() if word == name]


def test_the_image_has_two_stages_and_a_user_without_rights():
    first, second = values("FROM")
    assert first == f"{second} AS build"
    assert values("USER") == ["10001"]
    assert re.search(r"useradd .*--uid 10001", " ".join(values("RUN")))
    names = [word for word, _ in instructions()]
    assert names.index("USER") > names.index("ENV") > names.index("FROM", 1)


def test_the_image_is_built_from_files_that_exist():
    """In the first stage, what pip installs is copied before."""
    copied = [word for line in values("COPY") if "--from" not in line for word in line.split()[:-1]]
    root = DEPLOY.parent
    assert all((root / name).exists() for name in copied)
    project = (root / "pyproject.toml").read_text()
    for key in ("readme", "path"):
        (needed,) = re.findall(rf'^{key} = "(.*)"$', project, re.MULTILINE)
        assert any(needed == name or needed.startswith(f"{name}/") for name in copied)
    (extras,) = re.findall(r"'\.\[(.*?)\]'", " ".join(values("RUN")))
    assert {"service", "postgres"} == set(extras.split(",")) <= EXTRAS.keys()


def test_the_image_starts_a_service_that_others_can_reach():
    (entry,), (command,) = values("ENTRYPOINT"), values("CMD")
    assert json.loads(entry) == ["aftereffect"]
    function, given, _ = app.parse_args(json.loads(command))
    assert (function.__name__, given.kwargs["host"]) == ("serve", "0.0.0.0")


def test_the_image_has_the_default_policy_compiled():
    """By its user, into a folder that is no volume: an older volume would hide it."""
    steps = instructions()
    (compiles,) = [each for each in steps if each[0] == "RUN" and each[1].startswith("aftereffect")]
    function, given, _ = app.parse_args(shlex.split(compiles[1])[1:])
    assert (function.__name__, given.kwargs["storage"]) == ("create", "memory://")
    assert "policy" not in given.kwargs
    assert steps.index(compiles) > steps.index(("USER", "10001"))
    (cache,) = re.findall(r"XDG_CACHE_HOME=(\S+)", " ".join(values("ENV")))
    assert f"install --directory --owner=aftereffect {cache}/aftereffect" in values("RUN")[2]
    assert not any(cache.startswith(volume) for volume in values("VOLUME"))


def test_the_image_finds_out_whether_it_is_healthy(tmp_path):
    """The command of HEALTHCHECK, against a service, and against nothing."""
    (check,) = values("HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])
    assert words[0] == "python"

    def run(address):
        code = words[2].replace("http://127.0.0.1:8750", address)
        return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode

    with in_thread(f"sqlite:///{tmp_path}/live.db") as service:
        assert run(service) == 0
    assert run(service) != 0
    assert "127.0.0.1:8750/healthz" in words[2]


def test_compose_joins_the_service_and_its_database():
    text = (DEPLOY / "compose.yaml").read_text()
    services = yaml.safe_load(text)["services"]
    database, service = services["database"], services["service"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    url = re.sub(
        r"\$\{POSTGRES_PASSWORD:\?.*?\}", "secret", service["environment"]["AFTEREFFECT_STORAGE"]
    )
    names = database["environment"]
    assert url == (
        f"postgresql+psycopg://{names['POSTGRES_USER']}:secret@database/{names['POSTGRES_DB']}"
    )
    assert service["ports"] == ["127.0.0.1:8750:8750"]  # only a proxy on this machine reaches it
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert f"--username={names['POSTGRES_USER']}" in database["healthcheck"]["test"]


def run(script, *arguments, storage, folder):
    return subprocess.run(
        [DEPLOY / script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=os.environ
        | {
            "AFTEREFFECT_STORAGE": storage,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHON": sys.executable,
        },
    )


def play(experiment, slots):
    for _ in range(slots):
        slot = experiment.ask().slot
        experiment.tell(slot, slot)


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/live.db"
    return request.getfixturevalue("postgres").url()


def test_what_was_backed_up_is_restored(storage, tmp_path):
    """While it is written to, with everything that was recorded before, and nothing after."""
    copy = tmp_path / "monday.backup"
    with ae.open_storage(storage) as place:
        experiment = ae.Experiment.create(**EXPERIMENT, storage=place)
        play(experiment, 30)
        before = experiment.status()
        done = run("backup", copy, storage=storage, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        play(experiment, 5)
    assert copy.stat().st_mode & 0o077 == 0 or storage.startswith("postgresql")
    done = run("restore", copy, storage=storage, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "banner: whole" in done.stdout
    with ae.Experiment.open("banner", storage=storage) as restored:
        assert restored.status() == before
        assert restored.ask().slot == 30
    if storage.startswith("sqlite"):  # what was there is kept
        with ae.Experiment.open("banner", storage=f"{storage}.before-restore") as kept:
            assert kept.status().received == 35


def test_a_backup_never_replaces_a_file(tmp_path):
    copy = tmp_path / "monday.backup"
    copy.write_text("precious")
    storage = f"sqlite:///{tmp_path}/live.db"
    done = run("backup", copy, storage=storage, folder=tmp_path)
    assert (done.returncode, copy.read_text()) == (2, "precious")
    assert "name a new file" in done.stderr


def test_a_backup_that_fails_leaves_no_file(tmp_path):
    storage = f"sqlite:///{tmp_path}/gone.db"
    done = run("backup", tmp_path / "copy", storage=storage, folder=tmp_path)
    assert done.returncode != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["backup", "restore"])
def test_scripts_say_what_they_need(script, tmp_path):
    given = tmp_path / "given"
    if script == "restore":
        given.write_text("")
    done = run(script, given, storage="memory://", folder=tmp_path)
    assert done.returncode == 2
    assert "expected sqlite:///FILE or postgresql" in done.stderr
    assert run(script, storage="memory://", folder=tmp_path).stderr.startswith("usage:")


def test_damage_in_a_backup_is_reported(tmp_path):
    storage, copy = f"sqlite:///{tmp_path}/live.db", tmp_path / "monday.backup"
    with ae.Experiment.create(**EXPERIMENT, storage=storage) as experiment:
        play(experiment, 3)
    assert run("backup", copy, storage=storage, folder=tmp_path).returncode == 0
    database = sqlite3.connect(copy, isolation_level=None)
    database.execute("UPDATE aftereffect_events SET total = 99 WHERE kind = 'total' AND slot = 1")
    database.close()
    done = run("restore", copy, storage=storage, folder=tmp_path)
    assert done.returncode == 1
    assert "banner" in done.stdout


def test_commands_of_the_tutorial_are_those_of_the_files():
    """The user, the folder and the database of the tutorial are those of the unit."""
    text = (DEPLOY.parent / "docs" / "tutorials" / "deploy.md").read_text()
    service = unit()["Service"]
    assert f"--home-dir {service['WorkingDirectory']} {service['User']}" in text
    assert service["Environment"].removeprefix("AFTEREFFECT_STORAGE=") in text
    for line in re.findall(r"^podman.* (token create .*)$", text, re.MULTILINE):
        assert app.parse_args(shlex.split(line))[0].__name__

"""A PostgreSQL server of the tests' own, from the system's programs."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

#: Debian keeps the server's programs apart by version, and not on the path.
VERSIONED = Path("/usr/lib/postgresql")
#: As root it will not run; this is the user that its package makes.
USER = "postgres"
NEEDED = ("initdb", "postgres", "pg_ctl")


def programs():
    """The folder with the server's programs, or None."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(
        VERSIONED.glob("*/bin"),
        key=lambda folder: int(folder.parent.name.partition(".")[0]),
        reverse=True,
    )
    return next(
        (folder for folder in folders if all((folder / name).exists() for name in NEEDED)), None
    )


class Server:
    """A running server; `url` of a new, empty database each time."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="aftereffect-postgres-"))
        self.bin = programs()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.databases = 0
        self.owner = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(USER)
            self.owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.folder.chmod(0o755)
        self._run(
            "initdb",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            f"--username={USER}",
            "-D",
            self.folder / "data",
        )
        self.start()

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{self.folder}'"
        self._run(
            "pg_ctl",
            "-D",
            self.folder / "data",
            "-l",
            self.folder / "log",
            "-w",
            "-o",
            options,
            "start",
        )

    def stop(self, mode="fast"):
        self._run("pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop")

    def remove(self):
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def url(self):
        self.databases += 1
        name = f"tests_{self.databases}"
        self.sql("postgres", f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}"

    def sql(self, database, statement):
        import psycopg

        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program, *arguments):
        # Neither folder nor environment of who runs the tests need be open to the server's user.
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            text=True,
            **self.owner,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(
                f"{program} failed: {done.stderr or (log.read_text() if log.exists() else '')}"
            )

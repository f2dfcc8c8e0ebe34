"""A real PostgreSQL in a temporary folder, on a free port, for the tests."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg

from tests.server.ports import free_port


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; Debian's are not on the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Cluster:
    def __init__(self, programs: Path) -> None:
        self.programs, self.port, self._databases = programs, free_port(), 0
        self.folder = Path(tempfile.mkdtemp(prefix="saft-postgres-"))  # pytest's are for their owner only
        # PostgreSQL refuses to run as root; Debian's package makes a user for it.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        self.run("initdb", "-D", "data", "-U", "saft", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        options = (
            f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder} -c fsync=off"
        )
        self.run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")

    def run(self, program: str, *arguments: str) -> None:
        with (self.folder / "output").open("a+") as output:  # a pipe would stay open as long as the server runs
            done = subprocess.run(
                [self.programs / program, *arguments], cwd=self.folder, env=os.environ | {"HOME": str(self.folder)},
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                **({"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}),
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, output.read()

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._databases += 1
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE saft_{self._databases}")
        return self.url(f"saft_{self._databases}")

    def cut_off(self, url: str) -> None:
        """End all connections to a database, and let nobody in."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            name = url.rpartition("/")[2]
            connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])

    def bring_back(self, url: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} ALLOW_CONNECTIONS true")

    def url(self, database: str) -> str:
        return f"postgresql://saft@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        self.run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)

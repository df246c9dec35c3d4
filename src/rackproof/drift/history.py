"""The history: runs, verdicts, findings and accepted evidence, in one SQLite file with the bundles beside it.

    FOLDER/history.db
    FOLDER/evidence/RUN/NODE.tar.gz      evidence of each run, until retention takes it
    FOLDER/accepted/NODE-SHA256.tar.gz   evidence that is a reference; retention never takes it

Write-ahead logging and a busy timeout make it safe with several processes; a write is one transaction. The file says
whose it is (application_id) and of which version (user_version), so that a foreign file is never written to.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rackproof.drift.records import Accepted, NodeRun, Run, Seen
from rackproof.errors import InputError, RackproofError

APPLICATION_ID = 0x52504B31  # "RPK1"
VERSION = 1
BUSY_S = 30.0
_SCHEMA = Path(__file__).parent / "schema.sql"
# From version N to N+1, at N-1 in this list. Each is one script and leaves every older row readable.
MIGRATIONS: tuple[str, ...] = ()


class History:
    """An open history. Use as a context manager; every method is its own transaction."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        self.folder = folder
        self.path = folder / "history.db"
        if not create and not self.path.is_file():
            raise InputError(str(self.path), "there is no history", "the folder of an earlier run; --store names it")
        with self._explained():
            folder.mkdir(parents=True, exist_ok=True, mode=0o750)
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            with self._explained():
                self._open()
        except BaseException:
            self._db.close()
            raise

    def __enter__(self) -> History:
        return self

    def __exit__(self, *ended: object) -> None:
        self._db.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the file system and of SQLite as one message that says what to do."""
        where = str(self.path)
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                raise RackproofError(f"{where}: another process holds the history for over {BUSY_S:.0f} s") from None
            raise RackproofError(f"{where}: {error}; is the folder writable and the disk not full?") from None
        except sqlite3.DatabaseError as error:
            move = "move it away to begin a new one; accepted evidence beside it stays usable"
            raise InputError(
                where, f"is not a usable history: {error}", f"a history that rackproof wrote; {move}"
            ) from None
        except OSError as error:
            raise InputError(
                where, f"cannot be used: {error.strerror or error}", "a folder that can be written"
            ) from None

    def _open(self) -> None:
        # Looked at before anything is written: turning a foreign database to WAL would already change it.
        owner = self._pragma("application_id")
        empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if owner != APPLICATION_ID and not (owner == 0 and empty):
            raise InputError(str(self.path), "is a database of another program", "a history that rackproof wrote")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA foreign_keys = ON")
        with self._writing():  # whoever comes second waits here, and then finds it done
            self._migrate()

    def _migrate(self) -> None:
        version = self._pragma("user_version")
        if version > VERSION:
            raise InputError(
                str(self.path), f"has schema version {version}", f"at most {VERSION}; a newer rackproof wrote it"
            )
        scripts = MIGRATIONS[version - 1 :] if version else (_SCHEMA.read_text(encoding="utf-8"),)
        for script in scripts:
            for statement in _statements(script):
                self._db.execute(statement)
        if scripts:
            self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _pragma(self, name: str) -> int:
        return int(self._db.execute(f"PRAGMA {name}").fetchone()[0])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def accept(self, items: Sequence[Accepted]) -> None:
        """New references: all or none."""
        with self._explained(), self._writing():
            self._db.executemany(
                "INSERT INTO accepted (node, at, evidence_sha256, started, bundle, verdict, reason) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(a.node, a.at, a.evidence_sha256, a.started, a.bundle, a.verdict, a.reason) for a in items],
            )

    def reference(self, node: str) -> Accepted | None:
        """The evidence that holds for a node, or None."""
        rows = self._all(
            "SELECT node, at, evidence_sha256, started, bundle, verdict, reason FROM accepted WHERE node = ? "
            "ORDER BY id DESC LIMIT 1",
            node,
        )
        return Accepted(*rows[0]) if rows else None

    def bundles(self) -> list[str]:
        """Bundles of the runs that are kept."""
        return [bundle for (bundle,) in self._all("SELECT bundle FROM nodes WHERE bundle IS NOT NULL")]

    def record(self, run: Run, nodes: Sequence[NodeRun]) -> int:
        """A run with all its nodes and findings; returns its number."""
        with self._explained(), self._writing():
            number = self._db.execute(
                "INSERT INTO runs (started, verdict, exit_code, tool) VALUES (?, ?, ?, ?)",
                (run.started, run.verdict, run.exit_code, run.tool),
            ).lastrowid
            for one in nodes:
                self._db.execute(
                    "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (number, one.node, one.verdict, one.problem, one.evidence_sha256, one.bundle, one.reference_sha256,
                     one.baseline),
                )  # fmt: skip
                self._db.executemany(
                    "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (number, one.node, f.fingerprint, f.fact_class, f.kind, f.subject, f.detail)
                        for f in one.findings
                    ],
                )
        assert number is not None
        return number

    def first_seen(self, node: str, fingerprint: str, reference_sha256: str) -> str | None:
        """When a finding began: the first of the latest runs in a row that had it, against this reference.

        Runs in which the node could not be read say nothing either way.
        """
        rows = self._all(
            "SELECT r.started, f.fingerprint IS NOT NULL FROM nodes n JOIN runs r ON r.id = n.run "
            "LEFT JOIN findings f ON f.run = n.run AND f.node = n.node AND f.fingerprint = ? "
            "WHERE n.node = ? AND n.reference_sha256 = ? AND n.problem IS NULL ORDER BY n.run DESC",
            fingerprint, node, reference_sha256,
        )  # fmt: skip
        since = None
        for started, there in rows:
            if not there:
                break
            since = started
        return since

    def last_verdict(self) -> Run | None:
        """The newest run."""
        rows = self._all("SELECT started, verdict, exit_code, tool, id FROM runs ORDER BY id DESC LIMIT 1")
        return Run(*rows[0]) if rows else None

    def last_bundle(self, node: str) -> str | None:
        """The newest whole evidence that is still kept of a node."""
        rows = self._all(
            "SELECT bundle FROM nodes WHERE node = ? AND bundle IS NOT NULL AND problem IS NULL ORDER BY run DESC LIMIT 1",
            node,
        )
        return str(rows[0][0]) if rows else None

    def of_node(self, node: str, since: str = "") -> list[tuple[Run, NodeRun]]:
        """Every run of a node from a time on, oldest first."""
        rows = self._all(
            "SELECT r.started, r.verdict, r.exit_code, r.tool, r.id, n.verdict, n.problem, n.evidence_sha256, n.bundle, "
            "n.reference_sha256, n.baseline FROM nodes n JOIN runs r ON r.id = n.run "
            "WHERE n.node = ? AND r.started >= ? ORDER BY r.id",
            node, since,
        )  # fmt: skip
        return [
            (
                Run(*row[:5]),
                NodeRun(node, row[5], row[6], row[7], row[8], row[9], row[10], self._findings(row[4], node)),
            )
            for row in rows
        ]

    def _findings(self, run: int, node: str) -> tuple[Seen, ...]:
        rows = self._all(
            "SELECT fingerprint, class, kind, subject, detail FROM findings WHERE run = ? AND node = ? ORDER BY rowid",
            run, node,
        )  # fmt: skip
        return tuple(Seen(*row) for row in rows)

    def accepted_of(self, node: str) -> list[Accepted]:
        rows = self._all(
            "SELECT node, at, evidence_sha256, started, bundle, verdict, reason FROM accepted WHERE node = ? ORDER BY id",
            node,
        )
        return [Accepted(*row) for row in rows]

    def names(self) -> list[str]:
        """Every node the history knows."""
        return [name for (name,) in self._all("SELECT node FROM nodes UNION SELECT node FROM accepted ORDER BY 1")]

    def forget(self, keep_runs: int | None, before: str | None) -> list[str]:
        """Forget runs beyond the newest `keep_runs` and those before a time; returns bundles that are now nobody's.

        The newest run always stays. References have files of their own and are not touched.
        """
        with self._explained(), self._writing():
            doomed = self._db.execute(
                "SELECT id FROM runs WHERE id < (SELECT max(id) FROM runs) AND (started < ? OR id NOT IN "
                "(SELECT id FROM runs ORDER BY id DESC LIMIT ?))",
                (before or "", -1 if keep_runs is None else max(keep_runs, 1)),
            ).fetchall()
            bundles: list[str] = []
            for (number,) in doomed:
                query = "SELECT bundle FROM nodes WHERE run = ? AND bundle IS NOT NULL"
                bundles += [bundle for (bundle,) in self._db.execute(query, (number,))]
                self._db.execute("DELETE FROM runs WHERE id = ?", (number,))
        return bundles


def _statements(script: str) -> Iterator[str]:
    """Single statements: executescript would commit before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

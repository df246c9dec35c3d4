"""The source of a self-build: one commit, fetched on the machine that deploys and handed to the hosts as an archive.

git names a commit by the hash of what it holds, so what is fetched is that commit or nothing.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from rackproof.errors import InputError

FETCH_S = 1800


@cache
def archive(repository: str, commit: str, where: str) -> Path:
    """A tar of the tree of a commit. Raises InputError naming `where` when the repository does not have it."""
    if shutil.which("git") is None:
        raise InputError(where, "there is no git on this machine", "git, to fetch the commit that is built")
    folder = Path(tempfile.mkdtemp(prefix="rackproof-selfbuild-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _git(folder, where, "init", "-q")
    # By its hash alone where the server allows that, else all branches and tags.
    if _run(folder, "fetch", "-q", "--depth", "1", "--", repository, commit).returncode != 0:
        _git(folder, where, "fetch", "-q", "--", repository, "+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")
    found = _run(folder, "cat-file", "-t", commit)
    if found.returncode != 0 or found.stdout.strip() != "commit":
        raise InputError(where, f"{repository} has no commit {commit}", "a commit that can be fetched")
    path = folder / "source.tar"
    _git(folder, where, "archive", "--format=tar", f"--output={path}", commit)
    return path


def _git(folder: Path, where: str, *words: str) -> None:
    done = _run(folder, *words)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise InputError(where, f"git {words[0]} failed: {said[0][:300]}", "a repository that can be fetched")


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"no end after {FETCH_S} s")

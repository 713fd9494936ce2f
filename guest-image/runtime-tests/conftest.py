"""Fixtures: a new guest per test, or one per module where tests do not affect each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from guest import Guest
from host import Host, host_at, server
from servers import ISSUE, ODD, S


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Guest]:
    started = Guest(tmp_path)
    yield started
    started.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    started = Guest(tmp_path_factory.mktemp("workspace"))
    yield started
    started.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = host_at(tmp_path)
    yield made
    made.guest.close()


@pytest.fixture(scope="module")
def shared_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    made = host_at(tmp_path_factory.mktemp("workspace"))
    made.check("import asyncio, json, pickle", [server("github", ISSUE), ODD], ["jira", "mem-o"])
    yield made
    made.guest.close()


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Host]:
    """A host with a server whose tool returns its arguments."""
    made = host_at(tmp_path)
    made.check("import asyncio, threading, time, json, pickle", [S])
    yield made
    made.guest.close()

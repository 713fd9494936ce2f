"""Fixtures: a fresh guest per test, or one per module where tests do not disturb each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from guest import Guest


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

"""Offices whose programs are ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.live.printing.programs import Office


@pytest.fixture
def office() -> Iterator[Callable[..., Office]]:
    made: list[Office] = []

    def open_office(*given: Any, **more: Any) -> Office:
        made.append(Office(*given, **more))
        return made[-1]

    yield open_office
    for each in made:
        each.close()

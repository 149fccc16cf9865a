"""The ending of a name decides what is written."""

from __future__ import annotations

import importlib.util
import re
from functools import partial
from pathlib import Path

import pytest

import habemus
from habemus.traces import Trace
from habemus.traces.diagram import svg
from habemus.traces.export import ENDINGS, check_ending, save
from habemus.traces.file import read
from habemus.traces.mermaid import markdown, mermaid
from habemus.traces.shiviz import shiviz


@pytest.fixture
def trace(stories: dict[str, Trace]) -> Trace:
    return stories["violation"]


def test_text_goes_where_its_ending_says(trace: Trace, tmp_path: Path) -> None:
    for ending, made in ((".svg", svg), (".md", markdown), (".mmd", mermaid), (".shiviz", shiviz)):
        save(trace, tmp_path / f"run{ending}")
        assert (tmp_path / f"run{ending}").read_text(encoding="utf-8") == made(trace)


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".JSON"])
def test_the_trace_itself_can_be_read_again(trace: Trace, tmp_path: Path, ending: str) -> None:
    save(trace, str(tmp_path / f"run{ending}"))
    assert read(tmp_path / f"run{ending}") == trace


@pytest.mark.skipif(importlib.util.find_spec("resvg_py") is None, reason="PNG needs resvg-py")
def test_a_picture_in_pixels(trace: Trace, tmp_path: Path) -> None:
    save(trace, tmp_path / "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["run", "run.gif", "run.svg.bak", ".svg"])
def test_an_unknown_ending_is_refused_and_nothing_is_written(
    trace: Trace, tmp_path: Path, name: str
) -> None:
    for refuse in (partial(check_ending, tmp_path / name), partial(save, trace, tmp_path / name)):
        with pytest.raises(
            ValueError,
            match=(
                r"the name must end in \.svg, \.png, \.md, \.mmd, \.json, \.jsonl, \.shiviz,"
                r" \.perfetto, \.perfetto\.json$"
            ),
        ) as raised:
            refuse()
        assert len(str(raised.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_every_ending_is_accepted() -> None:
    for ending in ENDINGS:
        check_ending(f"run{ending}")


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_endings_are_documented(ending: str) -> None:
    assert ending in re.findall(r"[.][.\w]*\w", Trace.save.__doc__ or "")
    assert "`Trace.save`" in (habemus.RunResult.save.__doc__ or "")

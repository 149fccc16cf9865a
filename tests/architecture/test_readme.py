"""README.md and its translation: their commands and code run in the order of the page, in one
folder, and both pages have the same code, links and outline.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest
from tests.markdown import ROOT, Block, blocks, links, outline, section, sentences, tokens

from habemus.cli import app as cli

README, TRANSLATION = ROOT / "README.md", ROOT / "README.pt.md"
SEEN = {
    "habemus scenario central-holder-slow": "ME1             violated",
    "habemus check maekawa -n 3": "ME2-deadlock    violated",
    "habemus up -n 3 -- habemus lock": "token ",
    "habemus up -n 3 -- habemus lead": "term ",
}
"""What must be seen in the output of commands that begin like this."""


def without_comments(block: Block) -> str:
    return re.sub(r"[ ]+#[ ].*", "", block.text)


def commands(page: Path) -> Iterator[str]:
    """Return the commands and programs of the page, in its order, those in tables as well."""
    in_table = False
    for each in tokens(page):
        if each.type in ("table_open", "table_close"):
            in_table = each.type == "table_open"
        if each.type == "fence" and each.info == "console":
            text = without_comments(Block(each.info, each.content))
            yield from (line.removeprefix("$ ") for line in text.splitlines())
        elif each.type == "fence" and each.info == "python":
            yield f"python -W error -c {shlex.quote(each.content)}"
        elif in_table:
            code = (child for child in each.children or () if child.type == "code_inline")
            yield from (child.content for child in code if child.content.startswith("habemus "))


def ran(command: str, folder: Path) -> str:
    """Execute a command as a shell of the reader would; return its output."""
    if command.startswith("make "):
        return subprocess.check_output([*shlex.split(command), "--dry-run"], cwd=ROOT, text=True)
    patient = command.replace("habemus up", "habemus up -o lease=60s")  # the machine may stall
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        patient,
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path, "XDG_STATE_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    finds = command.startswith("habemus check ")
    assert done.returncode == finds and "Traceback" not in done.stderr, f"{command}: {done.stderr}"
    return done.stdout


def lab_answers(command: str, folder: Path) -> None:
    """Start the lab, and get its page."""
    words = [sys.executable, "-m", *shlex.split(command), "--port", "0", "--no-browser"]
    with subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as lab:
        assert lab.stdout is not None
        try:
            [address] = re.findall(r"http://\S+", lab.stdout.readline())
            with urllib.request.urlopen(address) as answer:
                assert b"<title>" in answer.read()
        finally:
            lab.terminate()


def test_commands_and_code_run_in_the_order_of_the_page(tmp_path: Path) -> None:
    seen = set()
    for command in commands(README):
        if command.startswith("habemus lab "):
            lab_answers(command, tmp_path)
            continue
        output = ran(command, tmp_path)
        for start, part in SEEN.items():
            if command.startswith(start):
                seen.add(start)
                assert part in output, f"{command}: {output}"
    assert seen == set(SEEN)


def test_the_translation_has_the_same_code() -> None:
    assert [(each.language, without_comments(each)) for each in blocks(README)] == [
        (each.language, without_comments(each)) for each in blocks(TRANSLATION)
    ]


def test_the_translation_has_the_same_commands_in_its_tables() -> None:
    assert list(commands(README)) != []
    assert [each for each in commands(README) if each.startswith("habemus ")] == [
        each for each in commands(TRANSLATION) if each.startswith("habemus ")
    ]


def test_the_translation_has_the_same_outline_and_links() -> None:
    assert outline(README) == outline(TRANSLATION)
    translated = {
        "README.pt.md": "README.md",
        "docs/printing.md": "docs/printing.pt.md",
        "docs/source-texts.md": "docs/source-texts.pt.md",
        "#set-up": "#instalação",
    }
    assert [translated.get(each, each) for each in links(README)] == links(TRANSLATION)


@pytest.mark.parametrize("page", [README, TRANSLATION], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        file, _, heading = link.partition("#")
        target = ROOT / (file or page)
        assert target.exists(), link
        assert not heading or section(target, heading), link


def test_the_lock_takes_four_lines() -> None:
    first = next(each for each in blocks(README) if each.language == "python")
    assert first.text.count("\n") == 4


def test_programs_import_only_the_public_package() -> None:
    code = "".join(each.text for each in blocks(README) if each.language == "python")
    assert set(re.findall(r"^\s*(?:import|from)\s.*", code, re.MULTILINE)) == {"import habemus"}


def test_every_command_takes_json_except_those_that_the_page_names() -> None:
    [named] = [each for each in sentences(README) if "`--json`" in each]
    program = cli.habemus
    context = click.Context(program)

    def without(command: click.Command, name: str) -> Iterator[str]:
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                yield from without(command.get_command(context, each) or command, each)
        elif not any("--json" in each.opts for each in command.params):
            yield name

    assert sorted(without(program, "habemus")) == sorted(re.findall(r"`(\w+)`", named))


def test_the_reading_takes_an_hour() -> None:
    """Five files and three pages, at 200 words or 25 lines per minute."""
    table = section(ROOT / "ARCHITECTURE.md", "read-this-in-one-hour")
    rows = re.findall(r"^\| \d \| \[.*?\]\((\S+?)\)(.*?) \| (\d+) \|", table, re.MULTILINE)
    files = [link.partition("#")[0] for link, _, _ in rows]
    assert sorted(Path(file).suffix for file in files) == [".md"] * 3 + [".py"] * 5
    for link, part, minutes in rows:
        file, _, heading = link.partition("#")
        text = (ROOT / file).read_text(encoding="utf-8")
        if part:  # from one method to the end of another one
            first, last = (text.index(f"    def {name}(") for name in re.findall(r"`(\w+)`", part))
            text = text[first : text.index("    def ", last + 1)]
        if heading:
            text = section(ROOT / file, heading)
        assert text
        effort = text.count("\n") / 25 if file.endswith(".py") else len(text.split()) / 200
        assert effort <= int(minutes), f"{link} takes {effort:.1f} minutes"
    assert sum(int(minutes) for _, _, minutes in rows) <= 60


def test_targets_of_make_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = [each.replace("%", "*") for each in re.findall(r"^([a-z%-]+):", makefile, re.M)]
    pages = [README, ROOT / "CONTRIBUTING.md", ROOT / "tests/README.md", *ROOT.glob("docs/*.md")]
    named = {
        (page.name, target)
        for page in pages
        for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert [
        each for each in sorted(named) if not any(fnmatch(each[1], target) for target in targets)
    ] == []

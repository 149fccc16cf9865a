"""The documents say what is true: their commands run, their code runs, and what is generated is up
to date.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from habemus.analysis import glossary
from habemus.analysis.cards import crashes as faults
from habemus.catalog.entries import SECTIONS, entries
from habemus.scenarios import find, scenarios

ROOT = Path(__file__).parents[2]
CHAPTERS = ("first-algorithm.md", "checking.md")
"""Their commands go on from one another; test_chapters.py runs them in order."""
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
"""All pages but README.md and its translation, which test_readme.py runs."""


def blocks(language: str) -> list[tuple[str, str]]:
    found = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        found += [
            (document.name, block)
            for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        ]
    return found


def commands() -> list[tuple[str, str]]:
    told = [(name, block) for name, block in blocks("console") if name not in CHAPTERS]
    lines = [
        (name, line[2:])
        for name, block in told
        for line in block.splitlines()
        if line.startswith("$ habemus")
    ]
    return list(dict.fromkeys(lines))


def patient(command: str) -> str:
    """Return the command with leases that do not expire while the machine stalls."""
    has_lease = command.startswith("habemus up") and "--algorithm" not in command
    return command.replace("habemus up", "habemus up -o lease=60s", 1) if has_lease else command


def test_there_are_commands_in_the_documents() -> None:
    assert len(commands()) > 5


def pictures(document: str) -> set[str]:
    """The names of the pictures that a document shows."""
    text = next(file for file in DOCUMENTS if file.name == document).read_text(encoding="utf-8")
    return set(re.findall(r"!\[[^]]*\]\([^)]*images/([^)]+)\)", text))


@pytest.mark.parametrize(("document", "command"), commands())
def test_command_of_the_documents(
    document: str, command: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each command is understood and ends with a verdict, whatever it is; a picture that it saves
    is the one that the document shows.
    """
    for file in (ROOT / "examples").glob("*.toml"):
        shutil.copy(file, tmp_path)
    for one in re.split(r"\s+(?:&&|;)\s+", re.sub(r"\s+#.*", "", patient(command))):
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(one)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, (
            f"{document}: {command}: {done.stderr}"
        )
    for name in sorted(pictures(document)):
        if (tmp_path / name).exists():
            shown = ROOT / "docs" / "images" / name
            if request.config.getoption("--rewrite"):
                shown.write_bytes((tmp_path / name).read_bytes())
            same = shown.exists() and shown.read_bytes() == (tmp_path / name).read_bytes()
            assert same, f"{document}: {name} is not what {command} draws; run make docs"


def test_the_pictures_of_the_numbers_are_made_by_the_commands_beside_them() -> None:
    saved = {
        word
        for document, command in commands()
        if document == "numbers.md"
        for word in command.split()
    }
    assert pictures("numbers.md") and pictures("numbers.md") <= saved


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.name
)
def test_example(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("document", "code"), [block for block in blocks("python") if "import" in block[1]]
)
def test_code_of_the_documents(document: str, code: str) -> None:
    exec(compile(code, document, "exec"), {})


def generated() -> dict[Path, str]:
    """What is made from the code and committed."""
    return {
        ROOT / "docs" / "algorithms.md": _catalog_page(),
        ROOT / "docs" / "faults.md": faults.page(),
        ROOT / "docs" / "glossary.md": glossary.page(),
    }


def _catalog_page() -> str:
    lines = [
        "# The algorithms",
        "",
        "This page is generated from the files of the algorithms; `make docs` writes it anew.",
        "",
    ]
    for problem in dict.fromkeys(entry.problem.title for entry in entries().values()):
        lines += [f"## {problem[0].upper()}{problem[1:]}", ""]
        for entry in entries().values():
            if entry.problem.title != problem:
                continue
            lines += [f"### `{entry.name}`", "", f"{entry.box.title}", ""]
            lines += [entry.box.idea, ""] if entry.box.idea else []
            lines += ["| | |", "|---|---|"]
            lines += [
                f"| {section} | {_cell(entry.box.sections[section])} |"
                for section in SECTIONS
                if section in entry.box.sections and section != "Unsafe"
            ]
            if entry.unsafe:
                lines.append(
                    f"| **Unsafe** | to see a violation: `habemus scenario {entry.unsafe}` |"
                )
            if entry.options:
                options = (f"`{name}={_cell(each)}`" for name, each in entry.options.items())
                lines.append(f"| Options | {', '.join(options)} |")
            lines.append("")
    lines += ["## Scenarios", "", "| name | what happens | outcome |", "|---|---|---|"]
    lines += [
        f"| `{each.name}` | {_cell(each.title)} | {each.expected} |"
        for each in scenarios().values()
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_generated_documents_are_up_to_date(request: pytest.FixtureRequest) -> None:
    for file, text in generated().items():
        if request.config.getoption("--rewrite"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists() and file.read_text(encoding="utf-8") == text, (
            f"{file.name} is out of date; run make docs"
        )


@pytest.mark.parametrize("name", [entry.unsafe for entry in entries().values() if entry.unsafe])
def test_what_is_called_unsafe_is_seen_broken(name: str) -> None:
    assert find(name).violates


def test_links_of_the_documents_lead_somewhere() -> None:
    for document in [*DOCUMENTS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            assert target.startswith("http") or (document.parent / target).exists(), (
                f"{document.name}: {target}"
            )

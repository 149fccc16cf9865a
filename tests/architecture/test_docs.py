"""What is generated is up to date, examples run, links lead somewhere; tests/docs follows pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from habemus.analysis import glossary
from habemus.analysis.cards import crashes as faults
from habemus.catalog.entries import SECTIONS, entries
from habemus.scenarios import find, scenarios

ROOT = Path(__file__).parents[2]
LOGO = ROOT / "src" / "habemus" / "lab" / "page" / "icon.svg"
"""The lab's icon, of which the documents have a copy."""
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
"""All pages but README.md and its translation (test_readme.py)."""


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


def generated() -> dict[Path, str]:
    """What is made from the code and committed."""
    return {
        ROOT / "docs" / "algorithms.md": _catalog_page(),
        ROOT / "docs" / "faults.md": faults.page(),
        ROOT / "docs" / "glossary.md": glossary.page(),
        ROOT / "docs" / "images" / "logo.svg": LOGO.read_text(encoding="utf-8"),
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
        if request.config.getoption("--habemus-rewrite"):
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

"""Follow a page as a reader does: from top to bottom, in one shell, in an empty folder.

What a page shows has these meanings, which its reader sees as well:

- a `console` block is a session: lines after `$ ` are commands, the lines below each are among
  those that it prints, in this order;
- a `text` block directly below it shows lines that these commands print, in this order;
- `...` stands for anything, in a line or as a line;
- a command that ends with `&` runs on; the next one waits until the lines below it are printed;
- "Save this as `NAME`" says what to do with the block below;
- a `diff` changes the file in the folder that has these lines;
- a `python` block is run if it imports something; else it is a part of a file of the folder, or of
  no file, and then it only has to compile.

`<!-- not run: REASON -->` above a block leaves it out; `<!-- with --times 10: REASON -->` leaves it
to the longer tests.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

SETUP = ("make ", "pip ", "git clone ", "sudo ", "export PATH=")
"""Commands that set up the machine of the reader, as was done for these tests."""
LONGEST = 600
"""Seconds after which a page that waits is ended."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    code: str
    file: str = ""  # to be saved as
    left_out: str = ""  # the reason
    long: bool = False
    below_console: bool = False

    @property
    def at(self) -> str:
        return f"docs/{self.page}, line {self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in re.finditer(r"^```(\w+)\n(.*?)^```\n", text, re.DOTALL | re.MULTILINE):
        before = text[end : match.start()]
        paragraph = before.strip().rpartition("\n\n")[2]
        saved = re.search(r"[Ss]ave (?:this|it) as `([^`]+)`", paragraph)
        mark = re.search(r"<!-- (not run|with --times 10): (.+?) -->\n\Z", before, re.DOTALL)
        found.append(
            Block(
                page.name,
                text.count("\n", 0, match.start()) + 1,
                match[1],
                match[2],
                file=saved[1] if saved else "",
                left_out=mark[2] if mark is not None and mark[1] == "not run" else "",
                long=mark is not None and mark[1] != "not run",
                below_console=bool(found)
                and found[-1].language == "console"
                and not before.strip(),
            )
        )
        end = match.end()
    return found


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """Return each command with the lines that it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.code.splitlines():
        if found and found[-1][0].endswith("\\"):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        elif line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.at}: a session begins with a command"
            found[-1][1].append(line)
    return found


def check_shown(at: str, shown: list[str], printed: list[str]) -> None:
    """Raise an error unless each line that the page shows was printed, in that order."""
    left = iter(printed)
    for line in shown:
        if line.strip() not in ("", "...") and not any(_is_shown_by(line, real) for real in left):
            raise AssertionError(
                f"{at}: not printed, or not there:\n{line}\n\nprinted:\n" + "\n".join(printed)
            )


def _is_shown_by(line: str, real: str) -> bool:
    """A page may leave out how long it took, and the reason of a verdict; columns may be wider."""
    line, real = (
        re.sub(r" +", " ", re.sub(r",? in \d+\.\d+ ?s\b", "", each)).rstrip()
        for each in (line, real)
    )
    pattern = ".*".join(map(re.escape, line.split("...")))
    reason = r"( .*)?" if line.endswith(("holds", "violated")) else ""
    return re.fullmatch(pattern + reason, real) is not None


def _drain(file: TextIO) -> None:
    """Read what a job prints until it has ended."""
    with file:
        file.read()


class Reader:
    """A shell in a folder that has only what the page made there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "folder"
        home = folder / "home"
        for each in (self.folder, home):
            each.mkdir()
        self._jobs: list[tuple[int, threading.Thread]] = []
        self._printed: list[str] = []  # by the commands of the last console block
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HABEMUS_", "XDG_", "PYTEST_"))
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=self.folder,
            env=environment | {"PATH": path, "HOME": str(home)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._watchdog = threading.Timer(LONGEST, self._shell.kill)
        self._watchdog.start()
        self._run("set -m")  # jobs have their own groups, as in a terminal

    def follow(self, block: Block) -> None:
        if block.file:
            (self.folder / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "console":
            self._printed = []
            for command, shown in commands(block):
                self._follow_command(block, command, shown)
        elif block.language == "text" and block.below_console:
            check_shown(block.at, block.code.splitlines(), self._printed)
        elif block.language == "diff":
            self._change(block)
        elif block.language == "python":
            self._follow_python(block)

    def close(self) -> None:
        """End what runs on, as Ctrl-C does."""
        for job, drain in self._jobs:
            self._run(f"kill -INT -- -{job} 2>/dev/null")
            drain.join()
        self._shell.communicate()
        self._watchdog.cancel()

    def _follow_command(self, block: Block, command: str, shown: list[str]) -> None:
        plain = re.sub(r"\s+# .*", "", command)
        if plain.startswith(SETUP):
            return
        if "--algorithm" not in plain:
            # Leases that do not expire while the machine stalls.
            plain = plain.replace("habemus up", "habemus up -o lease=60s", 1)
        at = f"{block.at}: {command}"
        if plain.endswith(" &"):
            self._start(at, plain.removesuffix(" &"), shown)
            return
        code, printed = self._run(plain)
        told = "\n".join(printed)
        says_why = re.search(
            r"\bviolated|\d failed|\bdifferent:|\bundecided|\bnot proved|\d violation", told
        )
        assert code == 0 or (code in (1, 3) and says_why), f"{at}\nexit code {code}\n{told}"
        assert "Traceback" not in told, f"{at}\n{told}"
        check_shown(at, shown, printed)
        self._printed += printed

    def _start(self, at: str, command: str, shown: list[str]) -> None:
        log = self.folder.parent / f"job-{len(self._jobs)}"
        os.mkfifo(log)
        _, [job] = self._run(f"{command} > {log} 2>&1 & echo $!")
        file = log.open(encoding="utf-8")
        printed: list[str] = []
        wanted = [line for line in shown if line.strip() not in ("", "...")]
        while wanted and (real := file.readline()):
            printed.append(real.rstrip("\n"))
            if _is_shown_by(wanted[0], printed[-1]):
                wanted.pop(0)
        drain = threading.Thread(target=_drain, args=(file,))
        drain.start()
        self._jobs.append((int(job), drain))
        assert not wanted, f"{at}: not printed:\n{wanted[0]}\n\nprinted:\n" + "\n".join(printed)

    def _run(self, command: str) -> tuple[int, list[str]]:
        """Return the exit code and the lines that a command prints."""
        assert self._shell.stdin and self._shell.stdout
        self._shell.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n=%s=\\n' $?\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for line in self._shell.stdout:
            if end := re.fullmatch(r"=(\d+)=\n", line):
                return int(end[1]), printed[:-1] if printed[-1:] == [""] else printed
            printed.append(line.rstrip("\n"))
        raise AssertionError(
            f"{command}: ended the shell, or took {LONGEST} s\n" + "\n".join(printed)
        )

    def _change(self, block: Block) -> None:
        before, after = (
            "".join(line[1:] + "\n" for line in block.code.splitlines() if line[0] in kinds)
            for kinds in (" -", " +")
        )
        files = self.folder.glob("*.py")
        having = [file for file in files if before in file.read_text(encoding="utf-8")]
        assert len(having) == 1, f"{block.at}: it changes lines of {len(having)} files:\n{before}"
        text = having[0].read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{block.at}: the lines are there more than once"
        having[0].write_text(text.replace(before, after), encoding="utf-8")

    def _follow_python(self, block: Block) -> None:
        if re.search(r"^(import|from) ", block.code, re.MULTILINE):
            code, printed = self._run(f"python -W error -c {shlex.quote(block.code)}")
            assert code == 0, f"{block.at}\n" + "\n".join(printed)
            return
        head, body = block.code.split("\n", 1)
        texts = [file.read_text(encoding="utf-8") for file in self.folder.glob("*.py")]
        if any(head in text for text in texts):
            assert any(head in text and body in text for text in texts), f"{block.at}: another code"
        compile(block.code, block.at, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

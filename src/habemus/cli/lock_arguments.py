"""The arguments of `habemus lock` and `habemus lead`: their options, and how they are read.

Importing click takes three times as long as starting Python, and a command under a lock is started
often.  So these two commands read their arguments here; click only prints their help.

    habemus lock [OPTIONS] NAME [OPTIONS] [--] COMMAND [ARGUMENT ...]

Options end at the first word of COMMAND: what follows belongs to COMMAND.
"""

from __future__ import annotations

from habemus.runtimes.live.clients.protocol import LOCKS, lock_name
from habemus.supervise.local_connection import finder
from habemus.supervise.locked_command import BAD_USE, LockRequest, complain, hold

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final, TypeAlias

    Value: TypeAlias = str | float | bool

MOST_SECONDS = 10**8
SECONDS, NUMBER, FLAG = "SECONDS", "N", ""
"""Values of options that are not texts."""
EXAMPLES: Final = {
    "lock": "Example: habemus lock nightly-report --timeout 60 -- ./report.sh --all",
    "lead": "Example: habemus lead scheduler -- ./scheduler",
}


class BadArguments(ValueError):
    """The command line is not valid."""


class HelpRequested(Exception):
    """The command line asks for help."""


class Option:
    """An option: its flag, its value, and its help text."""

    def __init__(self, flag: str, value: str, help: str) -> None:
        self.flag = flag
        self.value = value
        self.help = help

    @property
    def name(self) -> str:
        """Name of the option in Python."""
        return self.flag[2:].replace("-", "_")

    def read(self, text: str) -> str | float:
        """Return the value that a text stands for."""
        if self.value == SECONDS:
            return self._seconds(text)
        if self.value == NUMBER:
            if not (text.isascii() and text.isdecimal() and 0 < len(text) < 10 and int(text)):
                raise BadArguments(f"{self.flag}: {text!r} is not a whole number of 1 or more")
            return int(text)
        return text

    def _seconds(self, text: str) -> float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= MOST_SECONDS:
            raise BadArguments(
                f"{self.flag}: {text!r} is not a number of seconds from 0 to {MOST_SECONDS}"
            )
        return seconds


WAITING = (
    Option("--timeout", SECONDS, "Wait at most this long.  [default: no limit]"),
    Option("--try", FLAG, "Do not wait: fail if the lock is not free."),
    Option(
        "--lease",
        SECONDS,
        "Lease of the lock: it expires when the cluster has not heard from this client for so"
        " long.  [default and maximum: the lease of the cluster]",
    ),
)
CLUSTER = Option(
    "--cluster",
    "WHERE",
    "Node addresses (HOST:PORT,...), a socket, a cluster.toml, the folder of `habemus up`, `local`,"
    " or the URL of an engine."
    "  [default: HABEMUS_CLUSTER, then .habemus/, then the last cluster of `habemus up`]",
)
CREDENTIALS = (
    Option("--ca", "FILE", "CA certificate of the cluster, for nodes reached over the network."),
    Option("--certificate", "FILE", "This client's certificate."),
    Option("--key", "FILE", "Private key of that certificate."),
    Option("--secret-file", "FILE", "File with the cluster secret."),
)
"""Files with the credentials of this client; their defaults are in the environment."""
SERVICE = Option("--service", "TEXT", "Lock service of the cluster, if it has several.")
NODE = Option(
    "--node",
    NUMBER,
    "With a service of elections: lead while node N does.  [default: the first that answers]",
)
HOLDING = (*WAITING, CLUSTER, *CREDENTIALS, SERVICE)
OPTIONS: Final = {"lock": HOLDING, "lead": (NODE, *HOLDING)}
"""Options of each command."""


def run(program: str, words: Sequence[str]) -> int:
    """Run `habemus lock` or `habemus lead` with these arguments and return the exit code.

    Raise `HelpRequested` if they ask for help.
    """
    try:
        request, node = parse(program, words)
    except BadArguments as reason:
        complain(str(reason))
        return BAD_USE
    return hold(request, finder(request, node))


def parse(program: str, words: Sequence[str]) -> tuple[LockRequest, int | None]:
    """Return the request that the arguments make, and the node that has to lead."""
    given, name, command = _split(program, words)
    if given.get("try") and "timeout" in given:
        raise BadArguments("--try and --timeout exclude each other: --try does not wait")
    if given.get("lease") == 0:
        raise BadArguments("--lease: a lease of 0 seconds expires at once; give more")
    if program == "lock":
        try:
            lock_name(name)
        except ValueError as reason:
            raise BadArguments(str(reason)) from None
    files: dict[str, str | None] = {
        each.name: str(given[each.name]) for each in CREDENTIALS if given.get(each.name)
    }
    request = LockRequest(
        name,
        command,
        leads=program == "lead",
        timeout=0.0 if given.get("try") else _number(given, "timeout"),
        lease=_number(given, "lease"),
        cluster=None if "cluster" not in given else str(given["cluster"]),
        service=str(given.get("service", LOCKS)),
        credential_files=files,
    )
    return request, int(given["node"]) if "node" in given else None


def _number(given: Mapping[str, Value], name: str) -> float | None:
    return float(given[name]) if name in given else None


def _split(program: str, words: Sequence[str]) -> tuple[dict[str, Value], str, Sequence[str]]:
    """Return the options, the name of the lock, and the command."""
    options = {option.flag: option for option in OPTIONS[program]}
    given: dict[str, Value] = {}
    names: list[str] = []
    position, are_over = 0, False  # whether the options are over
    while position < len(words):
        word = words[position]
        if not are_over and word.startswith("-") and word != "-":
            position += 1
            are_over = word == "--"
            if not are_over:
                position = _take(options, given, words, position)
        elif not names:
            names.append(word)
            position += 1
        else:
            break
    command = words[position:]
    if not command:
        missing = "COMMAND..." if names else "NAME"
        raise BadArguments(f"Missing argument {missing!r}. {EXAMPLES[program]}")
    return given, names[0], command


def _take(
    options: Mapping[str, Option], given: dict[str, Value], words: Sequence[str], position: int
) -> int:
    """Take the option before this position; return the position after its value."""
    flag, equals, text = words[position - 1].partition("=")
    if flag in ("-h", "--help"):
        raise HelpRequested
    option = options.get(flag)
    if option is None:
        raise _unknown(flag, options)
    if option.value == FLAG:
        if equals:
            raise BadArguments(f"{flag} takes no value; write {flag} alone")
        given[option.name] = True
        return position
    if not equals:
        if position == len(words):
            raise BadArguments(f"{flag} needs a value: {flag} {option.value}")
        text, position = words[position], position + 1
    given[option.name] = option.read(text)
    return position


def _unknown(flag: str, options: Mapping[str, Option]) -> BadArguments:
    from difflib import get_close_matches  # needed only here

    near = get_close_matches(flag, options, n=1)
    hint = f"did you mean {near[0]}?" if near else f"options: {', '.join(options)}"
    return BadArguments(f"no such option {flag}; {hint}")


__all__ = ["CLUSTER", "CREDENTIALS", "OPTIONS", "SERVICE", "HelpRequested", "Option", "run"]

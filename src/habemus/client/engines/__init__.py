"""Engines that grant locks without a habemus cluster: the kernel of this machine, PostgreSQL,
Redis, etcd and ZooKeeper.

An engine is named by a URL.  Its module, and the library that it uses, are imported when a client
of it is made.
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from habemus.client.credentials import Credentials
    from habemus.client.engines.engine import Engine

LOCAL = "local"
ENGINES = {
    LOCAL: ("local", "LocalEngine"),
    "postgresql": ("postgresql", "PostgreSQLEngine"),
    "postgres": ("postgresql", "PostgreSQLEngine"),
    "redis": ("redis", "RedisEngine"),
    "rediss": ("redis", "RedisEngine"),
    "unix": ("redis", "RedisEngine"),
    "etcd": ("etcd", "EtcdEngine"),
    "zookeeper": ("zookeeper", "ZooKeeperEngine"),
}
"""Module and class of each scheme."""
HIDDEN = "***"
"""Replacement of a password in messages."""
OFFSET = "habemus_token_offset"
"""Option of a URL: a number that is added to all tokens."""


def is_engine(named: str | None) -> bool:
    """Return whether a name of a cluster is that of an engine; `ValueError` if the scheme is not
    known.
    """
    if named is None:
        return False
    scheme, separator, _ = named.partition("://")
    if named == LOCAL:
        return True
    if not separator or "/" in scheme:
        return False
    if scheme not in ENGINES:
        scheme = without_password(scheme)
        raise ValueError(
            f"no engine has the scheme {scheme!r}: use local, postgresql, redis, etcd or"
            " zookeeper, or the address of a cluster"
        )
    return True


def without_password(named: str) -> str:
    """Return the name of a cluster for messages: without credentials, and without options."""
    head, separator, rest = named.partition("://")
    if not separator:
        head, rest = "", named
    if rest.startswith(("/", ".")):
        return named  # a path
    hosts, mark, _ = rest.partition("?")
    _, at, hosts = hosts.rpartition("@")
    if at:
        hosts = f"{HIDDEN}@{hosts}"
    elif separator and not hosts.startswith("["):
        places, slash, database = hosts.partition("/")
        hosts = ",".join(map(_with_number, places.split(","))) + slash + database
    return head + separator + hosts + (f"?{HIDDEN}" if mark else "")


def _with_number(place: str) -> str:
    """Return host and port; without a number, what follows the host may be a password."""
    host, _, port = place.partition(":")
    return place if not port or port.isdecimal() else f"{host}:{HIDDEN}"


def engine_at(url: str, credentials: Credentials) -> Engine:
    """Return the engine at a URL.

    `ValueError`: the URL is not valid; `ModuleNotFoundError`: the library of the engine is not
    installed.
    """
    from importlib import import_module

    scheme = url.partition("://")[0]
    module, name = ENGINES[scheme]
    url = url.replace("#", "%23")  # no engine has fragments, and a password may have this character
    if scheme not in (LOCAL, "unix"):
        _check_hosts(url)
    try:
        kind = getattr(import_module(f"habemus.client.engines.{module}"), name)
    except ImportError as reason:
        if (reason.name or "").startswith("habemus"):
            raise
        raise ModuleNotFoundError(
            f"locks in {module} need {reason.name or reason}: run pip install '.[{module}]' in your"
            " clone"
        ) from None
    made: Engine = kind(url, credentials)
    return made


def _check_hosts(url: str) -> None:
    """Raise `ValueError`, without the password, if a URL does not name hosts and ports."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        _, at, hosts = parts.netloc.rpartition("@")
        for each in hosts.split(","):
            urlsplit(f"//{each}").port  # noqa: B018
        is_cut = not at and "@" in parts.path  # by a / in the password
    except ValueError:
        is_cut = True
    if is_cut:
        scheme = url.partition("://")[0]
        raise ValueError(
            f"{without_password(url)} is not valid: write {scheme}://user:password@host:port, with"
            " special characters of the password percent-encoded (@ is %40, / is %2F)"
        )


def split_offset(url: str) -> tuple[str, int]:
    """Return the URL without the option for the token offset, and the offset."""
    head, mark, query = url.partition("?")
    options = [each for each in query.split("&") if each]
    given = [each for each in options if each.startswith(f"{OFFSET}=")]
    if not given:
        return url, 0
    text = given[-1].partition("=")[2]
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"{OFFSET}={text}: give a whole number of at most 18 digits")
    rest = "&".join(each for each in options if each not in given)
    return head + (mark if rest else "") + rest, int(text)

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
        raise ValueError(
            f"no engine has the scheme {scheme!r}: use local, postgresql, redis, etcd or"
            " zookeeper, or the address of a cluster"
        )
    return True


def engine_at(url: str, credentials: Credentials) -> Engine:
    """Return the engine at a URL; `ValueError` if the URL is not valid or the library of the engine
    is not installed.
    """
    from importlib import import_module

    module, name = ENGINES[url.partition("://")[0]]
    try:
        kind = getattr(import_module(f"habemus.client.engines.{module}"), name)
    except ModuleNotFoundError as reason:
        if (reason.name or "").startswith("habemus"):
            raise
        raise ValueError(
            f"{reason.name} is not installed, which locks in {module} need: run"
            f" pip install '.[{module}]' in your clone"
        ) from None
    made: Engine = kind(url, credentials)
    return made


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

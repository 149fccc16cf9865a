"""Functions that are executed with a lock held."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from habemus.client.asynchronous import AsyncLock
    from habemus.client.blocking import Lock


def _check(function: Callable[..., Any]) -> None:
    """Refuse a function whose body is executed after it has returned."""
    if not callable(function):
        raise TypeError(f"{function!r} is not a function; a lock decorates functions")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__name__} is a generator: the lock would be released before its body is"
            " executed; take the lock inside, by `with`"
        )


def locked_function(lock: Lock, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that holds the lock while it is executed."""
    _check(function)

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with lock:
            return function(*arguments, **named)

    return call


def locked_coroutine(lock: Lock, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a coroutine function that holds the lock while it is executed, by a connection of its
    own; None if the given function is not a coroutine function.
    """
    if not inspect.iscoroutinefunction(function):
        return None
    if lock._reentrant or lock._request.keep:
        raise ValueError(
            f"reentrant and keep do not work for {function.__name__}, which is a coroutine: use the"
            " lock of an AsyncCluster, from `async with habemus.connect()`"
        )

    @wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        async with lock._cluster._asynchronous_copy() as cluster, lock._asynchronous(cluster):
            return await function(*arguments, **named)

    return call


def locked_in_loop(lock: AsyncLock, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function that holds the lock while it is executed."""
    _check(function)
    if not inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__name__} is not a coroutine function: use a lock of the blocking client,"
            " from `with habemus.connect()`"
        )

    @wraps(function)
    async def call(*arguments: Any, **named: Any) -> Any:
        async with lock:
            return await function(*arguments, **named)

    return call

"""FastAPI: one client for the application, and a request that is served one at a time.

uvicorn fastapi_lock:app --app-dir examples/recipes --workers 4
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import habemus
from fastapi import FastAPI, HTTPException


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with habemus.connect() as cluster:
        app.state.cluster = cluster
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/reports/{name}")
async def report(name: str) -> dict[str, int | None]:
    """Write a report, unless one of this name is being written."""
    cluster: habemus.AsyncCluster = app.state.cluster
    held = await cluster.try_lock(f"reports/{name}")
    if held is None:
        raise HTTPException(409, "this report is being written")
    async with held as lease:
        return {"token": lease.token}  # the writes carry it

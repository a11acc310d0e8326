"""The API inside a FastAPI application, next to an endpoint of its own.

uvicorn examples.web_app:application
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import antiphon


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with antiphon.open() as app.state.gateway:
        yield


application = FastAPI(lifespan=lifespan)


@application.get("/summary")
async def summary(text: str, model: str = "echo/echo") -> dict[str, str]:
    """Summarize a text in one sentence."""
    gateway: antiphon.Gateway = application.state.gateway
    response = await gateway.create(model=model, instructions="One sentence.", input=text)
    return {"summary": antiphon.output_text(response)}


application.mount("/llm", antiphon.asgi_app())

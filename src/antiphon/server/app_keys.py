"""What the middleware leaves on a request for the routes."""

from __future__ import annotations

from aiohttp import web

from antiphon.core.client_profile import Profile

REQUEST_ID = web.RequestKey("request_id", str)
CLIENT = web.RequestKey("client", str)
PROFILE = web.RequestKey("profile", Profile)

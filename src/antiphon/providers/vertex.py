"""Gemini on Vertex AI: the base URL contains a project and a location.

`https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/publishers/google`,
or `https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google`. The
key is an access token, as `gcloud auth print-access-token` prints it.
"""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.providers import gemini
from antiphon.providers.spec import Spec

SPEC = Spec(
    name="vertex",
    title="Google Gemini (Vertex AI)",
    as_of="2026-10",
    api_key_env=("CLOUDSDK_AUTH_ACCESS_TOKEN",),
    ambient_key=True,
    dialect="gemini",
    capabilities=gemini.PLAIN,
    models=tuple(  # only AI Studio supports search together with functions
        replace(model, capabilities=replace(model.capabilities, search_beside_tools=False))
        for model in gemini.MODELS
        if model.capabilities is not None
    ),
    quirks=replace(gemini.QUIRKS, counts_wrapped_request=False),
)

"""The provider Acme, as a package of its own: pip install ./examples/custom_provider.

Once it is installed, `acme/acme-large` is a model of the gateway and of the library as soon as
ACME_API_KEY is set. docs/add-a-provider.md explains every field.
"""

from __future__ import annotations

from antiphon.dialect import Capabilities, ChatQuirks, Model, Spec

SPEC = Spec(
    name="acme",
    title="Acme",
    as_of="2026-11",
    base_url="https://api.acme.example/v1",
    api_key_env=("ACME_API_KEY",),
    capabilities=Capabilities(
        parameters=frozenset({"temperature", "max_output_tokens"}),
        formats=frozenset({"text", "json_object"}),
        inputs=frozenset({"text"}),
        context_window=131_072,
    ),
    models=(Model(id="acme-large"),),
    quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
)

"""Differences between Gemini models, selected by a prefix of the model name."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class GeminiQuirks(Struct, frozen=True, kw_only=True):
    """How a request to a model is encoded. The defaults are what every current model accepts."""

    json_schema: bool = True
    """The model accepts JSON Schema as it is; False: only the subset that `gemini.schema` keeps."""
    json_beside_tools: bool = False
    """JSON output can be requested while functions are declared (Gemini 3); otherwise the
    instructions ask for it."""
    effort: Literal["level", "budget"] | None = None
    """How the plan's effort is sent: as a level, or as a number of tokens (`-1`: the model decides,
    `0`: no thinking). None: the model does not think, and refuses a `thinkingConfig`."""
    include_thoughts: bool = True
    """Request summaries of the reasoning from a model that thinks."""
    sentinel: bool = False
    """The model refuses calls without a signature (Gemini 3); a call that another model made gets
    a sentinel."""
    call_ids: bool = True
    """The model accepts ids of calls; False: calls and results are matched by name and order."""
    media_in_answers: bool = False
    """Results of tools may hold media (Gemini 3); otherwise media go into the user turn after
    them."""
    links: bool = True
    """The model fetches media from any URL; False: only from Google's own."""
    system_instruction: bool = True
    """False (Gemma before 4): system messages are the first parts of the first user turn."""
    stream_arguments: bool = False
    """Request the arguments of calls as they are generated (Vertex)."""
    counts_wrapped_request: bool = True
    """`countTokens` takes the request in `generateContentRequest` (AI Studio); False: as it is
    (Vertex). The same for every model."""
    models: tuple[tuple[str, GeminiQuirks], ...] = ()
    """Models that differ, by a prefix of their name; the longest matching prefix wins."""

    def of(self, model: str) -> GeminiQuirks:
        """Select the quirks of one model; a path before its name is ignored."""
        name = model.rpartition("/")[2].casefold()
        matches = [entry for entry in self.models if name.startswith(entry[0].casefold())]
        return max(matches, key=lambda entry: len(entry[0]))[1] if matches else self


PLAIN = GeminiQuirks()

"""What differs from one Gemini model to the next: data, chosen by the beginning of a name."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class GeminiQuirks(Struct, frozen=True, kw_only=True):
    """How requests to a model are written. The defaults are what every current model takes."""

    json_schema: bool = True
    """It takes JSON Schema as it is; False: only the subset that `gemini_schema` leaves."""
    json_beside_tools: bool = False
    """It can be asked for JSON while functions are declared (Gemini 3); else it is told to."""
    effort: Literal["level", "budget"] | None = None
    """What the plan's word for the effort is: a level, or a number of tokens (`-1` is its own
    choice, `0` is none). None: the model does not think, and refuses to be asked."""
    include_thoughts: bool = True
    """Ask a model that thinks for summaries of its thoughts."""
    sentinel: bool = False
    """It refuses calls without a signature (Gemini 3): those of other models get a sentinel."""
    call_ids: bool = True
    """It takes ids of calls; False: names and order are all that tells them apart."""
    media_in_answers: bool = False
    """Answers of tools may hold media (Gemini 3); else media come in the user's turn behind."""
    links: bool = True
    """It fetches media from any address; False: only from Google's own."""
    system_instruction: bool = True
    """False (Gemma before 4): what the system says is the user's first word."""
    stream_arguments: bool = False
    """Ask for the arguments of calls as they are written (Vertex)."""
    models: tuple[tuple[str, GeminiQuirks], ...] = ()
    """Models that differ, by the beginning of their names; the longest that fits counts."""

    def of(self, model: str) -> GeminiQuirks:
        """The quirks of one model; a path before its name does not matter."""
        name = model.rpartition("/")[2].casefold()
        kin = [known for known in self.models if name.startswith(known[0].casefold())]
        return max(kin, key=lambda known: len(known[0]))[1] if kin else self


PLAIN = GeminiQuirks()

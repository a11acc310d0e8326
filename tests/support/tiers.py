"""Two tiers of tests: `make test` runs the quick ones, `make check` runs every test.

`CHECK_ONLY` lists what `make test` leaves out, by the reason: files and directories below `tests`
that take long and seldom fail alone. Properties try fewer examples in `make test`. A file that is
named on the command line is always run: `make test ARGS=tests/simulation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST_QUICK_TESTS = 8000

CHECK_ONLY: Mapping[str, str] = {
    "start the command or other programs again and again": """
        test_examples.py test_guarantees.py test_library_docs.py test_tutorials.py
        unit/test_types.py e2e/test_cli.py e2e/test_workers.py e2e/test_shutdown.py
        e2e/test_postgres.py unit/cli/codex/test_command.py unit/cli/codex/test_setup.py
        unit/cli/claude/test_command.py unit/support/test_seeds.py
    """,
    "wait for real timeouts and signals": """
        e2e/test_keep_alive.py e2e/test_rounds_ending.py e2e/test_spans.py
        e2e/test_upstream_timers.py unit/server/workers/test_supervisor.py
        e2e/test_mcp_real_servers.py unit/mcp/test_public_servers.py unit/mcp/test_secrets.py
        unit/mcp/test_session.py unit/mcp/test_sessions.py e2e/test_mcp_outcomes.py
        e2e/test_mcp_run_end.py e2e/test_mcp_attacks.py e2e/test_mcp_hostile_text.py
    """,
    "put a load on the gateway or let everything fail once": """
        simulation e2e/test_disk_faults.py e2e/test_garbage.py e2e/test_many_streams.py
        e2e/test_reload.py e2e/test_request_bounds.py e2e/test_response_limits.py
        property/test_freeform.py property/test_http_fuzz.py property/test_usage.py
    """,
    "combine dialects with behaviours; unit and contract tests have each of them alone": """
        e2e/test_agents_sdk.py e2e/test_attempts.py e2e/test_attempts_changed.py
        e2e/test_attempts_degraded.py e2e/test_rounds.py e2e/test_upstream_failures.py
        e2e/test_canaries_round.py e2e/test_codex_dialects.py e2e/test_codex_requests.py
        e2e/test_compaction.py e2e/test_files.py e2e/test_openai_sdk_lifecycle.py
        e2e/test_references.py e2e/test_rounds_dialects.py e2e/test_rounds_mixed.py
        e2e/test_prompt_caches.py e2e/test_chained_gateways.py e2e/test_upstream_formats.py
        e2e/test_state_formats.py e2e/test_state_survives.py e2e/test_vision.py
        e2e/test_web_search_native.py
        e2e/test_attempts_commit.py e2e/test_attempts_keys.py e2e/test_canaries.py
        e2e/test_refusals.py e2e/test_reported_settings.py e2e/test_upstream_disconnects.py
        e2e/test_upstream_framing.py open_responses/test_websocket_and_compaction.py
        e2e/test_access.py e2e/test_cache_usage.py e2e/test_changing_formats.py
        e2e/test_chained_processes.py e2e/test_fault_reports.py e2e/test_formats_features.py
        e2e/test_kept_output.py e2e/test_lifecycle_validation.py e2e/test_mcp.py
        e2e/test_mcp_clients.py e2e/test_mcp_messages.py e2e/test_same_format.py
        e2e/test_mcp_servers.py e2e/test_openai_sdk.py e2e/test_profiles.py e2e/test_replay.py
        e2e/test_resume.py e2e/test_strict.py e2e/test_upstream_tables.py e2e/test_web_search.py
        contract/test_vocabulary.py open_responses/test_compliance.py
    """,
    "read every recording back through each client format; unit tests have each event": """
        contract/test_chat_clients.py contract/test_messages_clients.py
        contract/test_format_table.py
        property/test_messages_request.py
    """,
    "repeat defects that were fixed once": """
        e2e/test_known_defects_formats.py e2e/test_known_defects_plan.py
        e2e/test_known_defects_request.py
        e2e/test_known_defects_session.py e2e/test_known_defects_stream.py
        e2e/test_known_defects_tools.py
    """,
    "run only where another target has installed what they need": """
        clients cluster installed page prometheus
    """,
}
PATHS = frozenset(path for paths in CHECK_ONLY.values() for path in paths.split())


def is_for_check_only(path: Path) -> bool:
    """Whether `make test` leaves out this file or directory."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).as_posix() in PATHS


def too_many(count: int) -> str:
    return (
        f"make test has {count} tests; the limit is {MOST_QUICK_TESTS}: make each large table one "
        "test (tests/support/tables.py), or list more files in tests/support/tiers.py"
    )

"""Tables of usage in the PostgreSQL store; part of its first migration."""

from __future__ import annotations

from antiphon.store.usage.usage_table import COUNTS, UsageKey

USAGE_TABLES = f"""
CREATE TABLE usage (
    hour integer NOT NULL,                -- hours since the epoch
    client text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,      -- as its provider names it
    provider text COLLATE "C" NOT NULL,
    {", ".join(f"{name} bigint NOT NULL" for name in COUNTS)},
    PRIMARY KEY ({", ".join(UsageKey._fields)})
);

-- Additions that were committed: one that is repeated after a lost reply must not count twice.
CREATE TABLE usage_addition (
    id text COLLATE "C" PRIMARY KEY,
    added_at timestamptz NOT NULL DEFAULT now()
);
"""

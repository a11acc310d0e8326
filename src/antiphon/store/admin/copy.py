"""Selection of the administration of a store by URL, and copies from one store to another."""

from __future__ import annotations

from antiphon.errors import StoreError
from antiphon.store.admin.sqlite_admin import SQLiteAdmin
from antiphon.store.admin.tables import StoreAdmin
from antiphon.store.url import hide_password, is_shared, sqlite_path


def open_admin(url: str) -> StoreAdmin:
    """Return the administration of a store; raises `StoreError` for a store in memory."""
    if (path := sqlite_path(url)) is not None:
        return SQLiteAdmin(path)
    if is_shared(url):
        from antiphon.store.admin.postgres_admin import PostgresAdmin
        from antiphon.store.postgres.address import parse_address

        return PostgresAdmin(parse_address(url))
    raise StoreError(
        f"{hide_password(url)!r} is not a store that is kept: use `sqlite:///FILE` or"
        " `postgresql://USER:PASSWORD@HOST/DATABASE`."
    )


async def copy_store(source: StoreAdmin, target: StoreAdmin) -> int:
    """Copy everything into an empty store, all of it or nothing; return the number of rows."""
    found = await source.read_state()
    if found.version == 0:
        raise StoreError(f"{found.name}: there is no store. Check its address; nothing was copied.")
    state = await target.read_state()
    if not state.is_empty:
        raise StoreError(
            f"{state.name}: the store is not empty ({state.responses:,} responses,"
            f" {state.conversations:,} conversations, {state.usage_rows:,} rows of usage). Copy"
            " into a new one."
        )
    return await target.write_pages(source.read_pages())

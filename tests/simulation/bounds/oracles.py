"""Oracles of what one client may take."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.safety import Oracle
from tests.simulation.world import World


def histories_hold(world: World) -> Iterator[str]:
    """A request whose history is too large reaches no provider."""
    calls = world.history.calls_of()
    for thread in world.lifecycle.long_threads:
        if thread.exchange in calls:
            yield f"exchange {thread.exchange}: {thread.items} items were restored"


def queues_take_turns(world: World) -> Iterator[str]:
    """A response that waits behind the queue of another client gets one of the next places, while
    all processes and the disk work."""
    plan = world.plan
    if plan.operator != "none" or plan.stall_at_s is not None or plan.disk != "good":
        return
    calls = world.history.calls_of()
    for queue in world.lifecycle.queues:
        behind = world.history.exchanges[queue.behind]
        if queue.behind not in calls or behind.head_at is None:
            continue  # it was refused, or its process is gone
        began = calls[queue.behind][0].began
        starts = [calls[each][0].began for each in queue.exchanges if each in calls]
        before = sum(behind.head_at < each < began for each in starts)
        if before > 2 * queue.places:
            yield f"exchange {queue.behind}: waited for {before} responses of another client"


BOUNDS: tuple[Oracle, ...] = (histories_hold, queues_take_turns)

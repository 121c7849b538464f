"""Suite 1, second half: `kill -9` of the daemon at random moments, under load of clients over both
transports that do everything with sessions and remember every acknowledgement.

After each kill a copy of the folder is opened and checked deeply, and every lane compared: what was
acknowledged is there byte for byte, the call under way was done or not, nothing is half there. Then
the next daemon starts on the folder itself, as the dead one left it.
"""

import random
import shutil
import threading
from collections import Counter
from pathlib import Path

from filestore.sessions import Sessions
from tests.crash.suite import Plan, Row, scratch
from tests.support.child import SMALL, open_store, spin
from tests.support.child_model import assert_clean, assert_works
from tests.support.lanes import Agent, Lane, Session, observe
from tests.support.small_daemon import Hatched, Nest, nest

LANES = 8
KILLS_PER_FOLDER = 40
WORKS_EVERY = 10
KILLS_SHORT = 4


def resumed(lane: Lane, seed: object) -> Lane:
    """The same lane on its way again, after a kill."""
    found = Lane(lane.number, seed)
    found.agents = lane.agents
    return found


def storm(daemon: Hatched, lanes: list[Lane], rng: random.Random) -> None:
    """Load it, kill it somewhere."""
    clients = [
        daemon.client(is_unix=lane.number % 2 == 0, is_binary=lane.number % 3 == 0)
        for lane in lanes
    ]
    threads = [
        threading.Thread(target=lane.run, args=(client,), daemon=True)
        for lane, client in zip(lanes, clients, strict=True)
    ]
    for thread in threads:
        thread.start()
    wanted = rng.randrange(1, 25)
    while lanes[0].done < wanted and threads[0].is_alive():
        threads[0].join(0.001)
    spin(rng.randrange(30_000))
    daemon.kill()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


async def examine(data_dir: Path, copy: Path, lanes: list[Lane], *, works: bool) -> None:
    """Look at a copy: the recovery of the folder itself is left to the next daemon."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700)
    for path in data_dir.glob("zoned.db*"):
        shutil.copyfile(path, copy / path.name)
    store = await open_store(copy, SMALL)
    async with store, Sessions(store) as sessions:
        await assert_clean(store)
        for lane in lanes:
            lane.takes_over(await observe(store, sessions, lane.names), "after a kill")
        if works:
            await assert_works(store)


async def round_of_kills(
    place: Nest, folder: Path, row: Row, plan: Plan, heard: Counter[str]
) -> int:
    """Kills on one folder. Returns how many calls were acknowledged."""
    data_dir, rng = folder / "data", plan.rng("kills", row.count)
    lanes = [Lane(number, rng.random()) for number in range(LANES)]
    acknowledged = 0
    for number in range(KILLS_SHORT if plan.is_short else KILLS_PER_FOLDER):
        lanes = [resumed(lane, rng.random()) for lane in lanes]
        storm(place.hatch(data_dir), lanes, rng)
        row.count += 1
        try:
            for lane in lanes:
                if lane.trouble is not None:
                    raise AssertionError(f"lane {lane.number}: {lane.trouble!r}")
            await examine(data_dir, folder / "copy", lanes, works=number % WORKS_EVERY == 0)
        except Exception as error:
            row.found(f"kill {row.count}: {error!r}")
            break
        acknowledged += sum(lane.done for lane in lanes)
        for lane in lanes:
            heard.update(lane.heard)
        if row.is_due(plan) and not plan.is_short:
            break
    return acknowledged


async def control(folder: Path, row: Row, plan: Plan, place: Nest) -> str:
    """Lanes that were promised one call more than they were must be found short of it."""
    lanes = [Lane(number, plan.seed) for number in range(LANES)]
    storm(place.hatch(folder / "data"), lanes, plan.rng("control"))
    lane = next(lane for lane in lanes if lane.done)
    name = lane.names[0]
    lane.agents = {**lane.agents, name: Agent(Session("never written"))}
    lane.pending = None
    try:
        await examine(folder / "data", folder / "copy", lanes, works=False)
    except AssertionError:
        return "a false acknowledgement is noticed"
    row.found("the control did not fail: a call that was never made was found")
    return "did not fail"


async def run(plan: Plan) -> Row:
    """Folder after folder, until the time has gone."""
    row = Row("kill of the daemon", "random `kill -9` under load of 8 clients", plan.seed)
    heard: Counter[str] = Counter()
    acknowledged, rounds = 0, 0
    with scratch() as folder, nest(folder) as place:
        (folder / "control").mkdir()
        row.control = await control(folder / "control", row, plan, place)
        while not rounds or not (plan.is_short or row.is_due(plan)):
            work = folder / f"round-{rounds}"
            work.mkdir()
            acknowledged += await round_of_kills(place, work, row, plan, heard)
            rounds += 1
            shutil.rmtree(work)
    row.more.append(f"{acknowledged} acknowledged calls; answers: {dict(heard)}")
    return row.ended()

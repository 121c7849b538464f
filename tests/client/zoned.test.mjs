// The browser's module against the real daemon. Run by test_browser_module.py, which starts the
// daemon and sets URL, TOKEN and MODULE.

import assert from "node:assert/strict";
import { test } from "node:test";

const { connect, ZonedError } = await import(process.env.MODULE);
const url = process.env.URL;
const token = process.env.TOKEN;

/** Random numbers from a seed (mulberry32). */
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A WebSocket that is cut at random: before a request is out, after it, or before an answer is heard. */
function cutting(random, rate) {
  const counts = { cuts: 0 };
  class Cutting extends WebSocket {
    #isCut = false;
    #cut() {
      counts.cuts += 1;
      this.#isCut = true;
      this.close();
    }
    send(text) {
      if (this.#isCut) return;
      const drawn = random();
      if (drawn < rate) return this.#cut();
      super.send(text);
      if (drawn < 2 * rate) this.#cut();
    }
    set onmessage(handler) {
      super.onmessage = (event) => {
        if (this.#isCut) return;
        if (random() < rate) this.#cut();
        else handler(event);
      };
    }
  }
  return { Cutting, counts };
}

/** Resolves as soon as `isSo` holds for what `changed` was called with. */
function collector(isEnough) {
  const found = [];
  let resolve;
  const enough = new Promise((done) => (resolve = done));
  const take = (change) => {
    found.push(change);
    if (isEnough(found)) resolve(found);
  };
  return { take, enough, found };
}

async function using(options, body) {
  const zoned = connect({ url, token, ...options });
  try {
    await body(zoned);
  } finally {
    zoned.close();
  }
}

test("a session by all methods", () =>
  using({}, async (zoned) => {
    const written = await zoned.writeState("js-1", "héllo", { ifVersion: 0 });
    assert.equal(written.bytes_written, 6);
    const read = await zoned.readSession("js-1");
    assert.equal(read.content, "héllo");
    assert.equal(read.session_id, written.session_id);
    const bytes = Uint8Array.from([255, 254]);
    const appended = await zoned.appendOutput("js-1", ["one", bytes]);
    assert.equal(appended.lines, 2);
    await zoned.appendOutput("js-1", "three");
    assert.deepEqual((await zoned.readOutput("js-1")).lines, ["one", bytes, "three"]);
    assert.deepEqual((await zoned.readOutput("js-1", { tail: 1 })).lines, ["three"]);
    const archived = await zoned.archive("js-1");
    assert.equal((await zoned.archive("js-1")).archive_zoneid, "");
    const zone = archived.archive_zoneid;
    assert.equal((await zoned.listArchives("js-1", { limit: 5 }))[0].archive_zoneid, zone);
    assert.equal((await zoned.readArchive(zone)).content, "héllo");
    const { session_id: copied } = await zoned.fork(zone, "js-2");
    assert.equal((await zoned.readSession("js-2")).session_id, copied);
    assert.equal((await zoned.restore(zone)).session_id, written.session_id);
    const again = await zoned.archive("js-1", { sessionId: written.session_id });
    assert.equal((await zoned.deleteArchive(again.archive_zoneid)).deleted, true);
    const agents = await zoned.listAgents();
    assert.ok(agents.some((agent) => agent.definition_id === "js-2"));
    assert.equal((await zoned.info()).protocol, 1);
    assert.deepEqual(await zoned.health(), { ok: true });
  }));

test("an error has its kind, its message and its data", () =>
  using({}, async (zoned) => {
    const { version } = await zoned.writeState("js-error", "one");
    await assert.rejects(zoned.writeState("js-error", "two", { ifVersion: version + 1 }), (error) => {
      assert.ok(error instanceof ZonedError);
      assert.equal(error.kind, "VERSION_CONFLICT");
      assert.equal(error.data.current_version, version);
      assert.ok(error.hint);
      assert.ok(!error.message.includes("VERSION_CONFLICT"));
      return true;
    });
    await assert.rejects(zoned.readSession("no such:id"), { kind: "INVALID_DEFINITION_ID" });
    await assert.rejects(zoned.readSession("\ud800"), { name: "ZonedError" });
  }));

test("more calls than the daemon takes at once are all answered, each with its own", () =>
  using({}, async (zoned) => {
    const numbers = Array.from({ length: 600 }, (_, number) => number);
    await Promise.all(numbers.map((number) => zoned.writeState(`js-many-${number}`, `${number}`)));
    const read = await Promise.all(numbers.map((number) => zoned.readSession(`js-many-${number}`)));
    assert.deepEqual(read.map((state) => state.content), numbers.map(String));
  }));

test("writes of one agent are done in the order of their calls", () =>
  using({}, async (zoned) => {
    const numbers = Array.from({ length: 100 }, (_, number) => `${number}`);
    await Promise.all(numbers.map((number) => zoned.appendOutput("js-order", number)));
    assert.deepEqual((await zoned.readOutput("js-order")).lines, numbers);
  }));

test("a wrong token never gets in, and the call ends at its deadline", () =>
  using({ token: "x".repeat(43), timeoutMs: 600 }, async (zoned) => {
    await assert.rejects(zoned.health(), { kind: "UNAVAILABLE" });
  }));

test("a subscription tells what happens, and ends when it is closed", () =>
  using({}, async (zoned) => {
    const { take, enough, found } = collector((changes) => changes.length === 2);
    const following = zoned.subscribe("js-follow", take);
    await following.ready;
    await zoned.writeState("js-follow", "one");
    await zoned.appendOutput("js-follow", "line");
    const [state, output] = await enough;
    assert.equal(state.kind, "state");
    assert.equal(output.data, "line\n");
    assert.equal(following.position, output.seq);
    following.close();
    await zoned.appendOutput("js-follow", "unheard");
    await zoned.health();
    assert.equal(found.length, 2);
    const since = collector((changes) => changes.length === 2);
    zoned.subscribe("js-follow", since.take, { since: state.seq });
    assert.deepEqual((await since.enough).map((change) => change.data), ["line\n", "unheard\n"]);
  }));

test("a subscription that is refused says so", () =>
  using({}, async (zoned) => {
    await assert.rejects(zoned.subscribe("no such:id", () => {}).ready, {
      kind: "INVALID_DEFINITION_ID",
    });
  }));

test("a callback that fails does not end its subscription", () =>
  using({}, async (zoned) => {
    const { take, enough } = collector((changes) => changes.length === 2);
    const reported = [];
    const before = console.error;
    console.error = (error) => reported.push(error.message);
    try {
      const following = zoned.subscribe("js-fail", (change) => {
        take(change);
        throw new Error("mine");
      });
      await following.ready;
      await zoned.appendOutput("js-fail", "one");
      await zoned.appendOutput("js-fail", "two");
      await enough;
      assert.deepEqual(reported, ["mine", "mine"]);
    } finally {
      console.error = before;
    }
  }));

for (const seed of [1, 2, 3]) {
  test(`guarded writes through cuts are done once, seed ${seed}`, async () => {
    const random = seeded(seed);
    const { Cutting, counts } = cutting(random, 0.05);
    const agent = `js-cut-${seed}`;
    await using({ WebSocket: Cutting, random }, async (zoned) => {
      const { session_id: sessionId } = await zoned.writeState(agent, "start");
      const lines = Array.from({ length: 60 }, (_, number) => `${number}`);
      for (const [atLine, line] of lines.entries()) {
        await zoned.appendOutput(agent, line, { atLine, sessionId });
      }
      await Promise.all(lines.map((line) => zoned.writeState(agent, `state ${line}`)));
      const { archive_zoneid: zone } = await zoned.archive(agent);
      const { session_id: copied } = await zoned.fork(zone, `${agent}-copy`);
      await using({}, async (direct) => {
        assert.deepEqual((await direct.readOutput(zone)).lines, lines);
        assert.equal((await direct.readArchive(zone)).content, "state 59");
        assert.equal((await direct.readSession(`${agent}-copy`)).session_id, copied);
        assert.equal((await direct.listArchives(agent)).length, 1);
      });
    });
    assert.ok(counts.cuts > 0);
  });

  test(`a subscription through cuts tells everything once, seed ${seed}`, async () => {
    const random = seeded(seed);
    const { Cutting, counts } = cutting(random, 0.05);
    const agent = `js-hear-${seed}`;
    await using({ WebSocket: Cutting, random }, async (zoned) => {
      const last = "99\n";
      const { take, enough } = collector((changes) => changes.at(-1).data === last);
      await zoned.subscribe(agent, take).ready;
      await using({}, async (direct) => {
        for (let number = 0; number < 100; number += 1) {
          await direct.appendOutput(agent, `${number}`);
        }
      });
      const heard = (await enough).map((change) => change.data);
      assert.deepEqual(heard, Array.from({ length: 100 }, (_, number) => `${number}\n`));
    });
    assert.ok(counts.cuts > 0);
  });
}

test("an append without guards is not repeated when its answer is lost", async () => {
  class Deaf extends WebSocket {
    send(text) {
      super.send(text);
      if (text.includes("append_output")) this.close();
    }
  }
  await using({ WebSocket: Deaf }, async (zoned) => {
    await assert.rejects(zoned.appendOutput("js-deaf", "one"), { kind: "COMMIT_UNKNOWN" });
    assert.ok((await zoned.readSession("js-deaf")).output_lines <= 1);
  });
});

test("a status is told, and a closed client rejects", async () => {
  const told = [];
  const zoned = connect({ url, token, onStatus: (status) => told.push(status) });
  await zoned.health();
  zoned.close();
  assert.deepEqual(told, ["connected", "lost"]);
  await assert.rejects(zoned.health(), { kind: "UNAVAILABLE" });
});

test("without a page there must be a url", () => {
  assert.throws(() => connect({ token }), { kind: "INVALID_PARAMS" });
});

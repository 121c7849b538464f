// The daemon's client for browsers: one module, no dependencies. docs/specs/0003-rpc.md.
//
//     import { connect } from "/zoned.js";
//     const zoned = connect();                       // this page's own daemon, by its cookie
//     await zoned.writeState("my-agent", "…", { ifVersion: 3 });
//     const following = zoned.subscribe("my-agent", (change) => …);
//
// Methods are named after those of the protocol and answer with its results as they are. Every one
// returns a promise and rejects with a ZonedError. The connection is made when it is needed and
// made again when it is lost. Reads are repeated until their deadline; writes when it is certain
// that they were not done, and otherwise only with a guard that makes a repeat harmless; the client
// adds guards where it can. Writes to one agent are done in the order of their calls.
//
// Content and lines are strings, or Uint8Array where they are not valid UTF-8.

const TIMEOUT_MS = 30_000;
const CONNECT_MS_MAX = 10_000;
const BACKOFF_FIRST_MS = 50;
const BACKOFF_MOST_MS = 5_000;
const WINDOW = 128; // requests in flight; the daemon's own default limit is twice that
const SUBPROTOCOL = "zoned";
const TOKEN_SUBPROTOCOL = "zoned.token.";

// What was certainly not done may be repeated by anyone, the others only if the call allows it.
const NOTHING_DONE = new Set(["BUSY"]);
const MAYBE_DONE = new Set(["UNAVAILABLE", "COMMIT_UNKNOWN"]);

/** What went wrong: `kind` as in the specification, `data` with all that the daemon said of it. */
export class ZonedError extends Error {
  constructor(kind, message, data = {}) {
    super(message);
    this.name = "ZonedError";
    this.kind = kind;
    this.data = { kind, ...data };
  }

  /** What to do about it; may be empty. */
  get hint() {
    return this.data.hint ?? "";
  }
}

/**
 * A client. `url`: the daemon, by default the one that served this page. `token`: needed where there
 * is no cookie. `timeoutMs`: the deadline of a call with all its tries. `onStatus` is told
 * "connected" and "lost". `WebSocket` and `random` are for tests and other runtimes.
 */
export function connect({
  url = globalThis.location?.origin,
  token = "",
  timeoutMs = TIMEOUT_MS,
  onStatus = () => {},
  WebSocket = globalThis.WebSocket,
  random = Math.random,
} = {}) {
  if (!url) throw new ZonedError("INVALID_PARAMS", "url is missing: there is no page to take it from");
  if (!WebSocket) throw new ZonedError("UNAVAILABLE", "there is no WebSocket here");
  const address = new URL("/rpc", url);
  address.protocol = address.protocol.replace("http", "ws");
  const protocols = token ? [SUBPROTOCOL, TOKEN_SUBPROTOCOL + token] : [SUBPROTOCOL];
  const open = () => new WebSocket(address.href, protocols);
  return new Client(new Line(open, new Backoff(random), onStatus), timeoutMs, random);
}

/** Waits that grow up to a bound, each drawn at random from its upper half. */
class Backoff {
  #nextMs = BACKOFF_FIRST_MS;
  #random;

  constructor(random) {
    this.#random = random;
  }

  nextMs(data = {}) {
    const waitMs = this.#nextMs * (0.5 + this.#random() / 2);
    this.#nextMs = Math.min(this.#nextMs * 2, BACKOFF_MOST_MS);
    return Math.max(waitMs, Math.min(data.retry_after_ms ?? 0, BACKOFF_MOST_MS));
  }

  reset() {
    this.#nextMs = BACKOFF_FIRST_MS;
  }
}

/** The connection is not there, or ended before the answer. `isSent`: the request was out. */
class LostError extends Error {
  constructor(isSent) {
    super("the connection to the daemon was lost");
    this.isSent = isSent;
  }
}

/** One connection after the other: requests out, answers matched by id. */
class Line {
  #open;
  #backoff;
  #onStatus;
  #socket = null;
  #opening = null;
  #notBefore = 0;
  #numbers = 0;
  #asked = new Map();
  #waiting = [];
  #isClosed = false;
  /** Who is told of notifications, by number of the subscription, on this connection. */
  subscribers = new Map();
  /** Called whenever a connection has ended. */
  onLost = () => {};

  constructor(open, backoff, onStatus) {
    this.#open = open;
    this.#backoff = backoff;
    this.#onStatus = onStatus;
  }

  get isClosed() {
    return this.#isClosed;
  }

  /** Wait for a connection, through as many tries as it takes; whoever waits has a deadline. */
  ready() {
    if (this.#socket) return Promise.resolve();
    this.#opening ??= this.#connect().finally(() => (this.#opening = null));
    return this.#opening;
  }

  /**
   * Call a method on the connection there is. `onResult` is called before anything that came after
   * the answer, also if nobody waits for it any more. Rejects with ZonedError or LostError.
   */
  async call(method, params, onResult) {
    while (this.#socket && this.#asked.size >= WINDOW) {
      await new Promise((resolve) => this.#waiting.push(resolve));
    }
    if (!this.#socket) throw new LostError(false);
    const id = ++this.#numbers;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject, onResult });
      this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }, asBase64));
    });
  }

  /** Tell the daemon something without waiting for an answer. */
  tell(method, params) {
    this.#socket?.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** A connection has proved its worth: the next one need not wait. */
  wentWell() {
    this.#backoff.reset();
    this.#notBefore = 0;
  }

  close() {
    this.#isClosed = true;
    this.#lose(this.#socket);
  }

  async #connect() {
    while (!this.#isClosed) {
      await sleep(this.#notBefore - Date.now());
      if (this.#isClosed) break;
      this.#notBefore = Date.now() + this.#backoff.nextMs();
      const socket = await this.#tryOnce();
      if (socket && this.#isClosed) socket.close();
      if (socket && !this.#isClosed) {
        this.#socket = socket;
        this.#onStatus("connected");
        return;
      }
    }
    throw closedError();
  }

  /** One try. A browser does not say why it failed, so neither does this: null. */
  #tryOnce() {
    return new Promise((resolve) => {
      const socket = this.#open();
      const timer = setTimeout(() => socket.close(), CONNECT_MS_MAX);
      const settle = (result) => {
        clearTimeout(timer);
        resolve(result);
      };
      socket.onopen = () => settle(socket);
      socket.onerror = () => {}; // a close follows
      socket.onclose = () => {
        settle(null);
        this.#lose(socket);
      };
      socket.onmessage = (event) => this.#take(event.data);
    });
  }

  #take(text) {
    const message = JSON.parse(text, asBytes);
    if (!("id" in message)) {
      this.subscribers.get(message.params?.subscription)?.(message.params);
      return;
    }
    // Without an id it is about a request that could not be read: the only one there is, perhaps.
    const isOnly = message.id === null && this.#asked.size === 1;
    const id = isOnly ? this.#asked.keys().next().value : message.id;
    const asked = this.#asked.get(id);
    if (!asked) return;
    this.#asked.delete(id);
    if (message.error) {
      asked.reject(errorOf(message.error));
    } else {
      asked.onResult?.(message.result);
      asked.resolve(message.result);
    }
    this.#waiting.shift()?.();
  }

  #lose(socket) {
    if (!socket || socket !== this.#socket) return;
    this.#socket = null;
    socket.close();
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    this.subscribers.clear();
    for (const each of asked) each.reject(new LostError(true));
    for (const resolve of this.#waiting.splice(0)) resolve();
    this.#onStatus("lost");
    this.onLost();
  }
}

class Client {
  #line;
  #timeoutMs;
  #random;
  #turns = new Map();
  #following = new Set();

  constructor(line, timeoutMs, random) {
    this.#line = line;
    this.#timeoutMs = timeoutMs;
    this.#random = random;
    line.onLost = () => {
      for (const each of this.#following) each.resume();
    };
  }

  // -- the current session

  readSession(definitionId) {
    return this.#read("agent:session:read", { definition_id: definitionId });
  }

  /**
   * Save the snapshot. With `ifVersion` a repeat is exact; without, where others write too, it may
   * replace what another saved in between.
   */
  writeState(definitionId, content, { ifVersion, sessionId } = {}) {
    return this.#write([definitionId], "agent:session:write_state", "guarded", {
      definition_id: definitionId,
      content,
      if_version: ifVersion,
      session_id: sessionId,
    });
  }

  /** Append one line, or an array of lines. Repeated only with both guards; else COMMIT_UNKNOWN. */
  appendOutput(definitionId, lines, { atLine, sessionId } = {}) {
    const repeat = atLine !== undefined && sessionId ? "guarded" : "never";
    return this.#write([definitionId], "agent:session:append_output", repeat, {
      definition_id: definitionId,
      lines: Array.isArray(lines) ? lines : [lines],
      at_line: atLine,
      session_id: sessionId,
    });
  }

  /** Finish the current session, or the one given; asked for first, so that a repeat is harmless. */
  async archive(definitionId, { sessionId } = {}) {
    const current = sessionId ?? (await this.readSession(definitionId)).session_id;
    if (!current) return { archive_zoneid: "", archived_at_ms: 0 };
    return this.#write([definitionId], "agent:session:archive", "guarded", {
      definition_id: definitionId,
      session_id: current,
    });
  }

  // -- finished sessions

  listArchives(definitionId, { limit, before } = {}) {
    const params = { definition_id: definitionId, limit, before };
    return this.#read("agent:session:list_archives", params);
  }

  readArchive(zone) {
    return this.#read("agent:session:read_archive", { archive_zoneid: zone });
  }

  restore(zone) {
    const params = { archive_zoneid: zone };
    return this.#write([zone], "agent:session:restore", "guarded", params);
  }

  /** Copy a session, an archive's by its zone or an agent's current one. */
  fork(place, toDefinitionId, { archiveFirst, newSessionId = newId() } = {}) {
    return this.#write([place, toDefinitionId], "agent:session:fork", "guarded", {
      ...placeOf(place),
      to_definition_id: toDefinitionId,
      archive_first: archiveFirst,
      new_session_id: newSessionId,
    });
  }

  /** `deleted` is false if there was none; so also in a repeat whose first answer was lost. */
  deleteArchive(zone) {
    const params = { archive_zoneid: zone };
    return this.#write([zone], "agent:session:delete_archive", "guarded", params);
  }

  // -- looking

  readOutput(place, { fromLine, tail, limit } = {}) {
    const params = { ...placeOf(place), from_line: fromLine, tail, limit };
    return this.#read("agent:session:read_output", params);
  }

  listAgents({ limit, after } = {}) {
    return this.#read("agent:list", { limit, after });
  }

  info() {
    return this.#read("srv:info", {});
  }

  health() {
    return this.#read("srv:health", {});
  }

  /**
   * Call `callback` with each change of an agent's sessions after position `since`, or from now on:
   * once, in order, through lost connections; a change of kind "gap" says: read again. Returns
   * `{ ready, position, close() }`; `ready` resolves when it is settled from where on.
   */
  subscribe(definitionId, callback, { since } = {}) {
    const following = new Following(this.#line, definitionId, callback, since, this.#random);
    following.onClose = () => this.#following.delete(following);
    this.#following.add(following);
    following.resume();
    return following;
  }

  /** Hang up. What is under way is rejected. */
  close() {
    for (const each of [...this.#following]) each.close();
    this.#line.close();
  }

  // -- calls

  #read(method, params) {
    return this.#call(method, params, "read");
  }

  /** Those of one agent one after the other: a repeated one must not come behind a later one. */
  #write(places, method, repeat, params) {
    const agents = [...new Set(places.map(agentOf))];
    const before = Promise.allSettled(agents.map((agent) => this.#turns.get(agent)));
    const done = this.#call(method, params, repeat, before);
    // One that gives up at its deadline must not let the next one overtake those before it.
    const turn = Promise.allSettled([before, done]);
    for (const agent of agents) this.#turns.set(agent, turn);
    turn.then(() => {
      for (const agent of agents) if (this.#turns.get(agent) === turn) this.#turns.delete(agent);
    });
    return done;
  }

  /** Call until it is answered for good, or its deadline is over. */
  #call(method, params, repeat, before = undefined) {
    const tries = { isOver: false, mayBeDone: false, isOut: false };
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        tries.isOver = true;
        const isUnknown = repeat !== "read" && (tries.mayBeDone || tries.isOut);
        const message = `${method}: no answer within ${this.#timeoutMs} ms`;
        reject(isUnknown ? unknownError(message) : new ZonedError("UNAVAILABLE", message));
      }, this.#timeoutMs);
      Promise.resolve(before)
        .then(() => this.#repeat(method, params, repeat, tries))
        .then(resolve, reject)
        .finally(() => clearTimeout(timer));
    });
  }

  async #repeat(method, params, repeat, tries) {
    const backoff = new Backoff(this.#random);
    while (!tries.isOver) {
      await this.#line.ready();
      if (tries.isOver) break;
      try {
        const answer = this.#line.call(method, params);
        tries.isOut = true;
        const result = await answer;
        this.#line.wentWell();
        return result;
      } catch (error) {
        tries.isOut = false;
        if (error instanceof LostError) {
          tries.mayBeDone ||= error.isSent;
          if (error.isSent && repeat === "never") throw unknownError(`${method}: ${error.message}`);
        } else {
          const isUnsure = MAYBE_DONE.has(error.kind) && repeat !== "never";
          if (!NOTHING_DONE.has(error.kind) && !isUnsure) throw error;
          tries.mayBeDone ||= isUnsure;
          this.#line.wentWell();
          await sleep(backoff.nextMs(error.data));
        }
      }
    }
    return undefined; // its deadline is over, and has been told
  }
}

/** One subscription, on whichever connection there is. */
class Following {
  #line;
  #definitionId;
  #callback;
  #backoff;
  #number = null;
  #isResuming = false;
  #isClosed = false;
  #settle;
  onClose = () => {};
  /** The last position heard of. */
  position;
  /** Resolves when it is settled from where on changes are told; rejects if that is refused. */
  ready;

  constructor(line, definitionId, callback, since, random) {
    this.#line = line;
    this.#definitionId = definitionId;
    this.#callback = callback;
    this.#backoff = new Backoff(random);
    this.position = since;
    this.ready = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.ready.catch(() => {}); // who does not wait for it is not told twice
  }

  /** Subscribe on the connection that comes next, behind what was heard of. */
  async resume() {
    this.#number = null;
    if (this.#isResuming) return;
    this.#isResuming = true;
    try {
      while (!this.#isClosed && this.#number === null) await this.#tryOnce();
    } catch (error) {
      this.#settle.reject(error);
      this.close();
    } finally {
      this.#isResuming = false;
    }
    if (!this.#isClosed && this.#number === null) this.resume(); // lost again just now
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#number !== null) this.#drop(this.#number);
    this.#settle.reject(closedError());
    this.onClose();
  }

  async #tryOnce() {
    await this.#line.ready();
    if (this.#isClosed) return;
    const params = { definition_id: this.#definitionId, since: this.position };
    try {
      // Changes may come in the same breath as the answer.
      await this.#line.call("agent:session:subscribe", params, (result) => this.#begin(result));
      this.#line.wentWell();
      this.#backoff.reset();
      this.#settle.resolve();
    } catch (error) {
      if (error instanceof LostError) return;
      if (!NOTHING_DONE.has(error.kind) && !MAYBE_DONE.has(error.kind)) throw error;
      await sleep(this.#backoff.nextMs(error.data));
    }
  }

  #begin({ subscription, seq }) {
    if (this.#isClosed) {
      this.#drop(subscription);
      return;
    }
    this.#number = subscription;
    this.position ??= seq;
    this.#line.subscribers.set(subscription, (change) => this.#take(change));
  }

  #drop(number) {
    this.#line.subscribers.delete(number);
    this.#line.tell("agent:session:unsubscribe", { subscription: number });
  }

  #take(change) {
    if (change.seq <= this.position && change.kind !== "gap") return;
    this.position = change.seq;
    try {
      this.#callback(change);
    } catch (error) {
      // The page's own fault: it is reported, and the next change is told all the same.
      (globalThis.reportError ?? console.error)(error);
    }
  }
}

// -- parts

function sleep(ms) {
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}

function placeOf(place) {
  return place.includes(":") ? { archive_zoneid: place } : { definition_id: place };
}

/** The agent of a place: an archive's zone is agent:<id>:archive:<ms>. */
function agentOf(place) {
  return place.includes(":") ? place.split(":")[1] : place;
}

function newId() {
  // Only pages in a secure context have randomUUID; loopback is one, other names may not be.
  if (globalThis.crypto.randomUUID) return globalThis.crypto.randomUUID();
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function closedError() {
  return new ZonedError("UNAVAILABLE", "this client is closed");
}

function unknownError(message) {
  const hint = "repeat it with the same guard, or read what is there";
  return new ZonedError("COMMIT_UNKNOWN", `${message}: it is not known whether it was done`, { hint });
}

function errorOf({ message = "the daemon gave no reason", data = {} }) {
  const kind = data.kind ?? "INTERNAL";
  // On the wire the message begins with the method and the kind, for those who only print it.
  const at = message.indexOf(`${kind}: `);
  return new ZonedError(kind, at < 0 ? message : message.slice(at + kind.length + 2), data);
}

function asBase64(_, value) {
  if (!(value instanceof Uint8Array)) return value;
  let text = "";
  for (const byte of value) text += String.fromCharCode(byte);
  return { base64: btoa(text) };
}

function asBytes(_, value) {
  const isBytes = typeof value?.base64 === "string" && Object.keys(value).length === 1;
  return isBytes ? Uint8Array.from(atob(value.base64), (char) => char.charCodeAt(0)) : value;
}

// @ts-check
// A branch as pictures need it: steps, flights of messages, periods, folding, positions.
// Nothing here decides what processes do; it only arranges recorded events.

import { moment } from "./texts.js";

/** @typedef {{t: number, p: number, e: string, peer?: number, id?: number, name?: string, v?: Record<string, any>, part?: string, w?: string}} Line */
/** @typedef {{from: number, to: number, sent: number, ended: number, lost: boolean, swallowed: boolean, copy: boolean}} Flight */
/** @typedef {{p: number, kind: string, first: number, last: number, text: string}} Period */
/** @typedef {{kind: string, first: number, last: number, links: number[][]}} Change */

const OPENING = new Set(["start", "recover", "request", "receive", "timer", "crash", "pause", "resume"]);
const EFFECTS = new Set(["send", "indicate", "choose", "lost", "duplicate"]);
const NEWS = new Set(["crash", "recover", "pause", "resume", "cut", "heal", "slow", "indicate", "request"]);
const NO_COUNTERS = new Set(["process", "leader", "term", "epoch", "round", "phase"]);

export class Branch {
  /** @type {Flight[]} */
  flights = [];
  /** Of each event the flight that it begins or ends, or -1. */
  flightOf = new Int32Array();
  /** @type {Period[]} */
  periods = [];
  /** @type {Change[]} */
  changes = [];
  hidden = new Uint8Array();
  /** First event of a folded unit -> how many it stands for. @type {Map<number, number>} */
  repeats = new Map();
  folded = 0;
  /** First event of each step. @type {number[]} */
  starts = [];
  step = new Int32Array();
  slots = 0;
  atSlot = new Float64Array();
  reach = new Float64Array();

  /** @param {Record<string, any>} opened */
  constructor(opened) {
    this.id = opened.branch;
    this.opened = opened;
    this.header = opened.header || {};
    /** @type {{id: number, label: string}[]} */
    this.processes = opened.processes || [];
    /** @type {Map<number, number>} */
    this.lane = new Map(this.processes.map((each, index) => [each.id, index]));
    this.parent = opened.parent ?? null;
    this.at = opened.at ?? 0;
    this.interventions = opened.interventions || [];
    this.command = opened.command || "";
    this.playable = opened.playable !== false;
    /** @type {string[]} names of the kinds of events */
    this.kinds = opened.kinds || [];
    this.ended = false;
    this.digest = "";
    /** @type {any[]} */
    this.lamps = [];
    /** @type {any[]} */
    this.costs = [];
    /** @type {Line[]} */
    this.lines = [];
    /** @type {number[]} */
    this.deliveries = [];
    /** @type {Record<string, {event: number, process: number, variable: string, text: string}[]>} */
    this.along = {};
    this.fold = true;
    this.scale = "even";
    /** @type {(line: Line) => boolean} */
    this.shows = () => true;
    this.filtered = false;
    /** @type {{count: number, names: Map<string, string>, parts: string[]} | null} */
    this.words = null;
    this.arrange();
  }

  /** A time of this branch in words. @param {number} time */
  moment(time) {
    return moment(time, this.header.run?.check !== undefined);
  }

  get length() {
    return this.lines.length;
  }

  /** @param {number} process */
  label(process) {
    const lane = this.lane.get(process);
    return lane === undefined ? String(process) : this.processes[lane].label;
  }

  /** Replace what follows an index by other events, which come column by column. @param {Record<string, any>} reply */
  put({ from, columns, deliveries }) {
    const { lines, kinds } = this;
    const { t, p, e, peer, id, what, whats } = columns;
    if (from < lines.length) {
      lines.length = from;
      this.deliveries.length = from;
    }
    for (let index = 0; index < t.length; index++) {
      const [name, w, v, part] = whats[what[index]];
      lines.push({ t: t[index], p: p[index], e: kinds[e[index]], peer: peer[index] ?? undefined, id: id[index] ?? undefined, name, v: v ?? undefined, part, w });
      this.deliveries.push(deliveries[index]);
    }
  }

  /** The names of messages and timers, and the components. */
  vocabulary() {
    if (this.words?.count !== this.lines.length) {
      /** @type {Map<string, string>} */
      const names = new Map();
      /** @type {Set<string>} */
      const parts = new Set([""]);
      for (const line of this.lines) {
        if (line.name && (line.e === "send" || line.e === "timer")) names.set(line.name, line.e);
        if (line.part) parts.add(line.part);
      }
      this.words = { count: this.lines.length, names, parts: [...parts].sort() };
    }
    return this.words;
  }

  /** Work everything out again; linear in the number of events. */
  arrange() {
    this.#fly();
    this.#periods();
    this.#changes();
    this.#hide();
    this.#place();
  }

  #fly() {
    /** @type {Flight[]} */
    const flights = [];
    const of = new Int32Array(this.lines.length).fill(-1);
    /** @type {Map<number, number[]>} */
    const open = new Map();
    this.lines.forEach((line, index) => {
      const { e, p, id } = line;
      const peer = line.peer ?? p;
      if (e === "send" || e === "duplicate") {
        const waiting = id === undefined ? [] : open.get(id) || [];
        const copy = e === "duplicate";
        const sent = copy && waiting.length ? flights[waiting[0]].sent : index;
        waiting.push(flights.length);
        if (id !== undefined) open.set(id, waiting);
        of[index] = flights.length;
        flights.push({ from: p, to: peer, sent, ended: -1, lost: false, swallowed: false, copy });
      } else if (e === "receive" || e === "lost") {
        const waiting = id === undefined ? undefined : open.get(id);
        if (waiting && waiting.length) {
          const position = /** @type {number} */ (waiting.shift());
          const flight = flights[position];
          flight.ended = index;
          flight.lost = e === "lost";
          flight.swallowed = flight.lost && p === flight.from && p !== flight.to;
          of[index] = position;
        } else {
          of[index] = flights.length;
          flights.push({ from: peer, to: p, sent: -1, ended: index, lost: e === "lost", swallowed: false, copy: false });
        }
      }
    });
    this.flights = flights;
    this.flightOf = of;
  }

  #periods() {
    /** @type {Period[]} */
    const found = [];
    /** @type {Map<string, Period>} */
    const open = new Map();
    let entries = 0;
    /** @param {number} p @param {string} kind @param {number} index */
    const end = (p, kind, index) => {
      const period = open.get(`${kind} ${p}`);
      if (period) period.last = index;
      open.delete(`${kind} ${p}`);
    };
    /** @param {number} p @param {string} kind @param {number} index @param {string} [text] */
    const begin = (p, kind, index, text = "") => {
      if (open.has(`${kind} ${p}`)) return;
      const period = { p, kind, first: index, last: -1, text };
      open.set(`${kind} ${p}`, period);
      found.push(period);
    };
    this.lines.forEach((line, index) => {
      const { p, e, name } = line;
      const top = !line.part;
      if (e === "request" && name === "acquire" && top) begin(p, "waiting", index);
      else if (e === "indicate" && name === "Granted" && top) {
        end(p, "waiting", index);
        begin(p, "inside", index, String(++entries));
      } else if (top && ((e === "request" && name === "release") || (e === "indicate" && name === "LockLost"))) {
        end(p, "inside", index);
        end(p, "waiting", index);
      } else if (e === "crash") {
        for (const kind of ["waiting", "inside", "paused", "leader"]) end(p, kind, index);
        for (const other of this.processes) end(p, `suspects ${other.id}`, index);
        begin(p, "down", index);
      } else if (e === "recover") end(p, "down", index);
      else if (e === "pause") begin(p, "paused", index);
      else if (e === "resume") end(p, "paused", index);
      else if (e === "indicate" && name === "Leader") {
        const who = line.v?.process ?? line.v?.leader;
        const term = line.v?.term;
        end(p, "leader", index);
        if (who === p) begin(p, "leader", index, term ? String(term) : "");
      } else if (e === "indicate" && name === "Suspected") begin(p, `suspects ${line.v?.process}`, index, this.label(line.v?.process));
      else if (e === "indicate" && name === "Restored") end(p, `suspects ${line.v?.process}`, index);
    });
    this.periods = found;
  }

  #changes() {
    /** @type {Change[]} */
    const found = [];
    this.lines.forEach((line, index) => {
      if (!["cut", "heal", "slow"].includes(line.e) || line.peer === undefined) return;
      const last = found[found.length - 1];
      const link = [line.p, line.peer];
      if (last && last.last === index - 1 && last.kind === line.e && this.lines[last.last].t === line.t) {
        last.last = index;
        last.links.push(link);
      } else found.push({ kind: line.e, first: index, last: index, links: [link] });
    });
    this.changes = found;
  }

  /** The links that are cut after an event. @param {number} index @returns {Set<string>} */
  cutAt(index) {
    const cut = new Set();
    for (const change of this.changes) {
      if (change.first > index) break;
      for (const [a, b] of change.links) {
        if (change.kind === "cut") cut.add(`${a}>${b}`);
        else if (change.kind === "heal") cut.delete(`${a}>${b}`);
      }
    }
    return cut;
  }

  /** Name the links of a change: "1-2", "1>2", "1 2 | 3". @param {Change} change */
  linksOf(change) {
    const has = new Set(change.links.map(([a, b]) => `${a}>${b}`));
    /** @type {number[][]} */
    const groups = [];
    for (const { id } of this.processes) {
      const group = groups.find(([first]) => !has.has(`${id}>${first}`));
      if (group) group.push(id);
      else groups.push([id]);
    }
    let between = 0;
    for (const one of groups) for (const other of groups) if (one !== other) between += one.length * other.length;
    if (groups.length > 1 && between === has.size && has.size > 2)
      return groups.map((group) => group.map((id) => this.label(id)).join(" ")).join(" | ");
    const pairs = change.links.filter(([a, b]) => !has.has(`${b}>${a}`) || a < b);
    if (pairs.length > 4) return `${has.size}`;
    return pairs.map(([a, b]) => `${this.label(a)}${has.has(`${b}>${a}`) ? "-" : ">"}${this.label(b)}`).join(", ");
  }

  /** Hide what filters leave out and what folds. */
  #hide() {
    const count = this.lines.length;
    const hidden = new Uint8Array(count);
    this.filtered = false;
    for (let index = 0; index < count; index++) {
      if (!this.shows(this.lines[index])) {
        hidden[index] = 1;
        this.filtered = true;
      }
    }
    this.repeats = new Map();
    this.folded = 0;
    if (this.fold) this.#fold(hidden);
    this.hidden = hidden;
  }

  /** @param {Uint8Array} hidden */
  #fold(hidden) {
    const { lines, flights, flightOf } = this;
    const byItself = new Uint8Array(lines.length);
    const opening = new Int32Array(lines.length).fill(-1);
    /** @type {Map<number, number>} */
    const current = new Map();
    /** @type {Map<number, string[]>} */
    const effects = new Map();
    lines.forEach((line, index) => {
      const began = current.get(line.p);
      if (["start", "recover", "request", "receive", "timer"].includes(line.e)) {
        current.set(line.p, index);
        const sent = line.e === "receive" ? flights[flightOf[index]].sent : -1;
        byItself[index] = line.e !== "request" && (sent < 0 || byItself[sent]) ? 1 : 0;
        opening[index] = index;
      } else if (EFFECTS.has(line.e) && began !== undefined) {
        byItself[index] = byItself[began];
        opening[index] = began;
        if (line.e !== "lost" && line.e !== "duplicate") {
          const list = effects.get(began) || [];
          list.push(`${line.e} ${line.name} ${line.part || ""}`);
          effects.set(began, list);
        }
      } else byItself[index] = 1;
    });
    /** @param {number} index */
    const effectsOf = (index) => (index < 0 ? "" : [...new Set(effects.get(index) || [])].sort().join(";"));
    /** @type {Map<string, number[]>} */
    const groups = new Map();
    const members = new Map();
    const counters = this.#counters();
    let epoch = 0;
    lines.forEach((line, index) => {
      if (NEWS.has(line.e)) epoch++;
      if (hidden[index]) return;
      const isTimer = line.e === "timer";
      const flight = line.e === "send" ? flights[flightOf[index]] : null;
      if (!(isTimer || (flight && !flight.copy)) || !byItself[index]) return;
      const after = effectsOf(isTimer ? index : flight && flight.ended >= 0 && !flight.lost ? flight.ended : -1);
      if (after.includes("indicate ")) return;
      const fields = this.#fieldsBut(line, counters);
      const fate = flight ? `${flight.to} ${flight.lost} ${flight.swallowed} ${flight.ended < 0}` : "";
      const key = [epoch, line.e, line.p, line.name, line.part || "", fate, after, fields].join("\u0001");
      const unit = flight && flight.ended >= 0 ? [index, flight.ended] : [index];
      const first = groups.get(key);
      if (!first) {
        groups.set(key, [index]);
        members.set(index, []);
      } else members.get(first[0]).push(unit);
    });
    for (const [first, others] of members) {
      if (others.length < 2) continue;
      this.repeats.set(first, others.length + 1);
      for (const unit of others) for (const index of unit) if (!hidden[index]) { hidden[index] = 1; this.folded++; }
    }
  }

  /** Fields that grow nearly every time. */
  #counters() {
    /** @type {Map<string, any>} */
    const last = new Map();
    /** @type {Map<string, {pairs: number, grew: Record<string, number>}>} */
    const seen = new Map();
    for (const line of this.lines) {
      if ((line.e !== "send" && line.e !== "timer") || !line.v) continue;
      const sort = `${line.name} ${line.part || ""}`;
      const between = `${sort} ${line.e} ${line.p} ${line.peer}`;
      const before = last.get(between);
      let entry = seen.get(sort);
      if (!entry) seen.set(sort, (entry = { pairs: 0, grew: {} }));
      if (before) {
        entry.pairs++;
        for (const name of Object.keys(line.v)) {
          if (NO_COUNTERS.has(name)) continue;
          const [a, b] = [before[name], line.v[name]];
          const counts = Number.isInteger(a) && Number.isInteger(b) ? b > a : JSON.stringify(a) !== JSON.stringify(b);
          if (counts) entry.grew[name] = (entry.grew[name] || 0) + 1;
        }
      }
      last.set(between, line.v);
    }
    /** @type {Map<string, Set<string>>} */
    const found = new Map();
    for (const [sort, { pairs, grew }] of seen)
      found.set(sort, new Set(Object.keys(grew).filter((name) => 2 * grew[name] > pairs)));
    return found;
  }

  /** @param {Line} line @param {Map<string, Set<string>>} counters */
  #fieldsBut(line, counters) {
    if (!line.v) return "";
    const dropped = counters.get(`${line.name} ${line.part || ""}`);
    return Object.entries(line.v)
      .filter(([name]) => !dropped || !dropped.has(name))
      .map(([name, value]) => `${name}=${JSON.stringify(value)}`)
      .join(",");
  }

  /** Give every event a position along the axis, in slots. */
  #place() {
    const count = this.lines.length;
    const at = new Float64Array(count);
    const step = new Int32Array(count);
    /** @type {number[]} first event of each step */
    const starts = [];
    let slots = -1;
    let last = -1;
    let gap = 0;
    for (let index = 0; index < count; index++) {
      const line = this.lines[index];
      const before = last >= 0 ? this.lines[last] : null;
      const joins = before !== null && before.t === line.t && !this.hidden[last] &&
        ((EFFECTS.has(line.e) && before.p === line.p) || (line.e === before.e && ["cut", "heal", "slow"].includes(line.e)));
      const isNew = !joins && !(EFFECTS.has(line.e) && before !== null && before.p === line.p && before.t === line.t);
      if (isNew) starts.push(index);
      step[index] = starts.length - 1;
      if (!this.hidden[index]) {
        if (slots < 0) slots = 0;
        else if (isNew || gap) {
          const wait = line.t - this.lines[last].t;
          const startTogether = line.e === "start" && before?.e === "start";
          slots += startTogether ? 0 : 1 + Math.min(1, wait / 20_000);
        }
        last = index;
        gap = 0;
      } else if (isNew) gap = 1;
      at[index] = Math.max(slots, 0);
    }
    this.starts = starts;
    this.step = step;
    this.slots = Math.max(slots, 0);
    if (this.scale === "time" && count) {
      const [begin, end] = [this.lines[0].t, this.lines[count - 1].t];
      const unit = Math.max((end - begin) / Math.max(this.slots, 1), 1e-9);
      for (let index = 0; index < count; index++) at[index] = (this.lines[index].t - begin) / unit;
    }
    this.atSlot = at;
    const reach = new Float64Array(this.flights.length);
    let far = 0;
    this.flights.forEach((flight, index) => {
      far = Math.max(far, flight.ended >= 0 ? at[flight.ended] : Infinity);
      reach[index] = far;
    });
    this.reach = reach; // prefix maximum of ends, to find the first flight of a window
  }

  /** The last event of the step of an event. @param {number} index */
  endOfStep(index) {
    const next = this.starts[this.step[index] + 1];
    return next === undefined ? this.length - 1 : next - 1;
  }

  /** The event at which a step forward ends. @param {number} cursor */
  stepAfter(cursor) {
    for (let step = cursor < 0 ? 0 : this.step[cursor] + 1; step < this.starts.length; step++) {
      const end = step + 1 < this.starts.length ? this.starts[step + 1] - 1 : this.length - 1;
      for (let index = this.starts[step]; index <= end; index++) if (!this.hidden[index]) return end;
    }
    return -1;
  }

  /** @param {number} cursor */
  stepBefore(cursor) {
    for (let step = (cursor < 0 ? 0 : this.step[cursor]) - 1; step >= 0; step--) {
      const end = this.starts[step + 1] - 1;
      for (let index = this.starts[step]; index <= end; index++) if (!this.hidden[index]) return end;
    }
    return -1;
  }

  /** Whether an event opens a step of a process. @param {number} index */
  opens(index) {
    return OPENING.has(this.lines[index].e);
  }

  /** First event at or after a position. @param {number} slot */
  eventAt(slot) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.atSlot[middle] < slot) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** First flight that can reach a position. @param {number} slot */
  flightAt(slot) {
    let [low, high] = [0, this.flights.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.reach[middle] < slot) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Periods that are under way after an event, by process. @param {number} cursor */
  standing(cursor) {
    /** @type {Map<number, Set<string>>} */
    const found = new Map(this.processes.map(({ id }) => [id, new Set()]));
    for (const each of this.periods) {
      if (each.first > cursor) break;
      if (each.last < 0 || each.last > cursor) found.get(each.p)?.add(each.kind);
    }
    return found;
  }

  /** Messages that are under way after an event. @param {number} cursor */
  underWay(cursor) {
    return this.flights.filter((each) => each.sent >= 0 && each.sent <= cursor && (each.ended < 0 || each.ended > cursor));
  }
}

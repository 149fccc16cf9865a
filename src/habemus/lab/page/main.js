// @ts-check
// The page: what is open, where the cursor is, and what the user does.

import { Connection, LabError } from "./connection.js";
import { Diagram } from "./diagram.js";
import { byId, el, fill, icon } from "./dom.js";
import { menuOfExports } from "./exporting.js";
import { deliveryOf, faultItems, flightItems } from "./faults.js";
import { drawFilters } from "./filters.js";
import { drawGraph } from "./graph.js";
import { bindKeys, showKeys } from "./keys.js";
import { Branch } from "./model.js";
import { bindDrop, openDialog, trustDialog } from "./opening.js";
import { closeAll, dialog, menu } from "./overlay.js";
import { Overview } from "./overview.js";
import { drawEvent, drawLamps, drawPending, drawTree, section } from "./panels.js";
import { bindPointer } from "./pointer.js";
import { translated } from "./reasons.js";
import { EventTable } from "./table.js";
import { currentLanguage, setLanguage, t } from "./texts.js";
import { forgetColours, readTheme } from "./theme.js";

const SPEEDS = [1, 2, 4, 10, 40];
const TABS = ["event", "pending", "graph", "tree"];

export class Lab {
  constructor() {
    /** @type {any} */
    this.branch = null;
    /** @type {Map<number, Branch>} */
    this.branches = new Map();
    /** @type {any[]} */
    this.tree = [];
    this.cursor = -1;
    this.selected = -1;
    this.process = -1;
    /** @type {{past: Set<number>, future: Set<number>} | null} */
    this.cone = null;
    /** @type {any} */
    this.details = null;
    /** @type {any[] | null} */
    this.pending = null;
    this.tab = "event";
    this.playing = 0;
    this.speed = 4;
    /** @type {any} */
    this.catalog = { algorithms: [], scenarios: [] };
    /** @type {any} the last request that opened something */
    this.lastOpen = null;
    /** @type {string[]} */
    this.variables = [];
    this.hiddenProcesses = new Set();
    this.hiddenNames = new Set();
    this.hiddenParts = new Set();
    this.fold = true;
    this.scale = "even";
    this.busy = 0;
    this.version = 0;
    /** Moments that a benchmark reads. @type {Record<string, number>} */
    this.marks = {};
    this.diagram = new Diagram(byId("canvas"));
    this.overview = new Overview(byId("overview"));
    this.table = new EventTable(byId("table"), (event) => this.select(event, true));
    /** @type {any} */
    this.connection = null;
    this.frame = 0;
    this.stale = new Set();
    this.pressed = false;
    this.wanted = 0;
  }

  /** The event that the panel shows. */
  get focus() {
    return this.selected >= 0 ? this.selected : this.cursor;
  }

  connect() {
    const given = new URLSearchParams(location.hash.slice(1));
    const token = given.get("token") || localStorage.getItem("token") || "";
    given.delete("token");
    const link = given.has("events") ? given.toString().replaceAll("+", "%20") : "";
    if (location.hash) {
      localStorage.setItem("token", token);
      history.replaceState(null, "", location.pathname); // out of sight, and out of the history
    }
    this.connection = new Connection(token, (welcome) => {
      this.catalog = welcome;
      if (link) this.open({ link });
      else if (welcome.opens) this.open(welcome.opens);
      else openDialog(this);
    }, (reason) => this.notice(t(reason === "token" ? "token" : "closed") + (["token", "closed", ""].includes(reason) ? "" : ` (${reason})`), "error"));
  }

  /**
   * Ask the session; its errors become a line on the page.
   * @param {string} what @param {Record<string, any>} fields @param {(reply: any) => void} [each]
   * @returns {Promise<any[] | null>}
   */
  async ask(what, fields, each) {
    this.busy++;
    this.draw("status");
    try {
      return await this.connection.ask(what, fields, each);
    } catch (error) {
      if (!(error instanceof LabError)) throw error;
      if (error.ended) this.#reopen(error.message, what, fields);
      else if (!this.#untrusted(error.message, what, fields)) this.notice(error.message, "error");
      return null;
    } finally {
      this.busy--;
      this.draw("status");
    }
  }

  /** @param {string} message @param {string} what @param {Record<string, any>} fields */
  #untrusted(message, what, fields) {
    const found = /^(?:the|this) .*?runs the code in (.*?);/.exec(message);
    if (what !== "open" || !found) return false;
    trustDialog(found[1], () => this.open({ ...fields, trusted: true }));
    return true;
  }

  /** The process of the session is gone: open the last run again. @param {string} message @param {string} what @param {Record<string, any>} fields */
  #reopen(message, what, fields) {
    this.branches.clear();
    this.tree = [];
    const command = this.branch?.command || "";
    const again = command.startsWith("habemus run ") ? { run: command } : this.lastOpen;
    const at = this.cursor;
    this.notice(message, "error");
    if (!again || (what === "open" && JSON.stringify(again) === JSON.stringify(fields))) return;
    this.open(again, { keepNotice: true }).then(() => {
      if (this.branch) this.go(Math.min(at, this.branch.length - 1));
    });
  }

  /** @param {Record<string, any>} what @param {{keepNotice?: boolean}} [how] */
  async open(what, how = {}) {
    this.pause();
    closeAll();
    if (!how.keepNotice) this.notice("");
    this.marks.open = performance.now();
    const { name, ...fields } = what;
    /** @type {Branch | null} */
    let opened = null;
    const done = await this.ask("open", fields, (reply) => {
      if (reply.is === "opened") {
        forgetColours();
        opened = this.#begin(reply);
      } else if (reply.is === "events") this.#received(reply, true);
    });
    if (!done || !opened) return;
    this.marks.arrived = performance.now();
    this.lastOpen = fields;
    const { mismatch } = /** @type {Branch} */ (opened).opened;
    if (mismatch) this.notice(mismatch.message, "error");
    this.#finish(/** @type {Branch} */ (opened));
    this.#firstView();
    if (mismatch) this.go(mismatch.event);
    this.marks.opened = performance.now();
    requestAnimationFrame(() => { this.marks.painted = performance.now(); });
    await this.#readTree();
  }

  /** @param {any} reply */
  #begin(reply) {
    const branch = new Branch(reply);
    branch.fold = this.fold;
    branch.scale = this.scale;
    this.branches.set(branch.id, branch);
    return branch;
  }

  /** @param {any} reply @param {boolean} [wait] arrange when all have come */
  #received(reply, wait = false) {
    const branch = this.branches.get(reply.branch);
    if (!branch) return;
    branch.put(reply);
    branch.ended = Boolean(reply.ended);
    if (reply.lamps) branch.lamps = reply.lamps;
    if (reply.costs) branch.costs = reply.costs;
    if (reply.digest) branch.digest = reply.digest;
    if (!wait) this.#finish(branch);
  }

  /** @param {Branch} branch */
  #finish(branch) {
    branch.shows = (line) => this.#shows(line);
    branch.arrange();
    branch.along = {};
    this.version++;
    if (branch === this.branch) this.show(branch);
  }

  /**
   * A fresh run: filters off, everything in sight, the cursor at its first violation, or at its
   * first event.  A violation that is no event is seen at the end.
   */
  #firstView() {
    const branch = /** @type {Branch} */ ([...this.branches.values()].pop());
    this.hiddenProcesses.clear();
    this.hiddenNames.clear();
    this.hiddenParts.clear();
    this.cone = null;
    this.selected = -1;
    this.process = -1;
    this.variables = [];
    this.show(branch);
    this.diagram.start();
    const violation = this.firstViolation();
    if (violation) this.go(branch.endOfStep(violation.event));
    else if (branch.lamps.some((/** @type {any} */ lamp) => lamp.run === "violated")) this.go(branch.length - 1);
    else this.go(branch.endOfStep(0));
    if (this.diagram.zoom * (branch.slots + 1.6) <= this.diagram.extent + 4) this.diagram.left = -0.8;
  }

  /** @param {Branch} branch */
  show(branch) {
    this.branch = branch;
    this.diagram.show(branch);
    this.diagram.cone = this.cone;
    this.table.show(branch);
    byId("title").textContent = branch.header.title || branch.opened.card?.name || "habemus lab";
    byId("subtitle").textContent = branch.opened.card?.title || "";
    document.title = `${branch.header.title || "habemus"} · lab`;
    this.draw("all");
  }

  firstViolation() {
    const found = (this.branch?.lamps || []).filter((/** @type {any} */ lamp) => lamp.run === "violated" && lamp.event !== null);
    return found.sort((/** @type {any} */ a, /** @type {any} */ b) => a.event - b.event)[0] || null;
  }

  /** The lamp's state at the cursor. @param {any} lamp */
  lampState(lamp) {
    return lamp.run === "violated" && lamp.event !== null && lamp.event > this.cursor ? "holds" : lamp.run;
  }

  // The cursor.

  /** @param {number} event */
  go(event) {
    if (!this.branch) return;
    this.cursor = Math.max(-1, Math.min(event, this.branch.length - 1));
    this.selected = -1;
    this.#clearCone();
    this.diagram.reveal(this.cursor);
    this.table.reveal(this.cursor);
    this.#details();
    this.draw("cursor");
  }

  async step() {
    if (!this.branch) return;
    const next = this.branch.stepAfter(this.cursor);
    if (next >= 0) return this.go(next);
    if (this.branch.ended || !this.branch.playable) return this.notice(t("no next"), "info");
    const had = this.branch.length;
    await this.ask("advance", { branch: this.branch.id, by: 1 }, (reply) => this.#received(reply));
    if (this.branch.length > had) this.go(Math.max(this.branch.stepAfter(this.cursor), this.branch.length - 1));
  }

  /** Let a pending event happen: a step if it comes next anyway, else a branch. @param {any} pending */
  choose(pending) {
    if (!pending?.choice) return undefined;
    return pending.next ? this.stepHere() : this.intervene(pending.choice);
  }

  /** Go to the end of the very next step, whether filters show it or not. */
  async stepHere() {
    const { branch } = this;
    this.pause();
    const first = this.cursor < 0 ? 0 : branch.endOfStep(this.cursor) + 1;
    if (first >= branch.length && !branch.ended)
      await this.ask("advance", { branch: branch.id, by: 1 }, (reply) => this.#received(reply));
    if (first < branch.length) this.go(branch.endOfStep(first));
  }

  back() {
    this.pause();
    if (this.branch) this.go(this.branch.stepBefore(this.cursor));
  }

  /** @param {number} by */
  event(by) {
    this.pause();
    if (!this.branch) return;
    let to = this.focus + by;
    while (to > 0 && to < this.branch.length - 1 && this.branch.hidden[to]) to += by;
    if (to >= 0 && to < this.branch.length) this.go(to);
    else if (by > 0) this.step();
  }

  first() {
    this.pause();
    this.go(this.branch?.starts.length ? this.branch.starts[0] - 1 : -1);
    if (this.branch) this.diagram.left = -0.8;
  }

  async last() {
    this.pause();
    if (!this.branch) return;
    if (!this.branch.ended && this.branch.playable)
      await this.ask("advance", { branch: this.branch.id, until: "end" }, (reply) => this.#received(reply, true)).then(() => this.#finish(this.branch));
    this.go(this.branch.length - 1);
  }

  toViolation() {
    this.pause();
    const events = (this.branch?.lamps || []).filter((/** @type {any} */ each) => each.run === "violated" && each.event !== null).map((/** @type {any} */ each) => each.event).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
    const next = events.find((/** @type {number} */ each) => this.branch.endOfStep(each) > this.cursor) ?? events[0];
    if (next !== undefined) this.go(this.branch.endOfStep(next));
  }

  play() {
    if (this.playing) return this.pause();
    if (!this.branch) return;
    if (this.branch.ended && this.branch.stepAfter(this.cursor) < 0) this.first();
    const tick = async () => {
      const before = this.cursor;
      await this.step();
      const crossed = (this.branch?.lamps || []).filter((/** @type {any} */ lamp) => lamp.run === "violated" && lamp.event !== null && lamp.event > before && lamp.event <= this.cursor);
      if (crossed.length) {
        this.pause();
        this.notice(`${t("halted", { property: crossed[0].property, why: translated(crossed[0].why) })}. ${t("play on")}`, "violation");
      } else if (this.cursor === before || !this.playing) this.pause();
      else this.playing = window.setTimeout(tick, 1000 / this.speed);
    };
    this.notice("");
    this.playing = window.setTimeout(tick, 50);
    this.draw("transport");
  }

  pause() {
    if (!this.playing) return;
    clearTimeout(this.playing);
    this.playing = 0;
    this.#details();
    this.draw("transport");
  }

  /** @param {number} event @param {boolean} [reveal] */
  select(event, reveal = false) {
    this.pause();
    this.selected = event;
    this.process = this.branch.lines[event].p;
    if (event > this.cursor) this.cursor = this.branch.endOfStep(event);
    this.#clearCone();
    if (reveal) this.diagram.reveal(event);
    this.table.reveal(event);
    this.showTab("event");
    this.#details();
    this.draw("cursor");
  }

  deselect() {
    this.selected = -1;
    this.process = -1;
    this.#clearCone();
    this.#details();
    this.draw("cursor");
  }

  /** @param {number} process */
  chooseProcess(process) {
    this.process = process;
    this.draw("cursor");
  }

  /** @param {number} by */
  nextProcess(by) {
    if (!this.branch) return;
    const all = this.branch.processes;
    const now = this.branch.lane.get(this.process);
    const to = now === undefined ? (by > 0 ? 0 : all.length - 1) : (now + by + all.length) % all.length;
    this.chooseProcess(all[to].id);
    this.status(t("process {label}", { label: all[to].label }));
  }

  #clearCone() {
    this.cone = null;
    this.diagram.cone = null;
  }

  async toggleCone() {
    if (!this.branch || this.focus < 0) return;
    if (this.cone) {
      this.#clearCone();
      return this.draw("cursor");
    }
    const event = this.focus;
    const replies = await this.ask("cone", { branch: this.branch.id, event });
    if (!replies) return;
    this.selected = event;
    this.cone = { past: new Set(replies[0].past), future: new Set(replies[0].future) };
    this.diagram.cone = this.cone;
    this.draw("cursor");
  }

  /** Ask for what the panels show, once the cursor rests. */
  #details() {
    const wanted = ++this.wanted;
    this.details = null;
    this.pending = null;
    setTimeout(() => wanted === this.wanted && this.#ask(wanted), 60);
  }

  /** @param {number} wanted */
  async #ask(wanted) {
    const { branch, focus, cursor } = this;
    if (!branch || this.playing) return;
    if (this.tab === "event" && focus >= 0) {
      const fields = { branch: branch.id, event: focus };
      try {
        const [state, lines] = await Promise.all([this.connection.ask("state", fields), this.connection.ask("lines", fields)]);
        if (wanted === this.wanted) this.details = { event: focus, state: state[0], lines: lines[0] };
      } catch (error) {
        if (/** @type {LabError} */ (error).ended) return this.#reopen(String(/** @type {Error} */ (error).message), "state", fields);
        if (wanted === this.wanted) this.details = { event: focus, problem: String(/** @type {Error} */ (error).message) };
      }
    } else if (this.tab === "pending" && branch.playable) {
      const replies = await this.ask("pending", { branch: branch.id, at: Math.max(cursor, 0) });
      if (wanted === this.wanted) this.pending = replies ? replies[0].pending : [];
    } else return undefined;
    if (wanted === this.wanted) this.draw("panels");
    return undefined;
  }

  // Branches.

  /** @param {string} what @param {number} [at] */
  async intervene(what, at = this.cursor) {
    const parent = this.branch;
    if (!parent) return;
    if (!parent.playable) return this.notice(t("not playable"), "info");
    this.pause();
    this.marks.fork = performance.now();
    /** @type {Branch | null} */
    let made = null;
    const done = await this.ask("intervene", { branch: parent.id, at, what }, (reply) => {
      if (reply.is === "branched") {
        made = this.#begin({ ...parent.opened, ...reply });
        made.lines = parent.lines.slice(0, reply.shared);
        made.deliveries = parent.deliveries.slice(0, reply.shared);
      } else if (reply.is === "events") this.#received(reply, true);
    });
    if (!done || !made) return;
    const branch = /** @type {Branch} */ (made);
    this.#finish(branch);
    this.show(branch);
    this.go(branch.length > branch.opened.shared ? branch.endOfStep(branch.opened.shared) : branch.length - 1);
    this.marks.forked = performance.now();
    this.notice(t("forked", { what }), "info");
    this.#readTree();
  }

  async #readTree() {
    const replies = await this.ask("tree", {});
    if (replies) this.tree = replies[0].branches;
    this.draw("panels");
  }

  /** @param {number} id */
  switchTo(id) {
    const branch = this.branches.get(id);
    if (!branch) return;
    const cursor = this.cursor;
    this.show(branch);
    this.#finish(branch);
    this.go(Math.min(cursor, branch.length - 1));
    this.#variables();
  }

  /** The lowest free number for another future. */
  luck() {
    const used = this.tree.flatMap((each) => each.interventions || []).map((/** @type {string} */ each) => Number(/luck (\d+)$/.exec(each)?.[1] || 0));
    this.intervene(`luck ${Math.max(0, ...used) + 1}`);
  }

  // Menus.

  /** @param {number} process @param {number} x @param {number} y */
  menuOfProcess(process, x, y) {
    this.chooseProcess(process);
    menu(x, y, faultItems(this, process), t("process {label}", { label: this.branch.label(process) }));
  }

  /** @param {number} index @param {number} [x] @param {number} [y] */
  menuOfEvent(index, x, y) {
    const line = this.branch.lines[index];
    const [px, py] = this.diagram.point(this.branch.atSlot[index], line.p);
    const box = this.diagram.canvas.getBoundingClientRect();
    if (index > this.cursor || this.cursor > this.branch.endOfStep(index)) this.go(this.branch.endOfStep(index));
    this.chooseProcess(line.p);
    menu(x ?? box.left + px, y ?? box.top + py + 10, faultItems(this, line.p), `${t("fork")}: #${index + 1}`);
  }

  /** @param {number} index @param {number} x @param {number} y */
  menuOfFlight(index, x, y) {
    menu(x, y, flightItems(this, index), t("kind message"));
  }

  /** The message under way that a pending event delivers. @param {any} pending */
  flightOf(pending) {
    const { branch } = this;
    const words = `${pending.process} receives`;
    const found = branch.underWay(this.cursor).filter((/** @type {any} */ each) => each.from === pending.from && each.to === pending.process && deliveryOf(this, each, this.cursor) === pending.choice);
    return found.length && pending.choice?.startsWith(words) ? branch.flights.indexOf(found[0]) : -1;
  }

  menuOfSelection() {
    if (!this.branch) return;
    if (this.process >= 0 && this.selected < 0) {
      const [x, y] = this.diagram.point(this.branch.atSlot[Math.max(this.cursor, 0)] || 0, this.process);
      const box = this.diagram.canvas.getBoundingClientRect();
      this.menuOfProcess(this.process, box.left + x, box.top + y + 12);
    } else if (this.focus >= 0) this.menuOfEvent(this.focus);
  }

  export() {
    const box = byId("export").getBoundingClientRect();
    menuOfExports(this, box.right - 220, box.bottom + 4);
  }

  /** @param {any} lamp @param {HTMLElement} _from */
  showLamp(lamp, _from) {
    const state = this.lampState(lamp);
    const cells = (this.branch.opened.card?.cells || []).filter((/** @type {any} */ each) => each.property === lamp.property);
    const close = dialog(lamp.property, [
      el("p", { class: "verdict" }, el("span", { class: `dot ${state}` }), el("b", {}, t(state)), ` · ${t(lamp.claimed ? "claimed" : "not claimed")}`),
      section(t("lamp run"), el("p", {}, translated(lamp.why || "")),
        lamp.run === "violated" && lamp.event !== null ? el("button", { onclick: () => { close(); this.go(this.branch.endOfStep(lamp.event)); } }, t("go to violation"), ` #${lamp.event + 1}`) : null),
      section(t("lamp card"), lamp.card ? el("p", {}, lamp.card) : cells.length ? null : el("p", { class: "hint" }, t("lamp none")),
        cells.length ? el("table", { class: "cells" }, el("tbody", {}, ...cells.map((/** @type {any} */ cell) => el("tr", {},
          el("th", { scope: "row" }, [cell.faults, cell.timing].filter(Boolean).join(", ")), el("td", { class: cell.verdict }, cell.verdict), el("td", {}, cell.bound || "")))) ) : null),
    ]);
  }

  // Filters.

  /** @param {import("./model.js").Line} line */
  #shows(line) {
    if (this.hiddenProcesses.has(line.p) && !(line.peer !== undefined && !this.hiddenProcesses.has(line.peer) && line.e === "send")) return false;
    if (line.peer !== undefined && this.hiddenProcesses.has(line.peer)) return false;
    if (this.hiddenParts.has(line.part || "") && line.name) return false;
    return !(line.name && this.hiddenNames.has(line.name) && line.e !== "indicate");
  }

  refilter() {
    if (!this.branch) return;
    const all = this.branch.opened.processes;
    for (const branch of this.branches.values()) {
      branch.fold = this.fold;
      branch.scale = this.scale;
      branch.processes = all.filter((/** @type {any} */ each) => !this.hiddenProcesses.has(each.id));
      branch.lane = new Map(branch.processes.map((each, index) => [each.id, index]));
    }
    this.branch.shows = (/** @type {any} */ line) => this.#shows(line);
    this.branch.arrange();
    this.version++;
    this.show(this.branch);
    this.diagram.reveal(this.cursor);
  }

  /** @param {string[]} names */
  showVariables(names) {
    this.variables = names;
    this.#variables();
  }

  async #variables() {
    const { branch } = this;
    this.diagram.variables = this.variables;
    const missing = this.variables.filter((name) => !branch.along[name]);
    if (branch && missing.length) {
      const replies = await this.ask("along", { branch: branch.id, variables: missing });
      for (const name of missing) branch.along[name] = [];
      for (const change of replies?.[0]?.changes || []) (branch.along[change.variable] ||= []).push(change);
    }
    if (branch) this.diagram.show(branch);
    this.draw("all");
  }

  // Drawing.

  /** @param {string} what */
  draw(what) {
    this.stale.add(what);
    if (!this.frame && !this.pressed) this.frame = requestAnimationFrame(() => this.#draw());
  }

  /** Draw nothing while a control is pressed: a click must end at the element where it began. @param {boolean} pressed */
  press(pressed) {
    this.pressed = pressed;
    if (!pressed && this.stale.size) this.draw("status");
  }

  #draw() {
    this.frame = 0;
    if (this.pressed) return;
    const stale = this.stale;
    this.stale = new Set();
    const has = (/** @type {string[]} */ ...names) => names.some((each) => stale.has(each)) || stale.has("all");
    const started = performance.now();
    this.diagram.cursor = this.cursor;
    this.diagram.selected = this.selected;
    this.diagram.process = this.process;
    if (has("cursor", "diagram")) {
      this.diagram.draw();
      this.overview.draw(this.diagram, `${this.branch?.id} ${this.version}`);
    }
    if (has("cursor")) {
      this.table.cursor = this.cursor;
      this.table.selected = this.selected;
      this.table.draw();
      drawLamps(this, byId("lamp-list"), byId("costs"));
      const slider = byId("overview");
      slider.setAttribute("aria-valuenow", String(this.cursor + 1));
      slider.setAttribute("aria-valuemax", String(this.branch?.length || 0));
    }
    if (stale.has("all")) {
      this.#drawTabs();
      drawFilters(this, byId("filters"));
      byId("canvas").setAttribute("aria-label", t("diagram label", { processes: this.branch?.processes.length || 0, events: this.branch?.length || 0 }));
      byId("overview").setAttribute("aria-label", t("overview"));
      byId("splitter").setAttribute("aria-label", t("resize"));
    }
    if (has("cursor", "transport")) this.#drawTransport();
    if (has("cursor", "panels", "tab")) this.#drawPanel();
    if (has("cursor", "status")) this.#drawStatus();
    this.marks.frame = performance.now() - started;
  }

  #drawTransport() {
    const box = byId("transport");
    box.setAttribute("aria-label", t("play"));
    if (box.dataset.language !== currentLanguage()) {
      box.dataset.language = currentLanguage();
      /** @param {string} name @param {() => void} act @param {string} key @param {string} [image] */
      const button = (name, act, key, image = name) => el("button", { id: `do-${name}`, "aria-label": t(name), title: `${t(name)} (${key})`, onclick: act }, icon(image));
      fill(box, button("first", () => this.first(), "Home"), button("back", () => this.back(), "←"), button("play", () => this.play(), "Space"),
        button("step", () => this.step(), "→"), button("last", () => this.last(), "End"), button("violation", () => this.toViolation(), "v", "fault"),
        el("select", { id: "speed", "aria-label": t("speed"), title: t("speed"), onchange: (/** @type {any} */ event) => { this.speed = Number(event.target.value); } }, ...SPEEDS.map((each) => el("option", { value: String(each), selected: each === this.speed }, `${each}×`))));
      const tools = byId("tools");
      fill(tools,
        el("button", { id: "export", title: `${t("export")} (e)`, onclick: () => this.export() }, icon("share"), el("span", { class: "wide" }, t("export"))),
        el("button", { id: "language", class: "quiet", title: t("language"), lang: currentLanguage() === "en" ? "pt" : "en", onclick: () => this.translate() }, currentLanguage() === "en" ? "PT" : "EN"),
        el("button", { id: "help", class: "quiet", "aria-label": t("help"), title: `${t("help")} (?)`, onclick: () => showKeys() }, icon("help")));
    }
    const play = byId("do-play");
    play.setAttribute("aria-label", t(this.playing ? "pause" : "play"));
    play.setAttribute("aria-pressed", String(Boolean(this.playing)));
    fill(play, icon(this.playing ? "pause" : "play"));
    byId("do-violation").disabled = !this.firstViolation();
  }

  translate() {
    setLanguage(currentLanguage() === "en" ? "pt" : "en");
    localStorage.setItem("language", currentLanguage());
    if (this.branch) this.show(this.branch);
    this.draw("all");
  }

  #drawTabs() {
    fill(byId("tabs"), ...TABS.map((name) => el("button", {
      role: "tab", id: `tab-${name}`, "aria-selected": this.tab === name, "aria-controls": "panel", tabIndex: this.tab === name ? 0 : -1,
      onclick: () => this.showTab(name),
      onkeydown: (/** @type {KeyboardEvent} */ key) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[key.key];
        if (!by) return;
        key.preventDefault();
        key.stopPropagation();
        this.showTab(TABS[(TABS.indexOf(this.tab) + by + TABS.length) % TABS.length]);
        requestAnimationFrame(() => byId(`tab-${this.tab}`).focus());
      },
    }, t(name))));
  }

  /** @param {string} name */
  showTab(name) {
    if (this.tab === name) return;
    this.tab = name;
    this.#details();
    for (const each of TABS) {
      byId(`tab-${each}`)?.setAttribute("aria-selected", String(each === name));
      const tab = byId(`tab-${each}`);
      if (tab) tab.tabIndex = each === name ? 0 : -1;
    }
    this.draw("tab");
  }

  /** @param {number} by */
  turnTab(by) {
    this.showTab(TABS[(TABS.indexOf(this.tab) + by + TABS.length) % TABS.length]);
    this.status(t(this.tab));
  }

  #drawPanel() {
    let panel = byId("panel");
    if (!panel) {
      panel = el("div", { id: "panel", role: "tabpanel", tabIndex: 0 });
      byId("panels").append(panel);
    }
    panel.setAttribute("aria-labelledby", `tab-${this.tab}`);
    if (this.tab === "event") drawEvent(this, panel);
    else if (this.tab === "pending") drawPending(this, panel);
    else if (this.tab === "graph") drawGraph(this, panel);
    else drawTree(this, panel);
  }

  #drawStatus() {
    const { branch } = this;
    document.body.classList.toggle("busy", this.busy > 0);
    if (!branch) return;
    Object.assign(document.body.dataset, { branch: branch.id, events: branch.length, cursor: this.cursor, playing: this.playing ? "yes" : "no" });
    byId("count").textContent = `${this.cursor + 1} / ${branch.length.toLocaleString("en")}`;
    byId("status").textContent = this.busy && this.busy > 1 ? t("loading") : `${t("cursor", { at: this.cursor + 1, count: branch.length })} · ${t(branch.ended ? "ended" : "goes on")}`;
    byId("digest").textContent = branch.digest ? branch.digest.slice(0, 16) : "";
    byId("digest").title = branch.digest;
  }

  /** Say something to a screen reader. @param {string} text */
  status(text) {
    byId("status").textContent = text;
  }

  /** @param {string} text @param {string} [kind] */
  notice(text, kind = "info") {
    const box = byId("notice");
    box.hidden = !text;
    box.className = kind;
    box.setAttribute("role", kind === "info" ? "status" : "alert");
    fill(box, text ? el("span", {}, text) : null, text ? el("button", { class: "quiet", "aria-label": t("close"), onclick: () => this.notice("") }, icon("close")) : null);
    this.draw("diagram");
  }
}

function begin() {
  const wanted = localStorage.getItem("language") || (navigator.language.startsWith("pt") ? "pt" : "en");
  setLanguage(wanted);
  readTheme();
  const lab = new Lab();
  /** @type {any} */ (window).lab = lab; // for the console and the benchmark
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readTheme();
    lab.version++;
    lab.draw("all");
  });
  new ResizeObserver(() => {
    lab.diagram.resize();
    lab.draw("diagram");
  }).observe(byId("diagram"));
  byId("open").addEventListener("click", () => openDialog(lab));
  byId("table-box").addEventListener("toggle", () => {
    lab.table.draw();
    lab.table.reveal(lab.focus);
  });
  bindPointer(lab);
  bindKeys(lab);
  bindDrop(lab);
  document.addEventListener("pointerdown", (event) => lab.press(Boolean(/** @type {Element} */ (event.target).closest("button, summary, label, .row, [role=button]"))), true);
  for (const kind of ["pointerup", "pointercancel"]) document.addEventListener(kind, () => lab.press(false), true);
  addEventListener("blur", () => lab.press(false));
  lab.draw("all");
  lab.connect();
}

begin();

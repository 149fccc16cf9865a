// @ts-check
// The table of events: only the rows in sight exist.

import { el, fill } from "./dom.js";
import { inWords, t } from "./texts.js";

const ROW = 26;

export class EventTable {
  /** @param {HTMLElement} box @param {(event: number) => void} choose */
  constructor(box, choose) {
    this.box = box;
    this.choose = choose;
    /** @type {import("./model.js").Branch | null} */
    this.branch = null;
    this.cursor = -1;
    this.selected = -1;
    /** @type {number[]} */
    this.rows = [];
    this.head = el("div", { class: "row head", role: "row" });
    this.space = el("div", { class: "space", role: "rowgroup" });
    this.scroller = el("div", { class: "rows", tabIndex: 0, role: "grid", onscroll: () => this.draw(), onkeydown: (/** @type {KeyboardEvent} */ key) => this.#key(key) }, el("div", { role: "rowgroup", class: "headgroup" }, this.head), this.space);
    fill(box, this.scroller);
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  /** @param {import("./model.js").Branch} branch */
  show(branch) {
    this.branch = branch;
    this.rows = [];
    for (let index = 0; index < branch.length; index++) if (!branch.hidden[index]) this.rows.push(index);
    fill(this.head, ...["number", "time", "process", "what"].map((name) => el("span", { role: "columnheader" }, t(name))));
    this.scroller.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.scroller.setAttribute("aria-label", t("events"));
    this.space.style.height = `${this.rows.length * ROW}px`;
    this.draw();
  }

  /** @param {KeyboardEvent} key */
  #key(key) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[key.key];
    if (by === undefined || !this.rows.length) return;
    key.preventDefault();
    key.stopPropagation();
    const at = this.#rowOf(this.selected >= 0 ? this.selected : this.cursor);
    this.selected = this.rows[Math.max(0, Math.min(this.rows.length - 1, at + by))];
    this.choose(this.selected);
  }

  /** @param {number} event */
  #rowOf(event) {
    let [low, high] = [0, this.rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.rows[middle] < event) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {number} event */
  reveal(event) {
    if (event < 0 || this.scroller.clientHeight === 0) return;
    const top = this.#rowOf(event) * ROW;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + 2 * ROW > scrollTop + clientHeight - ROW) this.scroller.scrollTop = top - clientHeight / 2;
  }

  draw() {
    const branch = this.branch;
    if (!branch || this.scroller.clientHeight === 0) return;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 6);
    const last = Math.min(this.rows.length, Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / ROW) + 6);
    const made = [];
    for (let row = first; row < last; row++) {
      const index = this.rows[row];
      const line = branch.lines[index];
      const flight = branch.flightOf[index] >= 0 ? branch.flights[branch.flightOf[index]] : null;
      const network = ["cut", "heal", "slow"].includes(line.e);
      const words = inWords(line, (process) => branch.label(process), flight !== null && flight.lost && !flight.swallowed);
      const count = branch.repeats.get(index);
      const made1 = el("div", {
        class: `row${index > this.cursor ? " later" : ""}${index === this.selected ? " selected" : ""}${index === this.cursor ? " now" : ""}`,
        role: "row", "aria-rowindex": row + 2, "aria-selected": index === this.selected,
        onclick: () => this.choose(index),
      },
        el("span", { role: "gridcell" }, String(index + 1)),
        el("span", { role: "gridcell", class: "number" }, branch.moment(line.t)),
        el("span", { role: "gridcell", class: "who" }, branch.label(line.p)),
        el("span", { role: "gridcell", class: `what ${network ? "network" : line.e}` }, words, count ? ` ×${count}` : ""));
      made1.style.transform = `translateY(${row * ROW}px)`;
      made.push(made1);
    }
    fill(this.space, ...made);
  }
}

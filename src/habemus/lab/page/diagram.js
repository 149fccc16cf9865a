// @ts-check
// The space-time diagram on a canvas.  Time runs rightwards, or downwards on a narrow page.

import { FONT, MONO, colourOf, colours } from "./theme.js";
import { t, whatOf } from "./texts.js";

/** @typedef {import("./model.js").Branch} Branch */
/** @typedef {{kind: string, event?: number, flight?: number, process?: number, x: number, y: number}} Hit */

const LEAST_SLOT = 0.002;
const MOST_SLOT = 260;
const HEAD = 30; // room of the axis
const DENSE = 2600; // more visible flights than this are drawn without heads and labels

export class Diagram {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    /** @type {Branch | null} */
    this.branch = null;
    this.zoom = 56; // pixels of a slot
    this.left = -0.6; // slot at the left edge
    this.across = 0; // pixels scrolled across
    this.cursor = -1;
    this.selected = -1;
    this.process = -1;
    /** @type {{past: Set<number>, future: Set<number>} | null} */
    this.cone = null;
    this.ghosts = true;
    /** @type {string[]} */
    this.variables = [];
    this.width = 0;
    this.height = 0;
    this.vertical = false;
    this.gutter = 96;
    /** @type {Hit[]} */
    this.hits = [];
    /** @type {{flight: number, x: number, y: number, x2: number, y2: number}[]} */
    this.arrows = [];
    /** @type {number[]} */
    this.taken = [];
    /** @type {{x: number, y: number, x2: number, y2: number, alpha: number, colour: string, start: number, loop: boolean}[]} */
    this.labels = [];
    /** Boxes of texts, which other texts leave free. @type {[number, number, number, number][]} */
    this.boxes = [];
    this.lane = 60;
    this.pad = 0;
    this.mostAcross = 0;
  }

  /** Measure the canvas; what was in sight of the cursor stays there. */
  resize() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.max(box.width, 50), Math.max(box.height, 50)];
    if (this.width === width && this.height === height && this.canvas.width === Math.round(width * ratio)) return;
    const seen = this.#sees(this.cursor);
    this.width = width;
    this.height = height;
    this.vertical = width < 560;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#measure();
    if (seen) this.reveal(this.cursor);
  }

  #measure() {
    if (!this.branch) return;
    const labels = this.branch.processes.map((each) => each.label);
    this.context.font = `600 13px ${FONT}`;
    const widest = Math.max(20, ...labels.map((each) => this.context.measureText(each).width));
    this.gutter = this.vertical ? 64 : Math.min(150, widest + 34);
    const room = (this.vertical ? this.width - this.gutter : this.height - HEAD) - 12;
    const least = this.vertical ? 64 : this.variables.length ? 54 : 40;
    this.lane = Math.max(least, Math.min(this.vertical ? 150 : 170, room / Math.max(labels.length, 1)));
    const total = this.lane * labels.length;
    this.mostAcross = Math.max(0, total - room);
    this.across = Math.min(this.across, this.mostAcross);
    this.pad = Math.max(0, (room - total) / 2);
  }

  /** Pixels along the axis that show events. */
  get extent() {
    return this.vertical ? this.height - HEAD : this.width - this.gutter;
  }

  get origin() {
    return this.vertical ? HEAD : this.gutter;
  }

  /** @param {Branch} branch */
  show(branch) {
    this.branch = branch;
    this.#measure();
  }

  /** Choose a zoom at which a run is readable, from its beginning. */
  start() {
    if (!this.branch) return;
    this.resize();
    const whole = this.extent / (this.branch.slots + 1.6);
    this.zoom = Math.max(Math.min(whole, 110), this.vertical ? 34 : 40);
    this.left = -0.8;
    this.across = 0;
  }

  fit() {
    if (!this.branch) return;
    this.resize();
    this.zoom = this.#bounded(this.extent / (this.branch.slots + 1.6));
    this.left = -0.8;
  }

  /** @param {number} zoom */
  #bounded(zoom) {
    return Math.min(MOST_SLOT, Math.max(LEAST_SLOT, zoom));
  }

  /** @param {number} factor @param {number} [at] pixel along the axis that stays where it is */
  scaleBy(factor, at = this.origin + this.extent / 2) {
    const slot = this.slotAt(at);
    this.zoom = this.#bounded(this.zoom * factor);
    this.left = slot - (at - this.origin) / this.zoom;
    this.#keep();
  }

  /** @param {number} pixels */
  pan(pixels) {
    this.left += pixels / this.zoom;
    this.#keep();
  }

  #keep() {
    if (!this.branch) return;
    const visible = this.extent / this.zoom;
    const most = Math.max(-0.8, this.branch.slots + 1 - visible * 0.3);
    this.left = Math.max(Math.min(this.left, most), -Math.max(0.8, visible * 0.1));
  }

  /** @param {number} event */
  #sees(event) {
    if (!this.branch || event < 0 || event >= this.branch.length) return false;
    const slot = this.branch.atSlot[event];
    const visible = this.extent / this.zoom;
    return slot >= this.left + 0.4 && slot <= this.left + visible - Math.min(1.5, visible * 0.15);
  }

  /** Bring an event into sight. @param {number} event */
  reveal(event) {
    if (!this.branch || event < 0 || event >= this.branch.length) return;
    this.resize(); // a notice may have come since the last frame
    const slot = this.branch.atSlot[event];
    const visible = this.extent / this.zoom;
    if (!this.#sees(event))
      this.left = Math.min(slot - visible * 0.65, Math.max(-0.8, this.branch.slots + 1.2 - visible));
    this.#keep();
    if (this.left < 0 && slot < visible - 2) this.left = Math.max(this.left, -0.8);
  }

  /** @param {number} slot */
  along(slot) {
    return this.origin + (slot - this.left) * this.zoom;
  }

  /** @param {number} pixel */
  slotAt(pixel) {
    return this.left + (pixel - this.origin) / this.zoom;
  }

  /** @param {number} process */
  laneAt(process) {
    const index = this.branch?.lane.get(process) ?? 0;
    return (this.vertical ? this.gutter : HEAD) + 6 + (this.pad || 0) + (index + 0.5) * this.lane - this.across;
  }

  /** @param {number} slot @param {number} process @returns {[number, number]} */
  point(slot, process) {
    const along = this.along(slot);
    const lane = this.laneAt(process);
    return this.vertical ? [lane, along] : [along, lane];
  }

  draw() {
    const { context, branch } = this;
    this.resize();
    context.clearRect(0, 0, this.width, this.height);
    this.hits = [];
    this.arrows = [];
    this.taken = [];
    this.labels = [];
    this.boxes = [];
    if (!branch) return;
    const visible = this.extent / this.zoom;
    const first = Math.max(0, branch.eventAt(this.left - 0.5) - 1);
    const last = Math.min(branch.length, branch.eventAt(this.left + visible + 0.5) + 1);
    context.save();
    context.beginPath();
    if (this.vertical) context.rect(0, HEAD, this.width, this.height - HEAD);
    else context.rect(this.gutter, 0, this.width - this.gutter, this.height);
    context.clip();
    this.#drawNetwork(branch);
    this.#drawAxis(branch, first, last);
    this.#drawLanes(branch);
    this.#drawPeriods(branch, visible);
    this.#drawFlights(branch, visible);
    this.#drawMarks(branch, first, last);
    this.#drawFlightLabels();
    this.#drawVariables(branch, first, last);
    this.#drawCursor(branch);
    this.#drawViolations(branch);
    context.restore();
    this.#drawLabels(branch);
  }

  /** @param {number} event */
  #alpha(event) {
    if (this.cone && !this.cone.past.has(event) && !this.cone.future.has(event) && event !== this.selected) return 0.12;
    if (event > this.cursor) return this.ghosts ? 0.2 : 0;
    return 1;
  }

  /** @param {number} x @param {number} y @param {number} x2 @param {number} y2 */
  #segment(x, y, x2, y2) {
    this.context.beginPath();
    this.context.moveTo(x, y);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  /** A line across all lanes. @param {number} slot */
  #crossing(slot, from = 0) {
    const along = Math.round(this.along(slot)) + 0.5;
    if (this.vertical) this.#segment(from, along, this.width, along);
    else this.#segment(along, from, along, this.height);
  }

  /** @param {Branch} branch @param {number} first @param {number} last */
  #drawAxis(branch, first, last) {
    const { context } = this;
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = this.vertical ? "right" : "center";
    let free = -1e9;
    let labelled = "";
    for (let index = first; index < last; index++) {
      if (branch.hidden[index]) continue;
      const along = this.along(branch.atSlot[index]);
      if (along - free < (this.vertical ? 26 : 74) || along < this.origin + (this.vertical ? 4 : 24)) continue;
      const text = branch.moment(branch.lines[index].t);
      if (text === labelled) continue;
      labelled = text;
      free = along;
      context.strokeStyle = colours.faint;
      context.lineWidth = 1;
      this.#crossing(branch.atSlot[index], this.vertical ? this.gutter - 4 : HEAD - 6);
      context.fillStyle = index > this.cursor ? colours.muted : colours.text;
      context.globalAlpha = index > this.cursor ? 0.6 : 0.9;
      if (this.vertical) context.fillText(text.replace(" ms", ""), this.gutter - 13, along);
      else context.fillText(text, along, 14);
      context.globalAlpha = 1;
    }
  }

  /** @param {Branch} branch */
  #drawNetwork(branch) {
    const { context } = this;
    /** @type {Map<string, {from: number, first: number, text: string}>} */
    const open = new Map();
    const bands = [];
    for (const change of branch.changes) {
      const at = branch.atSlot[change.first];
      if (change.kind === "cut") open.set(`${change.first}`, { from: at, first: change.first, text: branch.linksOf(change) });
      if (change.kind === "heal" || change.kind === "cut") {
        const cut = branch.cutAt(change.last);
        for (const [key, band] of open) {
          const of = branch.changes.find((each) => `${each.first}` === key);
          if (of && !of.links.some(([a, b]) => cut.has(`${a}>${b}`))) {
            bands.push({ ...band, to: at });
            open.delete(key);
          }
        }
      }
    }
    for (const band of open.values()) bands.push({ ...band, to: branch.slots + 0.5 });
    for (const band of bands) {
      const [from, to] = [this.along(band.from), this.along(band.to)];
      if (to < 0 || from > Math.max(this.width, this.height)) continue;
      context.globalAlpha = band.first > this.cursor ? 0.25 : 1;
      context.fillStyle = colours.cut;
      if (this.vertical) context.fillRect(this.gutter, from, this.width, to - from);
      else context.fillRect(from, HEAD - 4, to - from, this.height);
      context.globalAlpha = 1;
    }
    context.font = `600 11px ${FONT}`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const change of branch.changes) {
      const at = this.along(branch.atSlot[change.first]);
      if (at < -300 || at > Math.max(this.width, this.height) + 10) continue;
      context.globalAlpha = Math.max(this.#alpha(change.first), 0.3);
      context.strokeStyle = colours.muted;
      context.setLineDash([2, 3]);
      this.#crossing(branch.atSlot[change.first], this.vertical ? this.gutter : HEAD - 4);
      context.setLineDash([]);
      context.fillStyle = colours.text;
      const text = t(`n ${change.kind}`, { links: branch.linksOf(change) });
      if (this.vertical) context.fillText(text, this.gutter + 6, at - 7);
      else context.fillText(text, at + 5, this.height - 9);
      this.hits.push({ kind: "event", event: change.first, x: this.vertical ? this.gutter + 20 : at, y: this.vertical ? at : this.height - 9 });
      context.globalAlpha = 1;
    }
  }

  /** @param {Branch} branch */
  #drawLanes(branch) {
    const { context } = this;
    const from = this.along(-0.35);
    const now = this.cursor >= 0 && this.cursor < branch.length ? this.along(branch.atSlot[this.cursor]) : from;
    const to = this.along(branch.slots + 0.6);
    for (const { id } of branch.processes) {
      const lane = Math.round(this.laneAt(id)) + 0.5;
      if (id === this.process) {
        context.fillStyle = colours.halo;
        if (this.vertical) context.fillRect(lane - 17, HEAD, 34, this.height);
        else context.fillRect(this.gutter, lane - 17, this.width, 34);
      }
      context.lineWidth = 1.5;
      for (const [a, b, alpha] of [[from, now, 1], [now, to, 0.3]]) {
        context.strokeStyle = colours.line;
        context.globalAlpha = alpha;
        if (this.vertical) this.#segment(lane, a, lane, b);
        else this.#segment(a, lane, b, lane);
      }
      context.globalAlpha = 1;
    }
  }

  /** @param {Branch} branch @param {number} visible */
  #drawPeriods(branch, visible) {
    const { context } = this;
    const right = this.left + visible;
    /** @type {Map<string, number>} */
    const narrow = new Map(); // the last pixel of periods that are too short to see
    for (const period of branch.periods) {
      if (period.first > this.cursor && !this.ghosts) continue;
      const begin = branch.atSlot[period.first];
      const stop = period.last < 0 ? branch.slots + 0.6 : branch.atSlot[period.last];
      if (begin > right + 1 || stop < this.left - 1) continue;
      if ((stop - begin) * this.zoom < 2) {
        const pixel = Math.round(this.along(begin));
        const key = `${period.kind} ${period.p}`;
        if (pixel - (narrow.get(key) ?? -1e6) < 2) continue;
        narrow.set(key, pixel);
      }
      const isOpen = period.first <= this.cursor && (period.last < 0 || period.last > this.cursor);
      const now = this.cursor >= 0 && this.cursor < branch.length ? Math.max(branch.atSlot[this.cursor], begin + 0.12) : begin;
      const parts = isOpen ? [[begin, Math.min(now, stop), 1], [Math.min(now, stop), stop, 0.25]] : [[begin, stop, period.first > this.cursor ? 0.25 : 1]];
      for (const [a, b, alpha] of parts) {
        if (b <= a || (alpha < 1 && !this.ghosts)) continue;
        context.globalAlpha = this.cone ? alpha * 0.5 : alpha;
        this.#drawPeriod(period, this.along(a), this.along(b), alpha === 1);
      }
      context.globalAlpha = 1;
    }
  }

  /** @param {import("./model.js").Period} period @param {number} a @param {number} b @param {boolean} labelled */
  #drawPeriod(period, a, b, labelled) {
    const { context } = this;
    const lane = this.laneAt(period.p);
    /** @param {number} half @param {number} [shift] */
    const pill = (half, shift = 0) => {
      context.beginPath();
      const radius = Math.min(half, 6, Math.abs(b - a) / 2);
      if (this.vertical) context.roundRect(lane - half + shift, a, half * 2, b - a, radius);
      else context.roundRect(a, lane - half + shift, b - a, half * 2, radius);
    };
    /** @param {string} text @param {string} colour */
    const label = (text, colour) => {
      context.font = `700 11px ${FONT}`;
      const width = context.measureText(text).width;
      if (!labelled || (this.vertical ? b - a < 13 : b - a < width + 8)) return;
      context.fillStyle = colour;
      context.textAlign = "center";
      context.textBaseline = "middle";
      const middle = Math.min((a + b) / 2, a + Math.max(width, 12) / 2 + 12);
      if (this.vertical) context.fillText(text, lane, (a + b) / 2 + 0.5);
      else context.fillText(text, middle, lane + 0.5);
    };
    context.lineWidth = 1.5;
    if (period.kind === "waiting") {
      context.strokeStyle = colours.waiting;
      context.fillStyle = colours.bg;
      pill(3.5);
      context.fill();
      context.stroke();
    } else if (period.kind === "inside") {
      context.fillStyle = colours.inside;
      pill(9);
      context.fill();
      label(period.text, colours.insideText);
    } else if (period.kind === "leader") {
      context.fillStyle = colours.leader;
      pill(8);
      context.fill();
      label(period.text ? `★ ${period.text}` : "★", colours.leaderText);
    } else if (period.kind === "down" || period.kind === "paused") {
      const half = period.kind === "down" ? 11 : 7;
      context.fillStyle = colours.bg;
      pill(half);
      context.fill();
      context.save();
      context.clip();
      context.strokeStyle = colours.down;
      context.lineWidth = period.kind === "down" ? 1.5 : 2;
      const length = b - a + 2 * half;
      const gap = period.kind === "down" ? 6 : 7;
      for (let offset = -2 * half; offset < Math.min(length, 6000); offset += gap) {
        const lean = period.kind === "down" ? 2 * half : 0;
        if (this.vertical) this.#segment(lane - half, a + offset, lane + half, a + offset + lean);
        else this.#segment(a + offset, lane + half, a + offset + lean, lane - half);
      }
      context.restore();
      context.strokeStyle = colours.down;
      context.lineWidth = 1;
      pill(half);
      context.stroke();
    } else if (period.kind.startsWith("suspects")) {
      context.strokeStyle = colours.danger;
      context.setLineDash([2, 3]);
      const shift = 12;
      if (this.vertical) this.#segment(lane + shift, a, lane + shift, b);
      else this.#segment(a, lane + shift, b, lane + shift);
      context.setLineDash([]);
      if (labelled && b - a > 24) {
        context.fillStyle = colours.danger;
        context.font = `10px ${FONT}`;
        context.textAlign = "left";
        context.textBaseline = "top";
        if (this.vertical) context.fillText(`?${period.text}`, lane + shift + 3, a);
        else context.fillText(`? ${period.text}`, a + 2, lane + shift + 2);
      }
    }
  }

  /** @param {Branch} branch @param {number} visible */
  #drawFlights(branch, visible) {
    const { context } = this;
    const right = this.left + visible + 0.5;
    const begin = branch.flightAt(this.left - 0.5);
    /** @type {number[]} */
    const seen = [];
    for (let index = begin; index < branch.flights.length; index++) {
      const flight = branch.flights[index];
      const start = flight.sent >= 0 ? flight.sent : flight.ended;
      if (branch.hidden[start]) continue;
      if (branch.atSlot[start] > right) break;
      if (flight.ended >= 0 && branch.atSlot[flight.ended] < this.left - 0.5) continue;
      if (flight.sent > this.cursor && !this.ghosts) continue;
      seen.push(index);
    }
    const dense = seen.length > DENSE || this.zoom < 9;
    if (dense) this.#drawDense(branch, seen);
    else for (const index of seen) this.#drawFlight(branch, index);
    context.globalAlpha = 1;
  }

  /** Lines only, at most one for each pair of processes and pixel. @param {Branch} branch @param {number[]} seen */
  #drawDense(branch, seen) {
    const { context } = this;
    const lanes = branch.processes.length;
    const drawn = new Int32Array(lanes * lanes).fill(-1e6); // the last pixel of each pair of processes
    /** @type {Map<string, Path2D>} */
    const paths = new Map();
    for (const index of seen) {
      const flight = branch.flights[index];
      const start = flight.sent >= 0 ? flight.sent : flight.ended;
      const stop = flight.ended >= 0 ? flight.ended : start;
      const a = Math.round(this.along(branch.atSlot[start]));
      const pair = (branch.lane.get(flight.from) ?? 0) * lanes + (branch.lane.get(flight.to) ?? 0);
      if (a - drawn[pair] < 2) continue;
      drawn[pair] = a;
      const [x, y] = this.point(branch.atSlot[start], flight.from);
      const [x2, y2] = this.point(branch.atSlot[stop], flight.to);
      const line = branch.lines[start];
      const colour = flight.lost ? colours.danger : colourOf(line.name || "");
      const style = `${colour} ${start > this.cursor ? 0.18 : 0.6}`;
      let path = paths.get(style);
      if (!path) paths.set(style, (path = new Path2D()));
      path.moveTo(x, y);
      path.lineTo(x2, y2);
    }
    context.lineWidth = 1;
    for (const [style, path] of paths) {
      const cut = style.lastIndexOf(" ");
      context.strokeStyle = style.slice(0, cut);
      context.globalAlpha = Number(style.slice(cut + 1));
      context.stroke(path);
    }
  }

  /** @param {Branch} branch @param {number} index */
  #drawFlight(branch, index) {
    const { context } = this;
    const flight = branch.flights[index];
    const { sent, ended } = flight;
    const start = sent >= 0 ? sent : ended;
    const line = branch.lines[start];
    const underWay = sent >= 0 && (ended < 0 || (ended > this.cursor && !this.ghosts));
    const [x, y] = sent >= 0 ? this.point(branch.atSlot[sent], flight.from) : this.point(branch.atSlot[ended] - 0.6, flight.from);
    const stopSlot = ended >= 0 ? branch.atSlot[ended] : branch.atSlot[start] + 0.75;
    let [x2, y2] = this.point(stopSlot, flight.to);
    if (ended >= 0 && branch.atSlot[ended] === branch.atSlot[start] && flight.from !== flight.to) {
      const nudge = Math.min(0.5 * this.zoom, 24); // lost at the moment of sending
      if (this.vertical) y2 += nudge;
      else x2 += nudge;
    }
    let share = 1;
    if (flight.swallowed) share = 0.5;
    else if (ended < 0) share = 0.72;
    const alpha = sent >= 0 ? this.#alpha(sent) : this.#alpha(ended);
    const arrived = ended >= 0 && ended <= this.cursor;
    const ghost = alpha === 1 && !arrived ? 0.55 : alpha;
    const both = this.cone && sent >= 0 && ended >= 0 && (this.cone.past.has(sent) || this.cone.future.has(sent) || sent === this.selected) &&
      (this.cone.past.has(ended) || this.cone.future.has(ended) || ended === this.selected);
    const isSelected = this.selected === sent || this.selected === ended;
    context.globalAlpha = this.cone ? (both ? 1 : 0.12) : ghost;
    const colour = flight.lost ? colours.danger : colourOf(line.name || "");
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = isSelected || both ? 2.4 : 1.5;
    const dashes = flight.copy ? [5, 3] : underWay || (!arrived && sent <= this.cursor) ? [6, 4] : [];
    context.setLineDash(dashes);
    if (flight.from === flight.to) {
      this.#drawLoop(x, y, x2, y2);
      if (this.zoom > 22) this.labels.push({ x, y, x2, y2, alpha: context.globalAlpha, colour, start, loop: true });
    } else {
      const [ex, ey] = [x + (x2 - x) * share, y + (y2 - y) * share];
      const trim = flight.lost && flight.swallowed ? 0 : 4;
      const length = Math.hypot(ex - x, ey - y) || 1;
      const [ux, uy] = [(ex - x) / length, (ey - y) / length];
      const [hx, hy] = [ex - ux * trim, ey - uy * trim];
      this.#segment(x, y, hx, hy);
      context.setLineDash([]);
      if (flight.lost) {
        const [cx, cy] = flight.swallowed ? [ex, ey] : [ex - ux * 9, ey - uy * 9];
        context.lineWidth = 2;
        this.#segment(cx - 4, cy - 4, cx + 4, cy + 4);
        this.#segment(cx - 4, cy + 4, cx + 4, cy - 4);
      } else this.#drawHead(hx, hy, ux, uy, 7);
      this.arrows.push({ flight: index, x, y, x2: ex, y2: ey });
      if (this.zoom > 22) this.labels.push({ x, y, x2: ex, y2: ey, alpha: context.globalAlpha, colour, start, loop: false });
    }
    context.setLineDash([]);
  }

  /** @param {number} x @param {number} y @param {number} ux @param {number} uy @param {number} size */
  #drawHead(x, y, ux, uy, size) {
    const { context } = this;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - ux * size - uy * size * 0.45, y - uy * size + ux * size * 0.45);
    context.lineTo(x - ux * size + uy * size * 0.45, y - uy * size - ux * size * 0.45);
    context.closePath();
    context.fill();
  }

  /** @param {number} x @param {number} y @param {number} x2 @param {number} y2 */
  #drawLoop(x, y, x2, y2) {
    const { context } = this;
    context.beginPath();
    context.moveTo(x, y);
    if (this.vertical) context.bezierCurveTo(x + 16, y, x + 16, y2, x2, y2);
    else context.bezierCurveTo(x, y - 16, x2, y - 16, x2, y2);
    context.stroke();
  }

  /** @param {[number, number, number, number]} box */
  #isTaken(box) {
    return this.boxes.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
  }

  /** What an event carries, in few characters. @param {Branch} branch @param {number} index */
  #short(branch, index) {
    const count = branch.repeats.get(index);
    const full = whatOf(branch.lines[index]);
    const { name } = branch.lines[index];
    const text = full.length <= 22 ? full : name ? `${name}(…)` : `${full.slice(0, 21)}…`;
    return count ? `${text} ×${count}` : text;
  }

  /** Labels of messages, where there is room. */
  #drawFlightLabels() {
    const { context, branch } = this;
    if (!branch) return;
    context.font = `11px ${FONT}`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    const order = [...this.labels].sort((a, b) => b.alpha - a.alpha);
    for (const { x, y, x2, y2, alpha, colour, start, loop } of order) {
      const text = this.#short(branch, start);
      const width = context.measureText(text).width + 6;
      if (!loop && Math.hypot(x2 - x, y2 - y) < 26) continue;
      for (const share of loop ? [0.5] : [0.42, 0.6, 0.28]) {
        let [cx, cy] = [x + (x2 - x) * share, y + (y2 - y) * share];
        if (loop) [cx, cy] = this.vertical ? [Math.min(cx + 16 + width / 2, this.width - width / 2 - 2), cy] : [cx, cy - 20];
        /** @type {[number, number, number, number]} */
        const box = [cx - width / 2, cy - 7, cx + width / 2, cy + 7];
        if (this.#isTaken(box)) continue;
        this.boxes.push(box);
        context.globalAlpha = alpha < 0.3 ? alpha : Math.max(alpha, 0.75);
        context.fillStyle = colours.bg;
        context.beginPath();
        context.roundRect(box[0], box[1], width, 14, 4);
        context.fill();
        context.fillStyle = colour;
        context.fillText(text, cx, cy + 0.5);
        break;
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {Branch} branch @param {number} first @param {number} last */
  #drawMarks(branch, first, last) {
    const { context } = this;
    if (last - first > 20_000) return;
    const small = this.zoom < 9;
    let drawn = -1;
    for (let index = first; index < last; index++) {
      if (branch.hidden[index]) continue;
      const line = branch.lines[index];
      const alpha = this.#alpha(index);
      if (!alpha || ["cut", "heal", "slow"].includes(line.e)) continue;
      const [x, y] = this.point(branch.atSlot[index], line.p);
      if (small) {
        const key = Math.round(this.along(branch.atSlot[index])) * 64 + (branch.lane.get(line.p) || 0);
        if (key === drawn || !["crash", "indicate", "recover"].includes(line.e)) continue;
        drawn = key;
      }
      context.globalAlpha = alpha;
      this.#drawMark(branch, line, index, x, y);
      this.hits.push({ kind: "event", event: index, process: line.p, x, y });
      if (index === this.selected) {
        context.globalAlpha = 1;
        context.strokeStyle = colours.accent;
        context.lineWidth = 2.5;
        context.beginPath();
        context.arc(x, y, 9, 0, 7);
        context.stroke();
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {Branch} branch @param {import("./model.js").Line} line @param {number} index @param {number} x @param {number} y */
  #drawMark(branch, line, index, x, y) {
    const { context } = this;
    const ink = colours.text;
    context.fillStyle = ink;
    context.strokeStyle = ink;
    context.lineWidth = 1.6;
    context.beginPath();
    if (line.e === "receive") {
      context.arc(x, y, 3.4, 0, 7);
      context.fillStyle = colourOf(line.name || "");
      context.fill();
    } else if (line.e === "send") {
      context.arc(x, y, 2.2, 0, 7);
      context.fill();
    } else if (line.e === "start") {
      if (this.vertical) this.#segment(x - 6, y, x + 6, y);
      else this.#segment(x, y - 6, x, y + 6);
    } else if (line.e === "timer") {
      context.arc(x, y, 4.2, 0, 7);
      context.fillStyle = colours.bg;
      context.fill();
      context.stroke();
      this.#segment(x, y, x, y - 3);
      this.#segment(x, y, x + 2, y + 1);
      this.#note(branch, line, index, x, y, -1);
    } else if (line.e === "request") {
      context.moveTo(x - 4.5, y - 8);
      context.lineTo(x + 4.5, y - 8);
      context.lineTo(x, y - 1);
      context.closePath();
      context.fill();
      if (line.name !== "acquire" && line.name !== "release") this.#note(branch, line, index, x, y, -1);
    } else if (line.e === "indicate") {
      context.moveTo(x - 4.5, y + 8);
      context.lineTo(x + 4.5, y + 8);
      context.lineTo(x, y + 1);
      context.closePath();
      context.fill();
      if (line.name !== "Granted" && line.name !== "Suspected" && line.name !== "Restored") this.#note(branch, line, index, x, y, 1);
    } else if (line.e === "crash") {
      context.strokeStyle = colours.danger;
      context.lineWidth = 3;
      this.#segment(x - 6, y - 6, x + 6, y + 6);
      this.#segment(x - 6, y + 6, x + 6, y - 6);
    } else if (line.e === "recover") {
      context.arc(x, y, 5, 0, 7);
      context.fillStyle = colours.bg;
      context.fill();
      context.stroke();
    } else if (line.e === "choose") {
      context.rect(x - 3.5, y - 3.5, 7, 7);
      context.fillStyle = colours.bg;
      context.fill();
      context.stroke();
      this.#note(branch, line, index, x, y, -1);
    }
  }

  /** A word beside a mark. @param {Branch} branch @param {import("./model.js").Line} line @param {number} index @param {number} x @param {number} y @param {number} side */
  #note(branch, line, index, x, y, side) {
    if (this.zoom < 26) return;
    const { context } = this;
    const text = this.#short(branch, index);
    context.font = `10.5px ${FONT}`;
    const width = context.measureText(text).width;
    const lane = this.vertical ? y : x;
    const key = (branch.lane.get(line.p) || 0) * 2 + (side > 0 ? 1 : 0);
    const start = this.vertical ? lane - 6 : lane - width / 2;
    if ((this.taken[key] ?? -1e9) > start) return;
    this.taken[key] = this.vertical ? lane + 8 : lane + width / 2 + 4;
    const [left, middle] = this.vertical ? [x + 11, y] : [x - width / 2, y + side * 16];
    this.boxes.push([left - 2, middle - 7, left + width + 2, middle + 7]);
    context.fillStyle = colours.muted;
    context.textBaseline = "middle";
    if (this.vertical) {
      context.textAlign = "left";
      context.fillText(text, x + 11, y);
    } else {
      context.textAlign = "center";
      context.fillText(text, x, y + side * 16);
    }
  }

  /** @param {Branch} branch @param {number} first @param {number} last */
  #drawVariables(branch, first, last) {
    if (!this.variables.length || this.zoom < 14) return;
    const { context } = this;
    context.font = `10.5px ${MONO}`;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const [from, to] = [branch.lines[first] ? first : 0, last];
    this.variables.forEach((variable, row) => {
      /** @type {Map<number, number>} */
      const free = new Map();
      for (const change of branch.along[variable] || []) {
        if (change.event < from || change.event >= to || branch.hidden[change.event]) continue;
        const alpha = this.#alpha(change.event);
        if (!alpha) continue;
        const [x, y] = this.point(branch.atSlot[change.event], change.process);
        const along = this.vertical ? y : x;
        if ((free.get(change.process) ?? -1e9) > along) continue;
        const text = this.variables.length > 1 ? `${variable}=${change.text}` : change.text;
        const shown = text.length > 24 ? `${text.slice(0, 23)}…` : text;
        const width = context.measureText(shown).width;
        free.set(change.process, along + (this.vertical ? 12 : width + 6));
        context.globalAlpha = alpha;
        const [bx, by] = this.vertical ? [x + 12, y + row * 11] : [x - 2, y + 16 + row * 12];
        context.fillStyle = colours.halo;
        context.beginPath();
        context.roundRect(bx - 3, by - 6.5, width + 6, 13, 3);
        context.fill();
        context.fillStyle = colours.accent;
        context.fillText(shown, bx, by + 0.5);
      }
    });
    context.globalAlpha = 1;
  }

  /** @param {Branch} branch */
  #drawViolations(branch) {
    const { context } = this;
    /** @type {Map<number, string[]>} */
    const at = new Map();
    for (const lamp of branch.lamps)
      if (lamp.run === "violated" && lamp.event !== null && lamp.event !== undefined && lamp.event < branch.length)
        at.set(lamp.event, [...(at.get(lamp.event) || []), lamp.property]);
    for (const [event, names] of at) {
      const slot = branch.atSlot[event];
      const along = this.along(slot);
      if (along < this.origin - 2 || along > Math.max(this.width, this.height)) continue;
      context.globalAlpha = event > this.cursor ? 0.4 : 1;
      context.strokeStyle = colours.danger;
      context.lineWidth = 2;
      this.#crossing(slot, this.vertical ? this.gutter : HEAD - 6);
      const text = names.join(", ");
      context.font = `700 11px ${FONT}`;
      const width = context.measureText(text).width + 12;
      const [x, y] = this.vertical ? [this.width - width - 4, along - 18] : [Math.min(along + 2, this.width - width - 2), HEAD - 8];
      context.fillStyle = colours.danger;
      context.beginPath();
      context.roundRect(x, y, width, 17, 4);
      context.fill();
      context.fillStyle = colours.bg;
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(text, x + 6, y + 9);
      context.globalAlpha = 1;
    }
  }

  /** @param {Branch} branch */
  #drawCursor(branch) {
    if (this.cursor < 0 || this.cursor >= branch.length) return;
    const { context } = this;
    const slot = branch.atSlot[this.cursor];
    const along = this.along(slot);
    context.strokeStyle = context.fillStyle = colours.accent;
    context.lineWidth = 1.5;
    this.#crossing(slot, this.vertical ? this.gutter - 4 : HEAD - 4);
    context.beginPath();
    if (this.vertical) {
      context.moveTo(this.gutter - 4, along);
      context.lineTo(this.gutter - 11, along - 5);
      context.lineTo(this.gutter - 11, along + 5);
    } else {
      context.moveTo(along, HEAD - 1);
      context.lineTo(along - 5, HEAD - 8);
      context.lineTo(along + 5, HEAD - 8);
    }
    context.fill();
  }

  /** @param {Branch} branch */
  #drawLabels(branch) {
    const { context } = this;
    const standing = branch.standing(this.cursor);
    context.fillStyle = colours.bg;
    if (this.vertical) context.fillRect(0, 0, this.width, HEAD);
    else context.fillRect(0, 0, this.gutter - 1, this.height);
    context.strokeStyle = colours.faint;
    context.lineWidth = 1;
    if (this.vertical) this.#segment(0, HEAD - 0.5, this.width, HEAD - 0.5);
    else this.#segment(this.gutter - 0.5, 0, this.gutter - 0.5, this.height);
    for (const { id, label } of branch.processes) {
      const lane = this.laneAt(id);
      const now = standing.get(id) || new Set();
      const [x, y] = this.vertical ? [lane, 15] : [16, lane];
      if (!this.vertical && (y < HEAD || y > this.height)) continue;
      context.font = `600 13px ${FONT}`;
      context.fillStyle = now.has("down") ? colours.muted : colours.text;
      context.textAlign = this.vertical ? "center" : "left";
      context.textBaseline = "middle";
      const room = this.vertical ? this.lane - 24 : this.gutter - 34;
      let text = label;
      while (text.length > 1 && context.measureText(text).width > room) text = text.slice(0, -1);
      if (text !== label) text = `${text.slice(0, -1)}…`;
      context.fillText(text, this.vertical ? x + 4 : x + 12, y + 0.5);
      const dot = now.has("down") ? colours.down : now.has("inside") ? colours.inside : now.has("leader") ? colours.leader : now.has("waiting") ? colours.waiting : colours.line;
      context.fillStyle = dot;
      context.beginPath();
      context.arc(this.vertical ? x - context.measureText(text).width / 2 - 5 : x, y, now.has("waiting") ? 3.5 : 4.5, 0, 7);
      context.fill();
      if (now.has("down")) this.#segment(this.vertical ? x - 8 : x + 12, y, this.vertical ? x + 16 : x + 12 + context.measureText(text).width, y);
      this.hits.push({ kind: "process", process: id, x: this.vertical ? x : x + 16, y });
    }
  }

  /** What is at a point of the canvas. @param {number} x @param {number} y @returns {Hit | null} */
  at(x, y) {
    let best = null;
    let near = 11 ** 2;
    for (const hit of this.hits) {
      const far = (hit.x - x) ** 2 + (hit.y - y) ** 2;
      const reach = hit.kind === "process" ? 26 ** 2 : 11 ** 2;
      if (far < reach && far < near) [best, near] = [hit, far];
      else if (hit.kind === "process" && far < reach && !best) best = hit;
    }
    if (best) return best;
    near = 7;
    for (const arrow of this.arrows) {
      const length = (arrow.x2 - arrow.x) ** 2 + (arrow.y2 - arrow.y) ** 2 || 1;
      const share = Math.max(0, Math.min(1, ((x - arrow.x) * (arrow.x2 - arrow.x) + (y - arrow.y) * (arrow.y2 - arrow.y)) / length));
      const far = Math.hypot(arrow.x + share * (arrow.x2 - arrow.x) - x, arrow.y + share * (arrow.y2 - arrow.y) - y);
      if (far < near) [best, near] = [{ kind: "flight", flight: arrow.flight, x, y }, far];
    }
    if (best) return best;
    if (!this.branch) return null;
    for (const { id } of this.branch.processes)
      if (Math.abs((this.vertical ? x : y) - this.laneAt(id)) < 14) return { kind: "lane", process: id, x, y };
    return null;
  }
}

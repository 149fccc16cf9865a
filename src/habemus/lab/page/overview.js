// @ts-check
// The strip under the diagram: the whole run, the part in sight, the cursor.

import { colourOf, colours } from "./theme.js";

export class Overview {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    /** @type {HTMLCanvasElement} the picture of the run, without the window */
    this.picture = document.createElement("canvas");
    this.drawn = "";
    this.width = 0;
  }

  /** @param {import("./model.js").Branch} branch */
  #paint(branch, /** @type {number} */ width, /** @type {number} */ height, /** @type {number} */ ratio) {
    this.picture.width = Math.round(width * ratio);
    this.picture.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (this.picture.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scale = width / (branch.slots + 1);
    const lanes = Math.max(branch.processes.length, 1);
    const lane = (height - 8) / lanes;
    /** @param {number} process */
    const y = (process) => 4 + ((branch.lane.get(process) ?? 0) + 0.5) * lane;
    let column = -1;
    let seen = new Set();
    for (let index = 0; index < branch.length; index++) {
      if (branch.hidden[index]) continue;
      const line = branch.lines[index];
      const x = Math.round((branch.atSlot[index] + 0.5) * scale);
      if (x !== column) [column, seen] = [x, new Set()];
      if (seen.has(line.p)) continue;
      seen.add(line.p);
      context.fillStyle = line.e === "crash" || line.e === "lost" ? colours.danger : line.name ? colourOf(line.name) : colours.muted;
      context.globalAlpha = 0.65;
      context.fillRect(x, y(line.p) - Math.min(lane / 3, 2), 1.5, Math.max(1.5, Math.min(lane * 0.66, 4)));
    }
    context.globalAlpha = 1;
    for (const period of branch.periods) {
      const colour = { inside: colours.inside, leader: colours.leader, down: colours.down, paused: colours.down }[period.kind];
      if (!colour) continue;
      const from = (branch.atSlot[period.first] + 0.5) * scale;
      const to = period.last < 0 ? width : (branch.atSlot[period.last] + 0.5) * scale;
      context.fillStyle = colour;
      context.fillRect(from, y(period.p) - Math.max(1.5, lane * 0.3), Math.max(1, to - from), Math.max(3, lane * 0.6));
    }
    for (const lamp of branch.lamps) {
      if (lamp.run !== "violated" || lamp.event === null || lamp.event === undefined || lamp.event >= branch.length) continue;
      context.fillStyle = colours.danger;
      context.fillRect((branch.atSlot[lamp.event] + 0.5) * scale - 1, 0, 2, height);
    }
  }

  /** @param {import("./diagram.js").Diagram} diagram @param {string} stamp changes with what the picture shows */
  draw(diagram, stamp) {
    const branch = diagram.branch;
    const box = this.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.max(box.width, 10), Math.max(box.height, 10)];
    this.width = width;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    if (!branch) return;
    const key = `${stamp} ${width} ${height} ${ratio}`;
    if (key !== this.drawn) {
      this.#paint(branch, width, height, ratio);
      this.drawn = key;
    }
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scale = width / (branch.slots + 1);
    const from = Math.max(0, (diagram.left + 0.5) * scale);
    const to = Math.min(width, (diagram.left + diagram.extent / diagram.zoom + 0.5) * scale);
    context.fillStyle = colours.bg;
    context.globalAlpha = 0.62;
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = colours.muted;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(3, to - from - 1), height - 1);
    if (diagram.cursor >= 0 && diagram.cursor < branch.length) {
      context.fillStyle = colours.accent;
      context.fillRect((branch.atSlot[diagram.cursor] + 0.5) * scale - 1, 0, 2, height);
    }
  }

  /** The slot at a pixel. @param {number} x @param {import("./model.js").Branch} branch */
  slotAt(x, branch) {
    return (x / this.width) * (branch.slots + 1) - 0.5;
  }
}

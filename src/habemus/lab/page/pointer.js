// @ts-check
// Pointer and wheel on the diagram and the overview strip.

import { byId, fill, el } from "./dom.js";
import { inWords, t, whatOf } from "./texts.js";

/** @param {import("./main.js").Lab} lab */
export function bindPointer(lab) {
  const canvas = /** @type {HTMLCanvasElement} */ (byId("canvas"));
  const { diagram } = lab;
  /** @type {{x: number, y: number, left: number, across: number, moved: boolean} | null} */
  let drag = null;
  /** @type {Map<number, PointerEvent>} */
  const fingers = new Map();
  let spread = 0;
  /** @param {MouseEvent} event @returns {[number, number]} */
  const inside = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    fingers.set(event.pointerId, event);
    const [x, y] = inside(event);
    drag = { x, y, left: diagram.left, across: diagram.across, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = inside(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const [one, other] = [...fingers.values()];
      const far = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      if (spread) diagram.scaleBy(far / spread);
      spread = far;
      if (drag) drag.moved = true;
      lab.draw("diagram");
    } else if (drag) {
      const [dx, dy] = [x - drag.x, y - drag.y];
      if (!drag.moved && Math.hypot(dx, dy) < 5) return;
      drag.moved = true;
      diagram.left = drag.left;
      diagram.pan(diagram.vertical ? -dy : -dx);
      diagram.across = Math.max(0, Math.min(diagram.mostAcross || 0, drag.across - (diagram.vertical ? dx : dy)));
      canvas.classList.add("dragging");
      lab.draw("diagram");
    } else hover(lab, x, y);
  });
  canvas.addEventListener("pointerup", (event) => {
    fingers.delete(event.pointerId);
    spread = 0;
    canvas.classList.remove("dragging");
    const [x, y] = inside(event);
    if (drag && !drag.moved) click(lab, x, y);
    if (!fingers.size) drag = null;
  });
  canvas.addEventListener("pointercancel", (event) => {
    fingers.delete(event.pointerId);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x, y] = inside(event);
    if (event.ctrlKey || event.metaKey) diagram.scaleBy(Math.exp(-event.deltaY / 240), diagram.vertical ? y : x);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) diagram.pan(event.deltaX || event.deltaY);
    else if (diagram.vertical) diagram.pan(event.deltaY);
    else if (diagram.mostAcross && x < diagram.gutter) diagram.across = Math.max(0, Math.min(diagram.mostAcross, diagram.across + event.deltaY));
    else diagram.pan(event.deltaY);
    lab.draw("diagram");
  }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => {
    event.preventDefault();
    const hit = diagram.at(...inside(event));
    if (!hit || !lab.branch) return;
    byId("tip").hidden = true;
    if (hit.kind === "event" && hit.event !== undefined) lab.menuOfEvent(hit.event, event.clientX, event.clientY);
    else if (hit.kind === "flight" && hit.flight !== undefined) lab.menuOfFlight(hit.flight, event.clientX, event.clientY);
    else if (hit.process !== undefined) lab.menuOfProcess(hit.process, event.clientX, event.clientY);
  });
  canvas.addEventListener("dblclick", () => {
    diagram.scaleBy(1.6);
    lab.draw("diagram");
  });
  bindOverview(lab);
  bindSplitter(lab);
}

/** @param {import("./main.js").Lab} lab @param {number} x @param {number} y */
function click(lab, x, y) {
  const { diagram, branch } = lab;
  if (!branch) return;
  const hit = diagram.at(x, y);
  if (hit?.kind === "event" && hit.event !== undefined) lab.select(hit.event);
  else if (hit?.kind === "flight" && hit.flight !== undefined) {
    const flight = branch.flights[hit.flight];
    lab.select(flight.sent >= 0 ? flight.sent : flight.ended);
  } else if (hit?.process !== undefined && hit.kind === "process") lab.chooseProcess(hit.process);
  else {
    const slot = diagram.slotAt(diagram.vertical ? y : x);
    lab.go(Math.min(branch.eventAt(slot + 0.5) - 1, branch.length - 1));
    if (hit?.process !== undefined) lab.chooseProcess(hit.process);
  }
}

/** @param {import("./main.js").Lab} lab @param {number} x @param {number} y */
function hover(lab, x, y) {
  const tip = byId("tip");
  const { branch } = lab;
  const hit = lab.diagram.at(x, y);
  lab.diagram.canvas.style.cursor = hit && hit.kind !== "lane" ? "pointer" : "";
  if (!hit || !branch || hit.kind === "lane" || hit.kind === "process") {
    tip.hidden = true;
    return;
  }
  const flight = hit.flight !== undefined ? branch.flights[hit.flight] : null;
  const index = flight ? Math.max(flight.sent, flight.sent < 0 ? flight.ended : 0) : /** @type {number} */ (hit.event);
  const line = branch.lines[index];
  const rows = Object.entries(line.v || {}).slice(0, 12);
  fill(tip, el("b", {}, flight ? `${whatOf(line)}: ${branch.label(flight.from)} → ${branch.label(flight.to)}` : `${branch.label(line.p)} ${inWords(line, (process) => branch.label(process))}`),
    el("span", {}, flight && flight.ended >= 0 && flight.sent >= 0 ? `${branch.moment(branch.lines[flight.sent].t)} – ${branch.moment(branch.lines[flight.ended].t)}${flight.lost ? `, ${t("lost line")}` : ""}` : branch.moment(line.t)),
    ...rows.map(([name, value]) => el("span", { class: "field" }, `${name}: ${JSON.stringify(value)}`)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, lab.diagram.width - box.width - 6))}px`;
  tip.style.top = `${y + 18 + box.height > lab.diagram.height ? Math.max(2, y - box.height - 10) : y + 16}px`;
}

/** @param {import("./main.js").Lab} lab */
function bindOverview(lab) {
  const strip = /** @type {HTMLCanvasElement} */ (byId("overview"));
  /** @param {PointerEvent} event */
  const scrub = (event) => {
    if (!lab.branch) return;
    const slot = lab.overview.slotAt(event.clientX - strip.getBoundingClientRect().left, lab.branch);
    lab.diagram.left = slot - lab.diagram.extent / lab.diagram.zoom / 2;
    lab.diagram.pan(0);
    lab.go(Math.max(0, lab.branch.eventAt(slot + 0.5) - 1));
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    scrub(event);
  });
  strip.addEventListener("pointermove", (event) => event.buttons & 1 && scrub(event));
  strip.setAttribute("aria-valuemin", "0");
}

/** @param {import("./main.js").Lab} lab */
function bindSplitter(lab) {
  const splitter = byId("splitter");
  /** @param {number} width */
  const set = (width) => {
    const bounded = Math.max(220, Math.min(width, innerWidth * 0.6));
    document.documentElement.style.setProperty("--side", `${bounded}px`);
    splitter.setAttribute("aria-valuenow", String(Math.round(bounded)));
    lab.draw("diagram");
  };
  splitter.setAttribute("aria-valuenow", "360");
  splitter.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => splitter.setPointerCapture(event.pointerId));
  splitter.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => event.buttons & 1 && set(innerWidth - event.clientX));
  splitter.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    set(byId("side").getBoundingClientRect().width + by);
  });
}

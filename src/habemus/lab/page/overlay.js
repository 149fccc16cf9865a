// @ts-check
// Menus and dialogs: made when they open, closed by Escape, and the focus goes back.

import { byId, el, icon } from "./dom.js";
import { t } from "./texts.js";

/** @typedef {{label: string, act?: () => void, key?: string, danger?: boolean, items?: Item[], icon?: string, disabled?: boolean} | "-"} Item */

/** @type {(() => void)[]} */
const open = [];

export const isOpen = () => open.length > 0;

/** Close the uppermost one. */
export const closeTop = () => open[open.length - 1]?.();

export function closeAll() {
  while (open.length) /** @type {() => void} */ (open[open.length - 1])();
}

/** @param {HTMLElement} box @param {() => void} [after] */
function layer(box, after = () => {}) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  byId("layer").append(box);
  let closed = false;
  const close = () => {
    if (closed) return;
    closed = true;
    open.splice(open.indexOf(close), 1);
    box.remove();
    before?.focus?.({ preventScroll: true });
    after();
  };
  open.push(close);
  return close;
}

/**
 * Show a menu at a point; arrow keys move, Enter chooses.
 * @param {number} x @param {number} y @param {Item[]} items @param {string} [label]
 */
export function menu(x, y, items, label = "") {
  closeAll();
  const list = el("div", { class: "menu", role: "menu", "aria-label": label || t("faults") });
  const veil = el("div", { class: "veil" }, list);
  const close = layer(veil);
  veil.addEventListener("pointerdown", (/** @type {Event} */ event) => event.target === veil && close());
  veil.addEventListener("contextmenu", (/** @type {Event} */ event) => event.preventDefault());
  if (label) list.append(el("div", { class: "menu-title", role: "presentation" }, label));
  for (const item of items) {
    if (item === "-") {
      list.append(el("div", { role: "separator" }));
      continue;
    }
    list.append(el("button", {
      role: "menuitem", class: item.danger ? "danger" : "", tabIndex: -1, disabled: item.disabled === true,
      onclick: () => {
        close();
        item.act?.();
      },
    }, item.icon ? icon(item.icon) : null, el("span", {}, item.label), item.key ? el("kbd", {}, item.key) : null));
  }
  const buttons = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("button:not(:disabled)")]);
  list.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const all = buttons();
    const now = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      all[(to + all.length) % all.length]?.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      close();
    }
    event.stopPropagation();
  });
  const box = list.getBoundingClientRect();
  list.style.left = `${Math.max(6, Math.min(x, innerWidth - box.width - 6))}px`;
  list.style.top = `${Math.max(6, Math.min(y, innerHeight - box.height - 6))}px`;
  buttons()[0]?.focus();
}

/**
 * Show a dialog.
 * @param {string} title @param {any[]} children @param {{class?: string}} [how]
 * @returns {() => void} close it
 */
export function dialog(title, children, how = {}) {
  closeAll();
  const box = el("div", { class: `dialog ${how.class || ""}`, role: "dialog", "aria-modal": true, "aria-label": title },
    el("header", {}, el("h2", {}, title), el("button", { class: "quiet", "aria-label": t("close"), onclick: () => close() }, icon("close"))),
    el("div", { class: "body" }, ...children));
  const veil = el("div", { class: "veil dim" }, box);
  const close = layer(veil);
  veil.addEventListener("pointerdown", (/** @type {Event} */ event) => event.target === veil && close());
  box.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    event.stopPropagation();
    if (event.key === "Escape") return close();
    if (event.key !== "Tab") return undefined;
    const all = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("button, input, textarea, select, summary, a[href], [tabindex='0']")].filter((each) => /** @type {HTMLElement} */ (each).offsetParent !== null));
    const [first, last] = [all[0], all[all.length - 1]];
    if (event.shiftKey && document.activeElement === first) [event.preventDefault(), last.focus()];
    else if (!event.shiftKey && document.activeElement === last) [event.preventDefault(), first.focus()];
    return undefined;
  });
  const first = box.querySelector("[autofocus]") || box.querySelector(".body input, .body textarea, .body button") || box.querySelector("button");
  /** @type {HTMLElement | null} */ (first)?.focus();
  return close;
}

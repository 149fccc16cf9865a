// @ts-check
// Take it away: files, the command, the link.

import { el, save } from "./dom.js";
import { dialog, menu } from "./overlay.js";
import { t } from "./texts.js";

const TEXTS = ["link", "command"];
const FILES = ["svg", "png", "mermaid", "shiviz", "jsonl", "perfetto", "pytest", "scenario"];

/** @param {import("./main.js").Lab} lab @param {number} x @param {number} y */
export function menuOfExports(lab, x, y) {
  if (!lab.branch) return;
  menu(x, y, [
    ...TEXTS.map((kind) => ({ label: t(`x ${kind}`), act: () => exportAs(lab, kind) })),
    /** @type {"-"} */ ("-"),
    ...FILES.map((kind) => ({ label: t(`x ${kind}`), act: () => exportAs(lab, kind) })),
  ], t("take it"));
}

/** @param {import("./main.js").Lab} lab @param {string} kind */
export async function exportAs(lab, kind) {
  const replies = await lab.ask("export", { branch: lab.branch.id, as: kind });
  if (!replies) return;
  const reply = replies[0];
  if (kind === "link") return showText(lab, t("x link"), `${location.origin}/#${reply.text}`);
  if (kind === "command") return showText(lab, t("x command"), reply.text);
  const bytes = reply.base64 !== undefined && reply.base64 !== null ? Uint8Array.from(atob(reply.base64), (each) => each.charCodeAt(0)) : reply.text;
  save(reply.name, new Blob([bytes], { type: reply.mime }));
  lab.notice(t("saved", { name: reply.name }), "info");
}

/** @param {import("./main.js").Lab} lab @param {string} title @param {string} text */
function showText(lab, title, text) {
  const field = el("textarea", { readOnly: true, rows: 5, value: text, "aria-label": title, class: "mono" });
  const close = dialog(title, [field, el("div", { class: "buttons" }, el("button", { class: "primary", autofocus: true, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      close();
      lab.notice(t("copied"), "info");
    } catch {
      field.select();
      lab.notice(t("copy failed"), "info");
    }
  } }, t("copy")))], { class: "narrow" });
}

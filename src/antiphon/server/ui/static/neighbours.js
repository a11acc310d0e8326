// The requests before and after one in the list that was shown last.

import { to } from "./widgets.js";

let shown = [];
let address = "";

/** Remember the order of a list, and its address. */
export function rememberList(ids, listAddress) {
  shown = ids;
  address = listAddress;
}

/** The ids around a request in that list; without one, those that the gateway found by time. */
export function neighbours(id, detail) {
  const list = address || to("requests");
  const at = shown.indexOf(id);
  if (at < 0) return { previous: detail.newer, next: detail.older, list };
  return { previous: shown[at - 1], next: shown[at + 1], list };
}

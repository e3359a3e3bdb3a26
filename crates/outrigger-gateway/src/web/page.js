// Brings what is marked `data-live` up to date. What somebody is using stays as it is: an element that
// holds the focus or an open part, and one that has not changed.
"use strict";
const busy = (element) =>
  element.contains(document.activeElement) && document.activeElement !== document.body;
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.pathname, { headers: { accept: "text/html" }, redirect: "error" });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const now of document.querySelectorAll("[data-live]")) {
    const next = page.getElementById(now.id);
    if (!next || busy(now)) continue;
    for (const open of now.querySelectorAll("details[open][id]")) {
      const same = next.querySelector("#" + CSS.escape(open.id));
      if (same) same.open = true;
    }
    if (now.querySelector("form details[open]")) continue;
    if (now.outerHTML !== next.outerHTML) now.replaceWith(document.adoptNode(next));
  }
}
setInterval(() => refresh().catch(() => {}), 2000);

"use strict";
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const WORD = { p: "pass", f: "fail", u: "unknown", b: "blocked", n: "not asked", "-": "not judged" };
const STYLE = { p: "c-ok", f: "c-fail", u: "c-unknown", b: "c-blocked", n: "c-na", "-": "c-none" };
const findings = [...document.querySelectorAll(".finding")].map((e) => ({ e, nodes: e.dataset.nodes.toLowerCase().split(" ") }));
const rows = [...document.querySelectorAll("#matrix tbody tr")];
const kinds = [...document.querySelectorAll("#filter input[type=checkbox]")];

function filter() {
  const node = $("f-node").value.trim().toLowerCase(), layer = $("f-layer").value;
  const shown = new Set(kinds.filter((k) => k.checked).map((k) => k.value));
  let count = 0;
  for (const { e, nodes } of findings) {
    const on = shown.has(e.dataset.kind) && (!layer || e.dataset.layer === layer) && (!node || nodes.some((n) => n.includes(node)));
    e.hidden = !on;
    count += on;
  }
  let seen = 0;
  for (const row of rows) {
    row.hidden = node !== "" && !row.dataset.node.toLowerCase().includes(node);
    seen += !row.hidden;
  }
  $("f-count").textContent = `${count} of ${findings.length} findings, ${seen} of ${rows.length} nodes`;
}

function cell(row, text, style) {
  const td = row.insertCell();
  td.textContent = text;
  if (style) td.className = style;
  return td;
}

let open = "";
function sheet(name) {
  const found = data.nodes[name];
  open = name;
  $("s-title").textContent = name;
  $("s-rows").textContent = "";
  if (!found) {
    $("s-about").textContent = "Accepted. With this many nodes the page holds the sheets of the others only; the JSON report has all.";
  } else {
    const [about, letters, said, wanted] = found;
    $("s-about").textContent = [about[0], about[1], about[2] && `unit ${about[2]}`, about[3] ? `evidence sha256 ${about[3]}` : "no complete evidence"].filter(Boolean).join(" · ");
    data.needs.forEach((need, i) => {
      if (!$("s-all").checked && "pn-".includes(letters[i])) return;
      const row = $("s-rows").insertRow();
      cell(row, `${need[0]} (${need[1]})`).title = need[2];
      cell(row, WORD[letters[i]] + (need[4] ? ` (${need[4]})` : ""), STYLE[letters[i]]);
      cell(row, data.texts[said[i]]);
      cell(row, data.texts[wanted[i]]);
    });
    if (!$("s-rows").rows.length) cell($("s-rows").insertRow(), "everything that was asked passes").colSpan = 4;
  }
  if (!$("sheet").open) $("sheet").showModal();
}

$("filter").addEventListener("input", filter);
$("filter").addEventListener("submit", (e) => e.preventDefault());
$("filter").addEventListener("reset", () => setTimeout(filter));
$("s-all").addEventListener("change", () => sheet(open));
document.addEventListener("click", (e) => {
  const button = e.target.closest("button[data-node]");
  if (button) sheet(button.dataset.node);
});
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
    e.preventDefault();
    $("f-node").focus();
  }
});
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")].filter((d) => !d.classList.contains("raw"));
  closed.forEach((d) => (d.open = true));
});
addEventListener("afterprint", () => closed.forEach((d) => (d.open = false)));
filter();

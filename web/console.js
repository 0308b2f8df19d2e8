// SPDX-License-Identifier: Apache-2.0
// The start page: what is loaded, what memory it takes, and a form that sends
// a request. Talks to this server only, through the public API.

const $ = (id) => document.getElementById(id);
const REFRESH_MS = 2000;
const CLASSES = ["static", "arenas", "inputs", "outputs", "side", "state",
  "bodies", "responses", "plans", "connections", "graphs", "cached"];

let selected = null; // id of the model in the form
let example = null;  // its example request and curl line

function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let u = 0;
  while (n >= 999.5 && u < units.length - 1) {
    n /= 1000;
    u++;
  }
  const digits = u === 0 || n >= 100 ? 0 : n >= 10 ? 1 : 2;
  return `${n.toFixed(digits)} ${units[u]}`;
}

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null)
      e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}

async function get(path) {
  const answer = await fetch(path, { cache: "no-store" });
  return { status: answer.status, body: await answer.json() };
}

// parts: [{ name, value, color, text }], drawn in proportion to `total`
function bar(where, legend, parts, total, label) {
  where.replaceChildren();
  legend.replaceChildren();
  for (const p of parts) {
    if (!p.value)
      continue;
    const piece = element("span", { title: `${p.name}: ${p.text}` });
    piece.style.background = `var(--${p.color})`;
    piece.style.width = `${100 * p.value / (total || 1)}%`;
    where.append(piece);
    const item = element("li", {}, `${p.name} `, element("b", {}, p.text));
    item.style.setProperty("--swatch", `var(--${p.color})`);
    legend.append(item);
  }
  where.setAttribute("aria-label", label);
}

function pill(where, text, kind) {
  where.textContent = text;
  where.className = `pill ${kind}`;
}

// ---- the server ----

function ledger(where, legend, m, of) {
  const parts = CLASSES.map((name, i) => ({
    name, color: `c${i}`, value: m.by_class[name], text: bytes(m.by_class[name]),
  }));
  const text = `${bytes(m.charged)} of ${bytes(m.budget)}, peak ${bytes(m.peak)}`;
  bar(where, legend, parts, m.budget, `Memory${of}: ${text}`);
  return text;
}

function deviceRow(d) {
  const where = element("div", { class: "bar", role: "img" });
  const legend = element("ul", { class: "legend" });
  const text = ledger(where, legend, d.memory, ` of ${d.label}`);
  const head = element("div", { class: "row" },
    element("strong", {}, d.label),
    element("span", { class: "quiet" }, `${d.name} · ${d.lanes} lanes · ${text}`));
  if (d.lost)
    head.append(element("span", { class: "pill bad", title: d.reason }, "lost"));
  return element("div", {}, head, where, legend);
}

async function showStatus() {
  const [{ body: s }, ready] = await Promise.all([get("/v1/status"), get("/readyz")]);
  $("memory-text").textContent = ledger($("memory-bar"), $("memory-legend"), s.memory, "");
  $("devices").replaceChildren(...s.devices.map(deviceRow));
  $("tagline").textContent =
    `${s.version} · ${s.threads} threads · ${s.http.requests} requests · ` +
    `${s.queue.waiting_for_memory} waiting for memory`;
  pill($("ready"), ready.body.ready ? "ready" : ready.body.reason,
    ready.body.ready ? "good" : "wait");
}

const STATE_KIND = { READY: "good", FAILED: "bad" };

function modelCard(model) {
  const best = model.versions.filter((v) => v.state === "READY").pop() ||
    model.versions[model.versions.length - 1];
  const state = element("span", { class: `pill ${STATE_KIND[best.state] || "wait"}` },
    best.state.toLowerCase());
  const head = element("div", { class: "row" },
    element("strong", {}, model.id),
    element("span", { class: "quiet" }, best.version ? `version ${best.version}` : ""),
    state);
  const card = element("button", {
    type: "button", class: "model", "aria-pressed": String(model.id === selected),
  }, head);
  if (best.reason)
    card.append(element("p", { class: "reason" }, best.reason));
  if (best.static_bytes !== undefined)
    card.append(element("p", { class: "quiet" }, `${bytes(best.static_bytes)} static`));
  card.addEventListener("click", () => select(model.id));
  return card;
}

let lastModels = "";

async function showModels() {
  const { body } = await get("/v1/models");
  const key = JSON.stringify([body, selected]);
  if (key === lastModels)
    return; // keeps the focus where it is
  lastModels = key;
  $("models").replaceChildren(...body.models.map(modelCard));
  if (!body.models.length)
    $("models").append(element("p", { class: "quiet" }, "The repository is empty."));
  if (!selected) {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const ready = body.models.filter((m) => m.versions.some((v) => v.state === "READY"));
    const first = ready.find((m) => m.id === wanted) || ready[0];
    if (first)
      await select(first.id);
  }
}

async function refresh() {
  try {
    await showStatus();
    await showModels();
  } catch (e) {
    pill($("ready"), "no answer", "bad");
  }
  setTimeout(refresh, REFRESH_MS);
}

// ---- one model ----

function pathOf(id, tail = "") {
  return `/v1/models/${encodeURIComponent(id)}${tail}`;
}

function ioRows(what, list) {
  return list.map((io, i) => {
    const shape = io.shape
      ? `[${io.shape.map((d, k) => d < 0 ? io.dimensions[k] || "?" : d).join(", ")}]`
      : "any shape";
    return element("tr", {},
      element("td", {}, i ? "" : what),
      element("td", {}, element("code", {}, io.name)),
      element("td", {}, io.datatype + (io.optional ? ", optional" : "")),
      element("td", {}, shape));
  });
}

async function showMemory(id) {
  const { status, body } = await get(pathOf(id, "/memory?values=false"));
  if (status !== 200)
    return;
  const plan = body.plans[0];
  if (!plan) {
    bar($("plan-bar"), $("plan-legend"), [], 1, "no plan yet");
    $("plan-text").textContent = "No request has been planned yet.";
    return;
  }
  const kinds = [["arena", "c1", plan.arena_bytes], ["inputs", "c2", plan.input_bytes],
    ["outputs", "c3", plan.output_bytes], ["side", "c4", plan.side_bytes]];
  const total = kinds.reduce((sum, k) => sum + k[2], 0);
  const scale = Math.max(total, plan.no_reuse_bytes);
  bar($("plan-bar"), $("plan-legend"),
    kinds.map(([name, color, value]) => ({ name, color, value, text: bytes(value) })),
    scale, `one request takes ${bytes(total)}`);
  const ratio = plan.lower_bound ? (plan.arena_bytes / plan.lower_bound).toFixed(3) : "1";
  $("plan-text").textContent =
    `${bytes(total)} for inputs of ${JSON.stringify(plan.input_shapes)}: the arena is ` +
    `${ratio} of its lower bound and would be ${bytes(plan.no_reuse_bytes)} without ` +
    `reuse. ${plan.launches} launch${plan.launches === 1 ? "" : "es"}; ${plan.more_requests_fit.toLocaleString("en")} ` +
    `more such requests fit the budget now.`;
}

async function select(id) {
  selected = id;
  lastModels = "";
  history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  const [{ status, body }] = await Promise.all([get(pathOf(id)), showModels()]);
  $("try").hidden = false;
  $("answer").hidden = true;
  $("try-title").textContent = id;
  pill($("try-state"), body.ready ? `version ${body.version}` : "not ready",
    body.ready ? "good" : "bad");
  $("form").hidden = status !== 200;
  $("try-doc").textContent = body.file?.doc || body.error || "";
  $("try-io").replaceChildren(...ioRows("inputs", body.inputs || []),
    ...ioRows("outputs", body.outputs || []));
  if (status !== 200)
    return;
  await showMemory(id);
  const answer = await get(pathOf(id, "/example"));
  example = answer.status === 200 ? answer.body : null;
  resetBody();
}

function compact(request) {
  const text = JSON.stringify(request);
  return text.length > 4000 ? text : JSON.stringify(request, null, 1)
    .replace(/\n\s*(?=[-\d."\]])/g, " ").replace(/\[ /g, "[").replace(/ \]/g, "]");
}

function resetBody() {
  $("body").value = example ? compact(example.request) : "";
  drawInput();
}

// ---- pictures ----

function flatten(data, out = []) {
  for (const x of data) {
    if (Array.isArray(x))
      flatten(x, out);
    else
      out.push(x);
  }
  return out;
}

function nestedShape(data) {
  const shape = [];
  for (let d = data; Array.isArray(d); d = d[0])
    shape.push(d.length);
  return shape;
}

// An input whose last two sizes look like a small picture.
function drawInput() {
  const canvas = $("picture");
  canvas.hidden = true;
  let request;
  try {
    request = JSON.parse($("body").value);
  } catch {
    return;
  }
  const inputs = request.inputs;
  let data, shape;
  if (Array.isArray(inputs) && inputs[0] && inputs[0].data) {
    data = flatten([inputs[0].data]);
    shape = inputs[0].shape;
  } else if (inputs) {
    const first = Array.isArray(inputs) ? inputs : Object.values(inputs)[0];
    if (!Array.isArray(first))
      return;
    data = flatten(first);
    shape = nestedShape(first);
  }
  if (!shape || shape.length < 2)
    return;
  const [h, w] = shape.slice(-2);
  if (h < 8 || w < 8 || h > 256 || w > 256 || data.length < h * w)
    return;
  const pixels = data.slice(0, h * w).map(Number);
  const low = Math.min(...pixels), high = Math.max(...pixels);
  canvas.width = w;
  canvas.height = h;
  const context = canvas.getContext("2d");
  const image = context.createImageData(w, h);
  pixels.forEach((v, i) => {
    const level = high > low ? 255 * (v - low) / (high - low) : 0;
    image.data.set([level, level, level, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
  canvas.hidden = false;
}

function chart(output) {
  const values = flatten([output.data]).map(Number);
  if (values.length < 2 || values.length > 64 || values.some((v) => !Number.isFinite(v)))
    return null;
  const best = values.indexOf(Math.max(...values));
  const low = Math.min(0, ...values), high = Math.max(...values);
  const rows = values.map((v, i) => {
    const fill = element("span");
    fill.style.width = `${high > low ? 100 * (v - low) / (high - low) : 0}%`;
    return element("div", { class: i === best ? "best" : "" },
      element("span", { class: "index" }, String(i)), element("i", {}, fill),
      element("span", { class: "value" }, Number(v.toPrecision(4)).toString()));
  });
  return element("div", { class: "chart" }, ...rows);
}

function showOutputs(body) {
  const where = $("outputs");
  where.replaceChildren();
  for (const output of body.outputs || []) {
    where.append(element("h3", {}, element("code", {}, output.name),
      ` ${output.datatype} [${output.shape.join(", ")}]`));
    const picture = chart(output);
    const values = flatten([output.data]);
    if (picture)
      where.append(picture);
    else
      where.append(element("p", {}, values.slice(0, 16).join(", ") +
        (values.length > 16 ? `, … (${values.length} values)` : "")));
  }
}

// ---- sending ----

function showTiming(header, wall) {
  const phases = [...(header || "").matchAll(/(\w+);dur=([\d.]+)/g)]
    .map((m, i) => ({ name: m[1], value: Number(m[2]), color: `c${i + 1}`,
      text: `${m[2]} ms` }));
  const total = phases.reduce((sum, p) => sum + p.value, 0);
  bar($("timing"), $("timing-legend"), phases, total, "time in the server");
  $("answer-time").textContent = `${wall.toFixed(1)} ms in all, ` +
    `${total.toFixed(2)} ms in the server`;
}

async function send(verb) {
  const buttons = document.querySelectorAll("#form button");
  buttons.forEach((b) => { b.disabled = true; });
  const start = performance.now();
  try {
    const answer = await fetch(pathOf(selected, verb),
      { method: "POST", body: $("body").value });
    const text = await answer.text();
    const wall = performance.now() - start;
    $("answer").hidden = false;
    pill($("answer-status"), `${answer.status}`, answer.ok ? "good" : "bad");
    showTiming(answer.headers.get("Server-Timing"), wall);
    $("answer-text").textContent =
      text.length > 100000 ? `${text.slice(0, 100000)} …` : text;
    const body = JSON.parse(text);
    if (verb === ":infer" && answer.ok)
      showOutputs(body);
    else
      $("outputs").replaceChildren(element("p", { class: answer.ok ? "" : "reason" },
        answer.ok ? `valid: ${bytes(body.bytes.total)} of memory` : body.error));
  } catch (e) {
    $("answer").hidden = false;
    pill($("answer-status"), "failed", "bad");
    $("answer-text").textContent = String(e);
  }
  buttons.forEach((b) => { b.disabled = false; });
  await showMemory(selected);
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send(":infer");
});
$("validate").addEventListener("click", () => send(":validate"));
$("reset").addEventListener("click", resetBody);
$("body").addEventListener("input", drawInput);
$("copy").addEventListener("click", async () => {
  const line = example?.curl || "";
  try {
    await navigator.clipboard.writeText(line);
    $("copy").textContent = "Copied";
  } catch {
    $("answer").hidden = false;
    $("answer-text").textContent = line;
  }
  setTimeout(() => { $("copy").textContent = "Copy curl"; }, 1500);
});

refresh();

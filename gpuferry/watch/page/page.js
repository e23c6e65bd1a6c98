"use strict";
// Texts of servers only ever become text nodes.
const LOOK_MS = 2000;
const CHART_MS = 15000;
const GIB = 2 ** 30;
const CHARTS = {
  utilization: { title: "Used", scale: 100, unit: "%", top: 100 },
  memory_used_bytes: { title: "Memory", scale: 1 / GIB, unit: "GiB" },
  power_watts: { title: "Power", scale: 1, unit: "W" },
  temperature_celsius: { title: "Temperature", scale: 1, unit: "°C" },
};
const STATUS = { fail: "critical", refused: "critical", not_measured: "warning", pass: "pass" };
const names = new Map(); // GPU's UUID to what people call it

const at = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

const known = (value, text) => (value === null || value === undefined ? "?" : text(value));

function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (hours < 1) return `${minutes} min`;
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function part(value, whole, scale, unit, digits) {
  return known(value, (v) => {
    const text = (v * scale).toFixed(digits);
    return whole ? `${text} of ${(whole * scale).toFixed(0)} ${unit}` : `${text} ${unit}`;
  });
}

function serverCard(server) {
  const used = server.memory_bytes === null ? null
    : server.memory_bytes - server.memory_available_bytes;
  const disks = server.disks.map((disk) => {
    const share = 1 - disk.free_bytes / disk.size_bytes;
    const meter = element("meter", { min: 0, max: 1, high: 0.9, optimum: 0, value: share,
      "aria-label": `${disk.mount} used` });
    return element("p", { class: "disk" }, meter,
      `${disk.mount} ${(disk.free_bytes / GIB).toFixed(0)} of ${(disk.size_bytes / GIB).toFixed(0)} GiB free`);
  });
  return element("div", { class: server.trouble ? "card trouble" : "card" },
    element("h3", {}, server.name),
    server.trouble ? element("p", { class: "why" }, server.trouble) : null,
    server.load === null ? null : element("p", {}, `load ${server.load.toFixed(1)} of ${server.cpus}`),
    used === null ? null : element("p", {}, `memory ${part(used, server.memory_bytes, 1 / GIB, "GiB", 1)}`),
    ...disks,
    server.reboot_needed ? element("p", { class: "warning" }, "reboot needed") : null);
}

function gpuRow(server, gpu) {
  const meter = gpu.utilization === null ? null
    : element("meter", { min: 0, max: 1, value: gpu.utilization, "aria-label": "used" });
  const state = gpu.state + (gpu.cause ? ` (${gpu.cause})` : "")
    + gpu.beside.map((name) => `, ${name}`).join("");
  return element("tr", {},
    element("td", {}, server), element("td", { class: "number" }, String(gpu.index)),
    element("td", {}, gpu.name.replace(/^NVIDIA /, "")),
    element("td", { class: "number" }, meter, known(gpu.utilization, (v) => `${Math.round(v * 100)} %`)),
    element("td", { class: "number" }, part(gpu.memory_used_bytes, gpu.memory_total_bytes, 1 / GIB, "GiB", 1)),
    element("td", { class: "number" }, part(gpu.power_watts, gpu.power_limit_watts, 1, "W", 0)),
    element("td", { class: "number" }, known(gpu.temperature_celsius, (v) => `${Math.round(v)} °C`)),
    element("td", { class: gpu.severity }, `${state}, ${duration(gpu.for_seconds)}`),
    element("td", {}, gpu.jobs.join(", ") || "none"));
}

const heads = (...titles) =>
  element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));

function box(kind, severity, title, text, next) {
  return element("div", { class: `${kind} ${severity}` }, element("strong", {}, title), text,
    next ? ` Next: ${next}` : null);
}

function showNow(now) {
  at("stack").textContent = now.stack;
  at("servers").replaceChildren(...now.servers.map(serverCard));
  const rows = now.servers.flatMap((s) => s.gpus.map((gpu) => [s.name, gpu]));
  at("gpus").replaceChildren(...(rows.length === 0 ? [] : [
    heads("server", "GPU", "model", "used", "memory", "power", "temperature", "state", "jobs"),
    ...rows.map(([server, gpu]) => gpuRow(server, gpu))]));
  at("findings").replaceChildren(...rows.filter(([, gpu]) => gpu.severity !== "info").map(
    ([server, gpu]) => box("finding", gpu.severity, `${server} GPU ${gpu.index}: ${gpu.state}`,
      gpu.evidence, gpu.next_step)));
  const alerts = now.servers.flatMap((s) => s.alerts ?? []);
  const watched = now.servers.some((s) => s.alerts !== null);
  const silent = now.servers.filter((s) => s.at === null).map((s) => s.name).join(", ");
  at("alerts").replaceChildren(...(alerts.length > 0
    ? alerts.map((a) => box("alert", a.severity, `${a.name} ${a.server}`, a.summary, a.next_step))
    : [element("p", { class: "note" }, watched ? "No alert fires."
      : silent ? `Alerts are not known while ${silent} is silent.`
        : "Alerts are not watched: none of these servers runs the monitoring role.")]));
  showChecks(now.checks);
}

function showChecks(checks) {
  const words = { fail: 0, refused: 1, not_measured: 2, pass: 3 };
  const rows = [...checks.verdicts].sort((a, b) => words[a.status] - words[b.status]);
  const counts = Object.keys(words).map((word) =>
    [word, rows.filter((row) => row.status === word).length]).filter(([, count]) => count > 0);
  const age = checks.age_seconds === null ? "" : `${duration(checks.age_seconds)} ago: `;
  at("checked").textContent = checks.trouble
    || age + (counts.map(([word, count]) => `${count} ${word.replace("_", " ")}`).join(", ")
      || "being made for the first time");
  const shown = rows.filter((row) => words[row.status] < (at("all").checked ? 4 : 2));
  at("checks").replaceChildren(...(shown.length === 0 ? [] : [
    heads("server", "check", "status", "measured", "next step"),
    ...shown.map((row) => element("tr", {},
      element("td", {}, row.server), element("td", {}, row.id),
      element("td", { class: STATUS[row.status] }, row.status.replace("_", " ")),
      element("td", {}, row.measured), element("td", {}, row.status === "pass" ? "" : row.next_step)))]));
}

// A line ends where nothing was known.
function withGaps(points, longest) {
  return points.flatMap((point, i) =>
    i > 0 && point[0] - points[i - 1][0] > longest ? [[point[0], null], point] : [point]);
}

function showCharts(history) {
  const longest = Math.max(60, (history.end - history.start) / 100);
  at("source").textContent = history.source;
  for (const [uuid, name] of Object.entries(history.names)) names.set(uuid, name);
  for (const [reading, look] of Object.entries(CHARTS)) {
    const all = Object.entries(history.points[reading] ?? {});
    const lines = all.map(([uuid, seen]) => [uuid, withGaps(seen, longest)]).map(([uuid, points]) => ({
      name: names.get(uuid) ?? uuid, mode: "lines", line: { width: 1.5 },
      x: points.map(([time]) => new Date(time * 1000)), y: points.map(([, v]) => (v === null ? null : v * look.scale)) }));
    lines.sort((a, b) => a.name.localeCompare(b.name));
    Plotly.react(at(reading), lines, {
      title: { text: `${look.title} (${look.unit})`, font: { size: 14 }, x: 0.02 },
      margin: { l: 48, r: 12, t: 36, b: 32 }, showlegend: lines.length > 1,
      legend: { orientation: "h", y: -0.15, font: { size: 11 } },
      xaxis: { type: "date", tickformat: "%H:%M", range: [new Date(history.start * 1000), new Date(history.end * 1000)] },
      yaxis: { rangemode: "tozero", ...(look.top ? { range: [0, look.top * 1.02] } : {}) },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    }, { displayModeBar: false, responsive: true });
  }
}

async function ask(name) {
  const answer = await fetch(name, { cache: "no-store" });
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  return answer.json();
}

async function repeat(work, pause) {
  for (;;) {
    try {
      await work();
    } catch (error) {
      at("fresh").textContent = `./ferry dashboard does not answer any more (${error.message}); what you see is old`;
      at("fresh").className = "stale";
    }
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function look() {
  showNow(await ask("now"));
  at("fresh").textContent = `as of ${new Date().toLocaleTimeString()}`;
  at("fresh").className = "";
}

async function chart() {
  showCharts(await ask(`history?hours=${at("hours").value}`));
}

at("all").addEventListener("change", () => look().catch(() => {}));
at("hours").addEventListener("change", () => chart().catch(() => {}));
look().catch(() => {}).then(() => {
  repeat(look, LOOK_MS);
  repeat(chart, CHART_MS);
});

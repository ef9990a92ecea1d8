"use strict";
// The page of a recorded run. All texts of the run are shown with textContent, so nothing in them is ever markup.

(function () {
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);

// --- The data: flat arrays in the order of time ---------------------------------------------------------------------

function bytes(text) {
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}
const ints = (text) => new Int32Array(bytes(text));
const floats = (text) => new Float32Array(bytes(text));
const doubles = (text) => new Float64Array(bytes(text));

const N = data.nodes.length;
const homeX = floats(data.x), homeY = floats(data.y), moves = floats(data.moves);
const sent = {}, changes = {}, delivered = {};
for (const name of ["node", "to", "class", "kind", "why", "number", "bytes", "about", "reached", "starts", "heard"])
  sent[name] = ints(data.sent[name]);
sent.t = doubles(data.sent.t);
sent.took = floats(data.sent.took);
for (const name of ["kind", "node", "what"]) changes[name] = ints(data.changes[name]);
changes.t = doubles(data.changes.t);
delivered.t = doubles(data.delivered.t);
delivered.node = ints(data.delivered.node);
delivered.event = ints(data.delivered.event);
const S = sent.t.length, C = changes.t.length, D = delivered.t.length;
const [UP, DOWN, ROLE, MOVE, LINK, UNLINK, TIES, HOLD, DROP] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

// How many of a sorted array are at most this.
function upto(array, value, end = array.length) {
  let low = 0, high = end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

// For each class its transmissions, so that a counter is found by halving.
const classes = data.classes.map(([name, count, size, every]) => ({
  name, count, size, every, family: name.split(".")[0], shown: true, index: [], sums: null,
}));
for (let i = 0; i < S; i++) classes[sent.class[i]].index.push(i);
for (const one of classes) {
  one.t = Float64Array.from(one.index, (i) => sent.t[i]);
  let sum = 0;
  one.sums = Float64Array.from(one.index, (i) => (sum += sent.bytes[i]));
}

// --- Film time: bursts of milliseconds in a day of silence would not be seen, so long pauses are shortened -----------

const END = Math.max(data.end, S ? sent.t[S - 1] : 0, C ? changes.t[C - 1] : 0);

function knotsOf() {
  const times = new Float64Array(2 * S + 2 + D);
  let n = 0;
  times[n++] = 0;
  times[n++] = END;
  for (let i = 0; i < S; i++) {
    times[n++] = sent.t[i];
    if (sent.took[i] > 0) times[n++] = Math.min(END, sent.t[i] + sent.took[i]);
  }
  for (let i = 0; i < D; i++) times[n++] = delivered.t[i];
  const sorted = times.subarray(0, n).sort();
  let kept = 1;
  for (let i = 1; i < n; i++) if (sorted[i] > sorted[kept - 1]) sorted[kept++] = sorted[i];
  return sorted.slice(0, kept);
}
const knots = knotsOf();

function filmOf(even) {
  const film = new Float64Array(knots.length);
  const gaps = Array.from(knots.subarray(1), (t, i) => t - knots[i]).sort((a, b) => a - b);
  const usual = gaps.length ? 3 * gaps[gaps.length >> 1] : 1;
  for (let i = 1; i < knots.length; i++) {
    const gap = knots[i] - knots[i - 1];
    film[i] = film[i - 1] + (even || gap <= usual ? gap : usual * (1 + Math.log(gap / usual)));
  }
  return film;
}
let film = filmOf(false);

function along(from, onto, value) {
  const i = Math.max(1, Math.min(from.length - 1, upto(from, value)));
  if (from.length < 2) return onto[0];
  const span = from[i] - from[i - 1];
  const share = span > 0 ? Math.max(0, Math.min(1, (value - from[i - 1]) / span)) : 0;
  return onto[i - 1] + share * (onto[i] - onto[i - 1]);
}
const toFilm = (t) => along(knots, film, t);
const toTime = (f) => along(film, knots, f);
const filmEnd = () => film[film.length - 1] || 1;
// At speed 1 the whole run takes between 10 seconds and 4 minutes.
const rate = () => filmEnd() / Math.max(10, Math.min(240, knots.length / 10));

// --- The state at a time: changes are applied one after another, and from the beginning to go back -------------------

const state = { t: -1, next: 0, version: 0 };
const alive = new Uint8Array(N), gone = new Uint8Array(N), role = new Int32Array(N), x = new Float32Array(N), y = new Float32Array(N);
let links, ties, holders;

// The moves of each node, so that it can be drawn on its way between two of them.
const tracks = new Map();
for (let i = 0; i < C; i++) {
  if (changes.kind[i] !== MOVE) continue;
  const node = changes.node[i];
  if (!tracks.has(node)) tracks.set(node, { t: [0], x: [homeX[node]], y: [homeY[node]] });
  const track = tracks.get(node), k = changes.what[i];
  track.t.push(changes.t[i]);
  track.x.push(moves[2 * k]);
  track.y.push(moves[2 * k + 1]);
}

function reset() {
  state.next = 0;
  alive.fill(0);
  gone.fill(0);
  role.fill(0);
  x.set(homeX);
  y.set(homeY);
  links = new Map();
  ties = new Map();
  holders = new Map();
}
reset();

function change(i) {
  const node = changes.node[i], what = changes.what[i];
  switch (changes.kind[i]) {
    case UP: alive[node] = 1; gone[node] = 0; break;
    case DOWN: alive[node] = 0; gone[node] = 1; break;
    case ROLE: role[node] = what; break;
    case LINK: links.set(node * N + what, [node, what]); break;
    case UNLINK: links.delete(node * N + what); break;
    case TIES: ties.set(node, data.lists[what]); break;
    case HOLD: {
      const [subscription, ...to] = data.lists[what];
      if (!holders.has(subscription)) holders.set(subscription, new Map());
      holders.get(subscription).set(node, to);
      break;
    }
    case DROP: if (holders.has(what)) holders.get(what).delete(node); break;
  }
}

function moveTo(t) {
  if (t < state.t) reset();
  const end = upto(changes.t, t);
  if (end !== state.next || t < state.t) state.version++;
  for (; state.next < end; state.next++) change(state.next);
  for (const [node, track] of tracks) {
    const i = upto(track.t, t), j = Math.min(i, track.t.length - 1), h = Math.max(0, i - 1);
    const span = track.t[j] - track.t[h], share = span > 0 ? (t - track.t[h]) / span : 0;
    x[node] = track.x[h] + share * (track.x[j] - track.x[h]);
    y[node] = track.y[h] + share * (track.y[j] - track.y[h]);
  }
  if (tracks.size) state.version++;
  state.t = t;
}

// --- Colours (Okabe and Ito's, which people tell apart who see few colours), dashes and shapes -----------------------

const COLOURS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b5548f", "#b8860b", "#3a9bdc", "#6b4fa0"],
  dark: ["#56b4e9", "#ff8c42", "#2fd0a0", "#e79bc6", "#f0e442", "#9db7ff", "#c3a6ff"],
};
const OTHER = { light: "#7a828c", dark: "#8b949e" };
const DASHES = [[], [7, 3], [2, 3], [8, 3, 2, 3]];
const SHAPES = ["ring", "disc", "square", "triangle", "diamond", "star"];

const families = [...new Set(classes.map((one) => one.family))];
const weight = (family) => classes.reduce((sum, one) => sum + (one.family === family ? one.count : 0), 0);
const ranked = [...families].sort((a, b) => weight(b) - weight(a));
for (const one of classes) {
  one.colour = ranked.indexOf(one.family);
  const same = classes.filter((other) => other.colour === one.colour || (one.colour > 6 && families.length > 7));
  one.dash = one.colour < 7 ? DASHES[same.filter((o) => o.family === one.family).indexOf(one) % DASHES.length]
                            : DASHES[one.colour % DASHES.length];
}

let theme = "light", ink = "#000", soft = "#888", line = "#ccc", paper = "#fff", plane = "#fff", accent = "#00f";
const colourOf = (one) => COLOURS[theme][one.colour] || OTHER[theme];

function setTheme(name) {
  theme = name;
  document.documentElement.dataset.theme = name;
  const style = getComputedStyle(document.documentElement);
  [ink, soft, line, paper, plane, accent] =
    ["--ink", "--soft", "--line", "--paper", "--plane", "--accent"].map((one) => style.getPropertyValue(one).trim());
  fillCounters();
  fillLegend();
  drawDensity();
  state.version++;
  draw();
}

// The role that most nodes have at the end is the plainest: the eye should go to the others.
const lastRole = new Int32Array(N);
for (let i = 0; i < C; i++) if (changes.kind[i] === ROLE && changes.what[i]) lastRole[changes.node[i]] = changes.what[i];
const roleCounts = data.roles.map((_, k) => lastRole.reduce((sum, one) => sum + (one === k ? 1 : 0), 0));
const usedRoles = data.roles.map((_, k) => k).filter((k) => k && (roleCounts[k] || usedEver(k)));
usedRoles.sort((a, b) => roleCounts[b] - roleCounts[a]);
function usedEver(k) {
  for (let i = 0; i < C; i++) if (changes.kind[i] === ROLE && changes.what[i] === k) return true;
  return false;
}
const rankOf = new Int32Array(data.roles.length);
usedRoles.forEach((k, rank) => { rankOf[k] = Math.min(rank, SHAPES.length - 1); });

// Adds a node to the path: many of them are filled at once.
function shape(g, kind, cx, cy, r) {
  switch (kind) {
    case "square": g.rect(cx - r, cy - r, 2 * r, 2 * r); break;
    case "triangle":
      g.moveTo(cx, cy - 1.25 * r); g.lineTo(cx + 1.15 * r, cy + 0.85 * r); g.lineTo(cx - 1.15 * r, cy + 0.85 * r);
      g.closePath(); break;
    case "diamond":
      g.moveTo(cx, cy - 1.35 * r); g.lineTo(cx + 1.35 * r, cy); g.lineTo(cx, cy + 1.35 * r); g.lineTo(cx - 1.35 * r, cy);
      g.closePath(); break;
    case "star":
      for (let i = 0; i < 10; i++) {
        const a = -Math.PI / 2 + (i * Math.PI) / 5, d = i % 2 ? 0.6 * r : 1.45 * r;
        g[i ? "lineTo" : "moveTo"](cx + d * Math.cos(a), cy + d * Math.sin(a));
      }
      g.closePath(); break;
    default: g.moveTo(cx + r, cy); g.arc(cx, cy, r, 0, 7);
  }
}

// --- The view: from the plane to the screen --------------------------------------------------------------------------

const canvas = by("canvas"), g = canvas.getContext("2d");
const base = document.createElement("canvas"), b = base.getContext("2d");
let width = 1, height = 1, ratio = 1;
let fitScale = 1, zoom = 1, panX = 0, panY = 0;

const bounds = (() => {
  let lowX = Infinity, lowY = Infinity, highX = -Infinity, highY = -Infinity;
  const see = (px, py) => {
    lowX = Math.min(lowX, px); highX = Math.max(highX, px); lowY = Math.min(lowY, py); highY = Math.max(highY, py);
  };
  for (let i = 0; i < N; i++) see(homeX[i], homeY[i]);
  for (let i = 0; i < moves.length; i += 2) see(moves[i], moves[i + 1]);
  if (!N) see(0, 0);
  return { x: (lowX + highX) / 2, y: (lowY + highY) / 2, w: Math.max(highX - lowX, 1e-6), h: Math.max(highY - lowY, 1e-6) };
})();

// Layouts have no sides of their own, so they are stretched to the window; places on a plane are not.
let stretchX = 1, stretchY = 1;
function resize() {
  const box = by("plane").getBoundingClientRect();
  width = Math.max(1, box.width); height = Math.max(1, box.height); ratio = window.devicePixelRatio || 1;
  for (const one of [canvas, base]) { one.width = Math.round(width * ratio); one.height = Math.round(height * ratio); }
  const roomX = Math.max(20, width - 64), roomY = Math.max(20, height - 76);
  stretchX = roomX / bounds.w; stretchY = roomY / bounds.h;
  fitScale = Math.min(stretchX, stretchY);
  if (data.placed) { stretchX = stretchY = fitScale; } else {
    stretchX = Math.min(stretchX, 2 * fitScale); stretchY = Math.min(stretchY, 2 * fitScale);
  }
  drawDensity();
  state.version++;
  draw();
}
const screenX = (px) => width / 2 + panX + (px - bounds.x) * stretchX * zoom;
const screenY = (py) => height / 2 + 10 + panY + (py - bounds.y) * stretchY * zoom;
const nodeSize = () => Math.max(1.6, Math.min(7, 0.22 * Math.sqrt((width * height) / Math.max(1, N)))) * Math.min(2, Math.sqrt(zoom));

// --- What is chosen --------------------------------------------------------------------------------------------------

const chosen = { subscription: -1, publication: -1, node: -1, hover: -1 };
let now = 0, playing = false, showLines = true, showNames = N <= 60;

// What is sent about a publication or a subscription, found when it is first asked for.
const stories = new Map();
function storyOf(about) {
  if (!stories.has(about)) {
    const found = [];
    for (let i = 0; i < S; i++) if (sent.about[i] === about) found.push(i);
    stories.set(about, found);
  }
  return stories.get(about);
}

// On a radio, who is in range of whom; asked for only while nodes stay where they are and are not too many.
let rangePairs = null;
function neighbours() {
  if (rangePairs || !data.placed || tracks.size) return rangePairs || [];
  rangePairs = [];
  const cells = new Map(), range = data.range, cell = (v) => Math.floor(v / range);
  for (let i = 0; i < N; i++) {
    const key = cell(homeX[i]) + "," + cell(homeY[i]);
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(i);
  }
  for (let i = 0; i < N; i++)
    for (let dx = -1; dx <= 1; dx++)
      for (let dy = -1; dy <= 1; dy++)
        for (const j of cells.get(cell(homeX[i]) + dx + "," + (cell(homeY[i]) + dy)) || [])
          if (i < j && Math.hypot(homeX[i] - homeX[j], homeY[i] - homeY[j]) <= range) rangePairs.push([i, j]);
  return rangePairs;
}

// --- Drawing ---------------------------------------------------------------------------------------------------------

let drawnVersion = -1;

function drawBase() {
  drawnVersion = state.version;
  b.setTransform(ratio, 0, 0, ratio, 0, 0);
  b.clearRect(0, 0, width, height);
  const r = nodeSize(), held = chosen.subscription >= 0 ? holders.get(chosen.subscription) || new Map() : null;
  if (showLines) {
    const pairs = data.placed ? neighbours() : links.values();
    b.strokeStyle = line;
    b.globalAlpha = data.placed ? Math.min(1, 1200 / (neighbours().length + 1)) : Math.min(1, 9000 / (links.size + 1));
    b.lineWidth = 1;
    b.beginPath();
    for (const [i, j] of pairs) {
      if (!alive[i] || !alive[j]) continue;
      b.moveTo(screenX(x[i]), screenY(y[i]));
      b.lineTo(screenX(x[j]), screenY(y[j]));
    }
    b.stroke();
    b.globalAlpha = 0.65;
    b.strokeStyle = soft;
    b.beginPath();
    for (const [i, to] of ties)
      for (const j of to) {
        if (!alive[i] || !alive[j]) continue;
        b.moveTo(screenX(x[i]), screenY(y[i]));
        b.lineTo(screenX(x[j]), screenY(y[j]));
      }
    b.stroke();
    b.globalAlpha = 1;
  }
  if (held) {
    for (const [i, to] of held) for (const j of to) arrow(b, i, j, accent, 2.2, r);
  }
  for (let rank = -1; rank < SHAPES.length; rank++) {
    for (const faint of held ? [true, false] : [false]) {
      b.globalAlpha = faint ? 0.3 : 1;
      b.beginPath();
      for (let i = 0; i < N; i++) {
        if (!alive[i] || (role[i] ? rankOf[role[i]] : -1) !== rank || (held && held.has(i) === faint)) continue;
        const px = screenX(x[i]), py = screenY(y[i]);
        if (px > -20 && py > -20 && px < width + 20 && py < height + 20) traceNode(b, rank, px, py, r);
      }
      paintNodes(b, rank);
    }
  }
  b.globalAlpha = 0.5;
  b.strokeStyle = soft;
  b.lineWidth = 1.2;
  b.beginPath();
  for (let i = 0; i < N; i++) if (gone[i]) cross(b, screenX(x[i]), screenY(y[i]), 0.6 * r);
  b.stroke();
  b.globalAlpha = 1;
  if (held) {
    b.strokeStyle = accent;
    b.lineWidth = 2.5;
    b.beginPath();
    for (const i of held.keys()) if (alive[i]) shape(b, "ring", screenX(x[i]), screenY(y[i]), r + 3.5);
    b.stroke();
  }
  if (held) {
    const owner = data.subscriptions[chosen.subscription][2];
    if (owner >= 0 && alive[owner]) mark(b, owner, r + 7, accent);
  }
  if (showNames) {
    b.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    b.fillStyle = soft;
    b.textAlign = "left";
    for (let i = 0; i < N; i++) if (alive[i]) b.fillText(data.nodes[i], screenX(x[i]) + r + 3, screenY(y[i]) - r - 1);
  }
}

function cross(g2, px, py, d) {
  g2.moveTo(px - d, py - d);
  g2.lineTo(px + d, py + d);
  g2.moveTo(px - d, py + d);
  g2.lineTo(px + d, py - d);
}
const traceNode = (g2, rank, px, py, r) => shape(g2, SHAPES[Math.max(0, rank)], px, py, rank <= 0 ? 0.75 * r : r);
function paintNodes(g2, rank) {
  g2.fillStyle = rank <= 0 ? plane : ink;
  g2.fill();
  g2.lineWidth = 1.2;
  g2.strokeStyle = rank <= 0 ? soft : plane;
  g2.stroke();
}

function mark(g2, node, r, colour) {
  g2.strokeStyle = colour;
  g2.lineWidth = 1.5;
  g2.beginPath();
  g2.arc(screenX(x[node]), screenY(y[node]), r, 0, 7);
  g2.stroke();
}

// ``aside`` keeps an arrow to the right of the line between two nodes, so that there and back are both seen.
function arrow(g2, i, j, colour, wide, r, aside = 0) {
  let ax = screenX(x[i]), ay = screenY(y[i]), bx = screenX(x[j]), by2 = screenY(y[j]);
  const length = Math.hypot(bx - ax, by2 - ay);
  if (length < 1) return;
  const sx = (-aside * (by2 - ay)) / length, sy = (aside * (bx - ax)) / length;
  ax += sx; bx += sx; ay += sy; by2 += sy;
  const ux = (bx - ax) / length, uy = (by2 - ay) / length, ex = bx - ux * (r + 4), ey = by2 - uy * (r + 4), h = 3 + 1.8 * wide;
  g2.strokeStyle = g2.fillStyle = colour;
  g2.lineWidth = wide;
  g2.beginPath();
  g2.moveTo(ax + ux * r, ay + uy * r);
  g2.lineTo(ex, ey);
  g2.stroke();
  g2.beginPath();
  g2.moveTo(ex + ux * 2, ey + uy * 2);
  g2.lineTo(ex - ux * h - uy * h * 0.6, ey - uy * h + ux * h * 0.6);
  g2.lineTo(ex - ux * h + uy * h * 0.6, ey - uy * h - ux * h * 0.6);
  g2.fill();
}

const MOST_DRAWN = 3000;

function draw() {
  moveTo(now);
  if (drawnVersion !== state.version) drawBase();
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, canvas.width, canvas.height);
  g.drawImage(base, 0, 0);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  const r = nodeSize();
  drawRange();
  drawRoute(r);
  drawTransmissions(r);
  for (const node of [chosen.node, chosen.hover]) if (node >= 0 && alive[node]) mark(g, node, r + 3, ink);
  showTexts();
}

function drawRange() {
  for (const node of new Set([chosen.node, chosen.hover])) {
    if (node < 0 || !alive[node]) continue;
    if (data.placed) {
      g.fillStyle = accent;
      g.globalAlpha = 0.1;
      g.beginPath();
      g.arc(screenX(x[node]), screenY(y[node]), data.range * stretchX * zoom, 0, 7);
      g.fill();
      g.globalAlpha = 0.6;
      g.strokeStyle = accent;
      g.lineWidth = 1;
      g.stroke();
      g.globalAlpha = 1;
    }
  }
}

// The transmissions of the last moments: those under way, and those that have just arrived.
function drawTransmissions(r) {
  const at = toFilm(now), tail = 0.7 * rate(), from = toTime(Math.max(0, at - tail));
  const end = upto(sent.t, now);
  let begin = upto(sent.t, from - 1e-12);
  while (begin > 0 && begin > end - MOST_DRAWN && sent.t[begin - 1] + Math.max(0, sent.took[begin - 1]) >= from) begin--;
  if (end - begin > MOST_DRAWN) begin = end - MOST_DRAWN;
  for (let i = begin; i < end; i++) {
    const one = classes[sent.class[i]];
    if (!one.shown) continue;
    const took = sent.took[i], arrival = took >= 0 ? sent.t[i] + took : sent.t[i];
    const age = (at - toFilm(Math.min(arrival, END))) / tail;
    if (age > 1) continue;
    const fade = Math.max(0, Math.min(1, 1 - Math.max(0, age)));
    const under = took > 0 ? Math.min(1, (now - sent.t[i]) / took) : 1;
    drawOne(i, one, fade, under, r);
  }
  g.globalAlpha = 1;
  g.setLineDash([]);
  for (let i = upto(delivered.t, from - 1e-12), last = upto(delivered.t, now); i < last; i++) {
    const age = (at - toFilm(delivered.t[i])) / tail;
    g.globalAlpha = Math.max(0, 1 - age);
    mark(g, delivered.node[i], r + 2 + 9 * age, ink);
  }
  g.globalAlpha = 1;
}

function drawOne(i, one, fade, under, r) {
  const a = sent.node[i], to = sent.to[i], ax = screenX(x[a]), ay = screenY(y[a]);
  const about = sent.about[i];
  const other = (chosen.publication >= 0 && about !== chosen.publication) ||
    (chosen.subscription >= 0 && chosen.publication < 0 && data.subscriptions[chosen.subscription][2] >= 0 && about !== -2 - chosen.subscription);
  g.globalAlpha = (other ? 0.12 : 0.9) * fade;
  g.strokeStyle = g.fillStyle = colourOf(one);
  g.lineWidth = 1.8;
  g.setLineDash(one.dash);
  if (to < 0) {
    if (chosen.publication >= 0 && !playing) return;  // its route shows them, and who heard them would hide it
    if (data.placed) {
      g.beginPath();
      g.arc(ax, ay, Math.max(0.1, data.range * stretchX * zoom * (0.25 + 0.75 * (1 - fade * fade))), 0, 7);
      g.globalAlpha *= 0.55;
      g.stroke();
      g.globalAlpha *= 0.9;
    }
    g.setLineDash([]);
    g.lineWidth = 1;
    const some = sent.starts[i + 1] - sent.starts[i];
    g.beginPath();
    for (let k = sent.starts[i]; k < sent.starts[i + 1]; k++) {
      const h = sent.heard[k], px = screenX(x[h]), py = screenY(y[h]);
      if (some <= 14) { g.moveTo(ax, ay); g.lineTo(px, py); }
      g.moveTo(px + r + 1, py);
      g.arc(px, py, r + 1, 0, 7);
    }
    g.stroke();
    g.globalAlpha = (other ? 0.2 : 1) * fade;
    g.beginPath();
    g.arc(ax, ay, r + 2.5, 0, 7);
    g.fill();
    return;
  }
  const bx = screenX(x[to]), by2 = screenY(y[to]);
  if (sent.took[i] < 0) {
    const mx = (ax + bx) / 2, my = (ay + by2) / 2;
    g.beginPath();
    g.moveTo(ax, ay); g.lineTo(mx, my);
    g.stroke();
    g.setLineDash([]);
    g.beginPath();
    cross(g, mx, my, 4);
    g.stroke();
    return;
  }
  g.beginPath();
  g.moveTo(ax, ay);
  g.lineTo(bx, by2);
  g.stroke();
  g.setLineDash([]);
  g.beginPath();
  g.arc(ax + (bx - ax) * under, ay + (by2 - ay) * under, 3.2, 0, 7);
  g.fill();
}

// All that was sent so far about the chosen publication: a ring for who sent to all, an arrow for what went to one.
function drawRoute(r) {
  if (chosen.publication < 0) return;
  const story = storyOf(chosen.publication), told = story.slice(0, upto(story.map((i) => sent.t[i]), now));
  g.globalAlpha = 0.5;
  g.lineWidth = 1.6;
  for (const one of classes.filter((each) => each.shown)) {
    g.setLineDash(one.dash);
    g.strokeStyle = colourOf(one);
    g.beginPath();
    for (const i of told)
      if (sent.to[i] < 0 && classes[sent.class[i]] === one) shape(g, "ring", screenX(x[sent.node[i]]), screenY(y[sent.node[i]]), r + 2);
    g.stroke();
  }
  for (const i of told) {
    const one = classes[sent.class[i]];
    if (!one.shown || sent.to[i] < 0) continue;
    g.setLineDash(one.dash);
    g.globalAlpha = sent.took[i] < 0 ? 0.35 : 0.95;
    arrow(g, sent.node[i], sent.to[i], colourOf(one), sent.took[i] < 0 ? 1 : 2.2, r, 2);
  }
  g.setLineDash([]);
  g.globalAlpha = 1;
  const publisher = data.publications[chosen.publication][2];
  if (publisher >= 0 && now >= data.publications[chosen.publication][3]) {
    mark(g, publisher, r + 4, ink);
    mark(g, publisher, r + 7, ink);
  }
  for (let i = 0; i < D && delivered.t[i] <= now; i++)
    if (delivered.event[i] === chosen.publication) {
      const px = screenX(x[delivered.node[i]]), py = screenY(y[delivered.node[i]]);
      g.fillStyle = ink;
      g.beginPath();
      g.arc(px, py, r + 2.5, 0, 7);
      g.fill();
      g.strokeStyle = plane;
      g.lineWidth = 1.8;
      g.beginPath();
      g.moveTo(px - r * 0.7, py);
      g.lineTo(px - r * 0.1, py + r * 0.6);
      g.lineTo(px + r * 0.9, py - r * 0.6);
      g.stroke();
    }
}

// Where in time much was sent.
function drawDensity() {
  const strip = by("density"), box = strip.getBoundingClientRect();
  strip.width = Math.max(1, Math.round(box.width * ratio));
  strip.height = Math.max(1, Math.round(box.height * ratio));
  const d = strip.getContext("2d"), n = Math.max(10, Math.min(240, Math.floor(box.width / 3)));
  const counts = families.map(() => new Float64Array(n));
  for (let i = 0; i < S; i++) {
    const one = classes[sent.class[i]];
    const place = Math.min(n - 1, Math.floor((toFilm(sent.t[i]) / filmEnd()) * n));
    counts[families.indexOf(one.family)][place] += one.every;
  }
  let most = 1;
  for (let k = 0; k < n; k++) most = Math.max(most, counts.reduce((sum, one) => sum + one[k], 0));
  d.clearRect(0, 0, strip.width, strip.height);
  const w = strip.width / n;
  for (let k = 0; k < n; k++) {
    let top = strip.height;
    families.forEach((family, f) => {
      const h = (counts[f][k] / most) * strip.height;
      d.fillStyle = COLOURS[theme][ranked.indexOf(family)] || OTHER[theme];
      d.fillRect(k * w, top - h, Math.max(1, w - ratio), h);
      top -= h;
    });
  }
}

// --- Texts and counters ----------------------------------------------------------------------------------------------

const number = (value) => Math.round(value).toLocaleString("en");
function timeText(t) {
  const digits = END > 1000 ? 3 : END > 10 ? 3 : 5;
  const text = Number.isInteger(t) ? number(t) : t.toFixed(digits).replace(/\B(?=(\d{3})+(?=\.))/g, ",");
  return data.unit ? `${text} ${data.unit}` : `t = ${text}`;
}
function sizeText(value) {
  if (!value) return "–";
  if (value < 10000) return number(value);
  return value < 1e6 ? `${(value / 1000).toFixed(0)} k` : `${(value / 1e6).toFixed(1)} M`;
}
function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function swatch(one) {
  const made = document.createElement("canvas");
  made.width = 26 * ratio; made.height = 12 * ratio;
  made.style.width = "26px"; made.style.height = "12px";
  const s = made.getContext("2d");
  s.scale(ratio, ratio);
  s.strokeStyle = colourOf(one);
  s.lineWidth = 3;
  s.setLineDash(one.dash);
  s.beginPath(); s.moveTo(1, 6); s.lineTo(25, 6); s.stroke();
  return made;
}

function fillCounters() {
  const body = by("counters").tBodies[0], foot = by("counters").tFoot;
  body.replaceChildren();
  foot.replaceChildren();
  for (const one of classes) {
    const row = element("tr"), cell = element("td"), button = element("button");
    row.dataset.class = one.name;
    row.className = one.shown ? "" : "off";
    button.type = "button";
    button.setAttribute("aria-pressed", String(one.shown));
    button.title = "show or hide " + one.name;
    button.append(swatch(one), element("span", one.name));
    cell.append(button);
    one.sentCell = element("td", "0", "sent");
    one.bytesCell = element("td", "–", "bytes");
    row.append(cell, one.sentCell, element("td", number(one.count), "of"), one.bytesCell);
    row.addEventListener("click", () => {
      one.shown = !one.shown;
      row.className = one.shown ? "" : "off";
      button.setAttribute("aria-pressed", String(one.shown));
      draw();
    });
    body.append(row);
  }
  const row = element("tr");
  totals.sent = element("td", "0", "sent");
  totals.bytes = element("td", "–", "bytes");
  row.dataset.class = "all";
  row.append(element("td", "all"), totals.sent, element("td", number(classes.reduce((n, c) => n + c.count, 0)), "of"), totals.bytes);
  foot.append(row);
  textVersion.key = "";
}
const totals = { sent: null, bytes: null };
const textVersion = { key: "", state: -1 };

// Of a class that was thinned the numbers are still those of all; at the end the counters are the run's.
function countAt(one, t) {
  if (t >= END) return [one.count, one.size];
  const n = upto(one.t, t);
  if (!n) return [0, 0];
  const counted = sent.number[one.index[n - 1]];
  return [counted, one.every === 1 ? one.sums[n - 1] : (one.size * counted) / one.count];
}

function showTexts() {
  by("clock").textContent = timeText(now);
  const key = `${now}|${chosen.subscription}|${chosen.publication}|${chosen.node}|${state.version}`;
  if (key === textVersion.key) return;
  textVersion.key = key;
  let all = 0, size = 0;
  for (const one of classes) {
    const [n, bytes2] = countAt(one, now);
    one.sentCell.textContent = number(n);
    one.bytesCell.textContent = sizeText(bytes2);
    all += n;
    size += bytes2;
  }
  totals.sent.textContent = number(all);
  totals.bytes.textContent = sizeText(size);
  const given = now >= END ? data.deliveries : upto(delivered.t, now);
  const asked = publicationTimes.length ? upto(publicationTimes, now) : 0;
  let up = 0;
  for (let i = 0; i < N; i++) up += alive[i];
  by("facts").textContent = `${number(up)} of ${number(N)} nodes up · ${number(asked)} published · ${number(given)} delivered`;
  by("facts").dataset.delivered = String(given);
  countLegend();
  showChosen();
}
const publicationTimes = Float64Array.from(data.publications.filter((one) => one[3] !== null), (one) => one[3]).sort();

function fillLegend() {
  const list = by("legend");
  list.replaceChildren();
  for (const k of usedRoles) {
    const item = element("li"), made = document.createElement("canvas");
    made.width = 18 * ratio; made.height = 18 * ratio;
    made.style.width = made.style.height = "18px";
    const s = made.getContext("2d");
    s.scale(ratio, ratio);
    s.beginPath();
    traceNode(s, rankOf[k], 9, 9, 5.5);
    paintNodes(s, rankOf[k]);
    const count = element("span", "", "count");
    count.dataset.role = String(k);
    item.append(made, element("span", data.roles[k]), count);
    list.append(item);
  }
  const say = [["a delivery: a ring that grows", "ring"]];
  if (changes.kind.includes(DOWN)) say.unshift(["down", "cross"]);
  if (chosen.publication >= 0 || data.publications.length) say.push(["has the chosen publication: a tick", "tick"]);
  if (data.subscriptions.length) say.push([data.placed ? "holds the chosen subscription: a coloured ring" : "on the way to the chosen subscriber: a coloured ring", "held"]);
  for (const [text, kind] of say) {
    const item = element("li"), made = document.createElement("canvas");
    made.width = 18 * ratio; made.height = 18 * ratio;
    made.style.width = made.style.height = "18px";
    const s = made.getContext("2d");
    s.scale(ratio, ratio);
    s.strokeStyle = kind === "held" ? accent : ink;
    s.fillStyle = ink;
    s.lineWidth = kind === "held" ? 2.5 : 1.5;
    s.beginPath();
    if (kind === "cross") cross(s, 9, 9, 3.5); else s.arc(9, 9, 6, 0, 7);
    if (kind === "tick") {
      s.fill();
      s.strokeStyle = plane;
      s.beginPath(); s.moveTo(6, 9); s.lineTo(8.3, 11.5); s.lineTo(12.3, 6.5);
    }
    s.stroke();
    item.append(made, element("span", text));
    list.append(item);
  }
}
function countLegend() {
  const counts = new Int32Array(data.roles.length);
  for (let i = 0; i < N; i++) if (alive[i]) counts[role[i]]++;
  for (const span of by("legend").querySelectorAll(".count")) span.textContent = number(counts[Number(span.dataset.role)]);
}

function showChosen() {
  const sub = chosen.subscription, pub = chosen.publication;
  let text = "";
  if (sub >= 0) {
    const held = holders.get(sub), [name, filter, owner] = data.subscriptions[sub];
    text = `${filter || name}${owner >= 0 ? `\nof node ${data.nodes[owner]}` : ""}\nheld by ${number(held ? held.size : 0)} of ${number(N)} nodes now`;
  }
  by("subscription-text").textContent = text;
  text = "";
  if (pub >= 0) {
    const [, content, node, t] = data.publications[pub];
    let got = 0;
    for (let i = 0; i < D && delivered.t[i] <= now; i++) got += delivered.event[i] === pub ? 1 : 0;
    const story = storyOf(pub), n = story.filter((i) => sent.t[i] <= now).length;
    text = `${content}\npublished by ${data.nodes[node] ?? "?"} at ${timeText(t)}\n${number(n)} transmissions, ${number(got)} deliveries up to now`;
  }
  by("publication-text").textContent = text;
  by("node-text").textContent = chosen.node >= 0 ? nodeText(chosen.node) : "";
  for (const item of by("story").children) item.className = Number(item.dataset.t) > now ? "later" : "";
}

function nodeText(node) {
  const held = [];
  for (const [sub, nodes] of holders) if (nodes.has(node)) held.push(data.subscriptions[sub][0]);
  const lines = [`node ${data.nodes[node]}: ${alive[node] ? data.roles[role[node]] || "up" : "down"}`];
  if (held.length) lines.push(`holds ${held.slice(0, 6).join(", ")}${held.length > 6 ? ` and ${held.length - 6} more` : ""}`);
  const to = ties.get(node);
  if (to && to.length) lines.push(`tied to ${to.slice(0, 6).map((one) => data.nodes[one]).join(", ")}`);
  return lines.join("\n");
}

const MOST_TOLD = 300;
function fillStory() {
  const list = by("story"), pub = chosen.publication;
  list.replaceChildren();
  by("story-part").hidden = pub < 0;
  if (pub < 0) return;
  const lines = storyOf(pub).map((i) => [sent.t[i], tell(i), classes[sent.class[i]]]);
  for (let i = 0; i < D; i++)
    if (delivered.event[i] === pub) lines.push([delivered.t[i], `${data.nodes[delivered.node[i]]} delivers it`, null]);
  lines.sort((p, q) => p[0] - q[0]);
  for (const [t, text, one] of lines.slice(0, MOST_TOLD)) {
    const item = element("li", `${timeText(t)} ${text}`);
    item.dataset.t = String(t);
    item.style.borderLeftColor = one ? colourOf(one) : ink;
    list.append(item);
  }
  if (lines.length > MOST_TOLD) list.append(element("li", `… and ${number(lines.length - MOST_TOLD)} more`));
}
function tell(i) {
  const to = sent.to[i] < 0 ? `to all near (${number(sent.reached[i])} heard it)` : `to ${data.nodes[sent.to[i]]}${sent.took[i] < 0 ? ", lost" : ""}`;
  const why = data.sent.whys[sent.why[i]];
  return `${data.nodes[sent.node[i]]}: ${data.sent.kinds[sent.kind[i]]} ${to}${why ? `: ${why}` : ""}`;
}

// --- Controls --------------------------------------------------------------------------------------------------------

const slider = by("slider"), play = by("play");

function go(t, keepSlider) {
  now = Math.max(0, Math.min(END, t));
  if (!keepSlider) slider.value = String(Math.round((toFilm(now) / filmEnd()) * 10000));
  slider.setAttribute("aria-valuetext", timeText(now));
  draw();
}

let last = 0;
function frame(stamp) {
  if (!playing) return;
  const passed = Math.min(0.1, (stamp - last) / 1000);
  last = stamp;
  const at = toFilm(now) + passed * rate() * Number(by("speed").value);
  go(at >= filmEnd() ? END : toTime(at));
  if (now >= END) setPlaying(false); else requestAnimationFrame(frame);
}
function setPlaying(yes) {
  playing = yes;
  by("icon").setAttribute("d", yes ? "M4 2h3v12H4zM9 2h3v12H9z" : "M4 2v12l9-6z");
  play.setAttribute("aria-label", yes ? "Pause" : "Play");
  if (!yes) {
    canvas.setAttribute("aria-label", `The network at ${timeText(now)}: ${by("facts").textContent}`);
    return;
  }
  if (now >= END) go(0);
  last = performance.now();
  requestAnimationFrame(frame);
}
function step(forth) {
  setPlaying(false);
  if (forth) {
    const i = upto(sent.t, now);
    go(i < S ? sent.t[i] : END);
  } else {
    let i = upto(sent.t, now) - 1;
    while (i >= 0 && sent.t[i] >= now) i--;
    go(i >= 0 ? sent.t[i] : 0);
  }
}
function faster(up) {
  const speeds = by("speed");
  speeds.selectedIndex = Math.max(0, Math.min(speeds.options.length - 1, speeds.selectedIndex + (up ? 1 : -1)));
}

play.addEventListener("click", () => setPlaying(!playing));
by("back").addEventListener("click", () => step(false));
by("forth").addEventListener("click", () => step(true));
slider.addEventListener("input", () => {
  const share = Number(slider.value) / 10000;
  go(share >= 1 ? END : toTime(share * filmEnd()), true);
});
by("theme").addEventListener("click", () => { setTheme(theme === "dark" ? "light" : "dark"); fillStory(); });
by("even").addEventListener("change", () => { film = filmOf(by("even").checked); drawDensity(); go(now); });
by("lines").addEventListener("change", () => { showLines = by("lines").checked; state.version++; draw(); });
by("names").addEventListener("change", () => { showNames = by("names").checked; state.version++; draw(); });

document.addEventListener("keydown", (event) => {
  const tag = event.target.tagName;
  if (event.ctrlKey || event.metaKey || event.altKey || tag === "SELECT" || (tag === "INPUT" && event.target.type === "text")) return;
  const acts = {
    " ": () => setPlaying(!playing), ArrowRight: () => step(true), ArrowLeft: () => step(false),
    Home: () => go(0), End: () => go(END), "+": () => faster(true), "-": () => faster(false),
  };
  if (event.key === " " && tag === "BUTTON") return;
  if (!acts[event.key]) return;
  event.preventDefault();
  acts[event.key]();
});

function fillChoice(id, things, pick) {
  const select = by(id);
  select.append(element("option", "–"));
  select.options[0].value = "-1";
  things.forEach(([name, text], k) => {
    const label = text && text !== name ? `${name}: ${text}` : name;
    const option = element("option", label.length > 70 ? label.slice(0, 69) + "…" : label);
    option.value = String(k);
    select.append(option);
  });
  select.disabled = !things.length;
  select.addEventListener("change", () => pick(Number(select.value)));
}
function chooseSubscription(k, stay) {
  chosen.subscription = k;
  by("subscription").value = String(k);
  if (k >= 0 && !stay && !(holders.get(k) && holders.get(k).size)) {
    const story = storyOf(-2 - k), t = data.subscriptions[k][3];
    if (story.length) go(sent.t[story[story.length - 1]]); else if (t !== null) go(t);
  }
  state.version++;
  draw();
}
// A publication is shown where its story ends: then the whole route is there.
function choosePublication(k, stay) {
  chosen.publication = k;
  by("publication").value = String(k);
  fillStory();
  if (k >= 0 && !stay) {
    let t = data.publications[k][3] ?? 0;
    for (const i of storyOf(k)) t = Math.max(t, Math.min(END, sent.t[i] + Math.max(0, sent.took[i])));
    for (let i = 0; i < D; i++) if (delivered.event[i] === k) t = Math.max(t, delivered.t[i]);
    go(t);
  }
  draw();
}
function chooseNode(k) {
  chosen.node = k;
  by("node").value = k >= 0 ? data.nodes[k] : "";
  draw();
}
const nodeNumbers = new Map(data.nodes.map((name, k) => [name, k]));
by("node").addEventListener("input", () => {
  chosen.node = nodeNumbers.get(by("node").value.trim()) ?? -1;
  draw();
});

// Pointers: one drags or points, two zoom.
const pointers = new Map();
let dragged = false, span = 0;
function nearest(px, py) {
  let best = -1, distance = 14;
  for (let i = 0; i < N; i++) {
    if (!alive[i]) continue;
    const d = Math.hypot(screenX(x[i]) - px, screenY(y[i]) - py);
    if (d < distance) { distance = d; best = i; }
  }
  return best;
}
function zoomAt(px, py, factor) {
  const next = Math.max(0.5, Math.min(60, zoom * factor)), f = next / zoom;
  panX = px - width / 2 - (px - width / 2 - panX) * f;
  panY = py - height / 2 - 10 - (py - height / 2 - 10 - panY) * f;
  zoom = next;
  state.version++;
  draw();
}
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  dragged = false;
  span = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId), here = [event.offsetX, event.offsetY];
  if (!before) { hover(here); return; }
  pointers.set(event.pointerId, here);
  if (pointers.size === 2) {
    const [p, q] = [...pointers.values()], wide = Math.hypot(p[0] - q[0], p[1] - q[1]);
    if (span) zoomAt((p[0] + q[0]) / 2, (p[1] + q[1]) / 2, wide / span);
    span = wide;
    dragged = true;
  } else if (dragged || Math.hypot(here[0] - before[0], here[1] - before[1]) > 2) {
    dragged = true;
    panX += here[0] - before[0];
    panY += here[1] - before[1];
    state.version++;
    draw();
  }
});
function release(event) {
  if (pointers.delete(event.pointerId) && !dragged && event.type === "pointerup") chooseNode(nearest(event.offsetX, event.offsetY));
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => { chosen.hover = -1; by("tip").hidden = true; draw(); });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * 0.0015));
}, { passive: false });
canvas.addEventListener("dblclick", (event) => zoomAt(event.offsetX, event.offsetY, 2));
by("zoom-in").addEventListener("click", () => zoomAt(width / 2, height / 2, 1.5));
by("zoom-out").addEventListener("click", () => zoomAt(width / 2, height / 2, 1 / 1.5));
by("zoom-all").addEventListener("click", () => { zoom = 1; panX = panY = 0; state.version++; draw(); });
function hover([px, py]) {
  const node = nearest(px, py), tip = by("tip");
  tip.hidden = node < 0;
  if (node >= 0) {
    tip.textContent = nodeText(node);
    tip.style.left = `${Math.min(px + 14, width - 180)}px`;
    tip.style.top = `${Math.min(py + 14, height - 60)}px`;
  }
  if (node !== chosen.hover) { chosen.hover = node; draw(); }
}

// --- The beginning ---------------------------------------------------------------------------------------------------

// What the address asks for after the #, as in #t=end&publication=e3&theme=dark.
function fromAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const find = (things, name) => things.findIndex((one) => one[0] === name);
  if (wanted.has("theme")) setTheme(wanted.get("theme") === "dark" ? "dark" : "light");
  if (wanted.has("subscription")) chooseSubscription(find(data.subscriptions, wanted.get("subscription")), wanted.has("t"));
  if (wanted.has("publication")) choosePublication(find(data.publications, wanted.get("publication")), wanted.has("t"));
  if (wanted.has("node")) chooseNode(nodeNumbers.get(wanted.get("node")) ?? -1);
  if (wanted.has("t")) go(wanted.get("t") === "end" ? END : Number(wanted.get("t")) || 0);
  if (wanted.has("play")) setPlaying(true);
}

by("title").textContent = data.title;
by("summary").textContent = [
  data.protocol, data.configuration && data.configuration !== "base" ? data.configuration : "", `run ${data.run}`,
  `${number(N)} nodes`, `${number(classes.reduce((n, c) => n + c.count, 0))} transmissions`, timeText(END).replace("t = ", "") + (data.unit ? "" : " time units"),
].filter(Boolean).join(" · ");
for (const note of data.notes) by("notes").append(element("li", note));
by("notes-part").hidden = !data.notes.length;
showLines = data.placed ? !tracks.size && neighbours().length <= 8 * N : true;
by("lines").checked = showLines;
by("names").checked = showNames;
fillChoice("subscription", data.subscriptions, (k) => chooseSubscription(k));
fillChoice("publication", data.publications, (k) => choosePublication(k));
const dark = window.matchMedia("(prefers-color-scheme: dark)");
setTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
window.addEventListener("resize", resize);
window.addEventListener("hashchange", fromAddress);
resize();
go(0);
fromAddress();
document.documentElement.dataset.ready = "yes";
})();

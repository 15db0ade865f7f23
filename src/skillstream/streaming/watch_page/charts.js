// Charts in SVG: lines, bands, areas and marks over samples, to be read with a pointer or the arrow keys.

const NAMESPACE = "http://www.w3.org/2000/svg";
const TOP = 16, BOTTOM = 40, RIGHT = 10, LETTER = 8; // pixels

export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Round numbers from low to high, about `wanted` of them.
export function ticks(low, high, wanted, least = 0) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = Math.max([1, 2, 5, 10].find((by) => span / (by * power) <= wanted) * power, least);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span && found.length < 50; i++) {
    found.push(Number((i * step).toPrecision(12)));
  }
  return found;
}

// The least and greatest of the numbers that are known, apart from each other.
export function range(columns, margin = 0.06) {
  let low = Infinity, high = -Infinity;
  for (const column of columns) {
    for (const value of column) {
      if (value === null) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  const apart = high - low || Math.abs(high) * 0.1 || 1;
  return [low - margin * apart, high + margin * apart];
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}

// A path through points, broken where a value is not known.
function line(xs, ys, x, y) {
  let path = "", drawing = false;
  xs.forEach((at, i) => {
    if (ys[i] === null) drawing = false;
    else {
      path += `${drawing ? "L" : "M"}${x(at).toFixed(1)} ${y(ys[i]).toFixed(1)}`;
      drawing = true;
    }
  });
  return path;
}

// The area between two curves; in cells, each value holds until the next position.
function area(xs, below, above, x, y, cells) {
  const there = [], back = [];
  xs.forEach((at, i) => {
    const ends = cells ? [at, at + 1] : [at];
    for (const end of ends) {
      there.push(`${x(end).toFixed(1)} ${y(above[i]).toFixed(1)}`);
      back.push(`${x(end).toFixed(1)} ${y(below[i]).toFixed(1)}`);
    }
  });
  return there.length ? `M${there.join("L")}L${back.reverse().join("L")}Z` : "";
}

// A figure that shows a model: {label, height, xs, cells, xTitle, xFormat, low, high, yTicks, yFormat, layers,
// marks, starts, read}. Layers are {line: ys, kind}, {band: [lows, highs]} or {stack: columns, colours}; `read`
// gives what to say at a position: [{name, value, kind or colour}].
export class Plot {
  constructor(figure) {
    this.readout = figure.querySelector(".readout");
    this.area = figure.querySelector(".plot");
    this.model = null;
    this.cursor = null; // a position on the x axis
    this.area.addEventListener("pointermove", (event) => this.point(event));
    this.area.addEventListener("pointerdown", (event) => this.point(event));
    this.area.addEventListener("pointerleave", () => this.move(null));
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("blur", () => this.move(null));
    new ResizeObserver(() => this.draw()).observe(this.area);
  }

  show(model) {
    this.model = model;
    this.draw();
  }

  point(event) {
    if (!this.model?.xs.length) return;
    const at = event.clientX - this.area.getBoundingClientRect().left;
    this.move(this.xValue(at) - (this.model.cells ? 0.5 : 0));
  }

  key(event) {
    const xs = this.model?.xs ?? [];
    if (!xs.length) return;
    const now = this.cursor === null ? xs.length - 1 : nearest(xs, this.cursor);
    const far = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: now - far, ArrowRight: now + far, Home: 0, End: xs.length - 1 }[event.key];
    if (event.key === "Escape") this.move(null);
    if (to === undefined) return;
    event.preventDefault();
    this.readout.setAttribute("aria-live", "polite");
    this.move(xs[Math.min(Math.max(to, 0), xs.length - 1)]);
  }

  move(cursor) {
    if (cursor === null) this.readout.removeAttribute("aria-live");
    this.cursor = cursor;
    this.tell();
  }

  draw() {
    const { model, area: host } = this;
    const width = host.clientWidth;
    if (!model || width < 60) return;
    this.scale(width);
    const { x, y } = this;
    const svg = shape("svg", {
      width, height: model.height, viewBox: `0 0 ${width} ${model.height}`, "aria-hidden": "true", focusable: "false",
    });
    svg.append(...this.axes(width));
    for (const layer of model.layers) svg.append(...this.layer(layer));
    svg.append(...this.starts(), ...this.marks());
    this.line = shape("line", { class: "cursor", y1: TOP, y2: model.height - BOTTOM, visibility: "hidden" });
    svg.append(this.line);
    host.replaceChildren(svg);
    host.setAttribute("role", "img");
    host.setAttribute("tabindex", "0");
    host.setAttribute("aria-label", model.label);
    this.tell();
  }

  // How data become pixels: the labels on the left decide how much room is left.
  scale(width) {
    const { model } = this;
    const labels = model.yTicks.map((tick) => model.yFormat(tick).length);
    this.left = Math.ceil(Math.max(2, ...labels) * LETTER + 10);
    const last = model.xs.length ? model.xs[model.xs.length - 1] + (model.cells ? 1 : 0) : 1;
    let first = model.xs.length ? model.xs[0] : 0;
    if (!(last > first)) first = last - 1;
    this.first = first;
    this.last = last;
    const room = width - this.left - RIGHT;
    const tall = model.height - TOP - BOTTOM;
    const keep = (value) => Math.min(Math.max(value, model.low), model.high);
    this.x = (value) => this.left + (room * (value - first)) / (last - first);
    this.xValue = (at) => first + ((at - this.left) / room) * (last - first);
    this.y = (value) => TOP + (tall * (model.high - keep(value))) / (model.high - model.low);
  }

  axes(width) {
    const { model, x, y, left } = this;
    const floor = model.height - BOTTOM, parts = [];
    for (const tick of model.yTicks) {
      parts.push(shape("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
      parts.push(shape("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end" }, model.yFormat(tick)));
    }
    let free = -Infinity;
    for (const tick of ticks(this.first, this.last, Math.max(3, Math.floor((width - left) / 72)), 1)) {
      const words = model.xFormat(tick);
      const half = (words.length * LETTER) / 2;
      const at = Math.min(x(tick), width - half);
      if (at - half < free) continue;
      free = at + half + 8;
      parts.push(shape("line", { class: "tick", x1: x(tick), x2: x(tick), y1: floor, y2: floor + 4 }));
      parts.push(shape("text", { x: at, y: floor + 17, "text-anchor": "middle" }, words));
    }
    parts.push(shape("line", { class: "axis", x1: left, x2: width - RIGHT, y1: floor, y2: floor }));
    const middle = (left + width - RIGHT) / 2;
    parts.push(shape("text", { class: "title", x: middle, y: floor + 34, "text-anchor": "middle" }, model.xTitle));
    return parts;
  }

  layer(layer) {
    const { x, y } = this, { xs, cells } = this.model;
    if (layer.line) {
      const path = shape("path", { class: `curve ${layer.kind}`, d: line(xs, layer.line, x, y) });
      const alone = layer.line.filter((value) => value !== null).length === 1;
      const i = layer.line.findIndex((value) => value !== null);
      return alone ? [shape("circle", { class: `dot ${layer.kind}`, cx: x(xs[i]), cy: y(layer.line[i]), r: 3 })] : [path];
    }
    if (layer.band) {
      const kept = xs.map((_, i) => i).filter((i) => layer.band[0][i] !== null);
      const [low, high] = layer.band.map((column) => kept.map((i) => column[i]));
      return [shape("path", { class: "band", d: area(kept.map((i) => xs[i]), low, high, x, y, false) })];
    }
    let below = xs.map(() => 0);
    return layer.stack.map((column, option) => {
      const above = below.map((floor, i) => Math.min(floor + column[i], 1));
      const path = shape("path", { class: "stack", d: area(xs, below, above, x, y, cells), fill: layer.colours[option] });
      below = above;
      return path;
    });
  }

  starts() {
    const found = (this.model.starts ?? []).filter((at) => at >= this.first && at <= this.last);
    const floor = this.model.height - BOTTOM;
    const room = (this.x(this.last) - this.left) / Math.max(found.length, 1);
    return found.flatMap((at) => {
      const where = this.x(at).toFixed(1);
      const across = shape("line", { class: "start", x1: where, x2: where, y1: TOP, y2: floor });
      const above = shape("line", { class: "begin", x1: where, x2: where, y1: TOP - 8, y2: TOP - 1 });
      return room > 7 ? [across, above] : [above];
    });
  }

  marks() {
    const found = (this.model.marks ?? []).filter((mark) => mark.at >= this.first && mark.at <= this.last);
    let free = -Infinity;
    return found.flatMap((mark) => {
      const at = this.x(mark.at), words = (mark.name.length * LETTER) / 2;
      const parts = [shape("line", { class: `mark ${mark.kind}`, x1: at, x2: at, y1: TOP, y2: this.model.height - BOTTOM })];
      const middle = Math.min(Math.max(at, this.left + words), this.x(this.last) - words + RIGHT);
      if (middle - words > free) {
        parts.push(shape("text", { class: `mark ${mark.kind}`, x: middle, y: TOP - 5, "text-anchor": "middle" }, mark.name));
        free = middle + words + 6;
      }
      return parts;
    });
  }

  // What is under the cursor, or the latest.
  tell() {
    const { model } = this;
    if (!model || !this.line) return;
    const there = model.xs.length > 0;
    const i = this.cursor === null ? model.xs.length - 1 : nearest(model.xs, this.cursor);
    const words = there ? model.read(i) : [];
    const where = document.createElement("span");
    where.textContent = !there ? "nothing yet" : this.cursor === null ? "latest" : `sample ${model.xs[i].toLocaleString("en-GB")}`;
    where.className = "where";
    this.readout.replaceChildren(where, ...words.map(entry));
    const at = there ? this.x(model.xs[i] + (model.cells ? 0.5 : 0)) : 0;
    this.line.setAttribute("x1", at);
    this.line.setAttribute("x2", at);
    this.line.setAttribute("visibility", this.cursor === null || !there ? "hidden" : "visible");
  }
}

function entry({ name, value, kind, colour }) {
  const key = document.createElement("i");
  key.className = kind ? `key ${kind}` : "key";
  if (colour) key.style.setProperty("background", colour);
  const number = document.createElement("b");
  number.textContent = value;
  const made = document.createElement("span");
  made.append(key, `${name} `, number);
  return made;
}

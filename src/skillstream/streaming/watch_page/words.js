// Numbers as words for people. None of these fails, whatever it is given: what is not known is a dash.

const DASH = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);

export function whole(value) {
  return known(value) ? Math.round(value).toLocaleString("en-GB") : DASH;
}

// To so many decimals, with a true minus.
export function decimal(value, digits = 3) {
  return known(value) ? value.toFixed(digits).replace("-", "−") : DASH;
}

export function percent(value) {
  if (!known(value)) return DASH;
  const shown = 100 * value;
  return shown > 0 && shown < 1 ? "<1%" : `${shown.toFixed(0)}%`;
}

export function small(value) {
  if (!known(value)) return DASH;
  if (value === 0 || (value >= 0.01 && value < 1000)) return String(Number(value.toPrecision(2)));
  return value.toExponential(0).replace("e+", "e").replace("-", "−");
}

// With a letter for thousands and more, as on an axis.
export function short(value) {
  if (!known(value)) return DASH;
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [by, letter] = steps.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return `${Number((value / by).toPrecision(4))}${letter}`.replace("-", "−");
}

export function rate(value) {
  return known(value) && value < 10 ? String(Number(value.toPrecision(2))) : whole(value);
}

export function bytes(value) {
  if (!known(value)) return DASH;
  const steps = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const [by, unit] = steps.find(([least]) => value >= least) ?? [1, "B"];
  const shown = value / by;
  return `${shown < 10 && by > 1 ? shown.toFixed(1) : shown.toFixed(0)} ${unit}`;
}

export function duration(seconds) {
  if (!known(seconds)) return DASH;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400).toLocaleString("en-GB")} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function time(seconds) {
  const date = new Date(known(seconds) ? 1000 * seconds : NaN);
  if (Number.isNaN(date.getTime())) return DASH;
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export { DASH, known };

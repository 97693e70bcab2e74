// Ticks along one axis whose numbers count from an anchor in units of 10^exponent.
const origin = source.data.origin[0], unit = origin[2], {start, end} = own, centre = (start + end) / 2;
const length = along ? plot.frame_height : plot.frame_width;
const rough = (end - start) / Math.max(2, Math.min(5, length / 150));
const power = Math.floor(Math.log10(rough) + 1e-9);
const step = [1, 2, 5, 10].map((m) => m * 10 ** power).find((s) => s >= rough * (1 - 1e-9));
const places = -(unit + Math.floor(Math.log10(step) + 1e-9));
const absolute = -unit + 1 <= decimals;
const from = absolute ? 0 : centre;
function ticks() {
  const first = Math.ceil((start - from) / step - 1e-9), last = Math.floor((end - from) / step + 1e-9);
  return Array.from({length: Math.max(0, last - first + 1)}, (_, k) => from + (first + k) * step);
}
function words(tick) {
  if (absolute) return (origin[along] + tick * 10 ** unit).toFixed(Math.max(0, places)).replace(/^-(0(\.0*)?)$/, '$1');
  const offset = Math.round((tick - from) / step) * step;
  if (!offset) return '0';
  const size = Math.floor(Math.log10(Math.abs(offset)) + 1e-9);
  const digits = Number((offset / 10 ** size).toPrecision(4));
  return (digits > 0 ? '+' : '') + digits + 'e' + (size + unit);
}

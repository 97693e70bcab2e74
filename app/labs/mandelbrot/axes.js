// Ticks along one axis whose numbers count from an anchor in units of 10^exponent.
const OVER = 8;  // px that a label may reach beyond its axis
const origin = source.data.origin[0], unit = origin[2], {start, end} = own, centre = (start + end) / 2;
const length = along ? plot.frame_height : plot.frame_width;
const span = end - start, absolute = -unit + 1 <= decimals;
const finest = absolute ? Math.max(0, -unit + 1) : 2;             // decimals that a label may have
const size = parseFloat((along ? plot.left : plot.below)[0].major_label_text_font_size) || 14, letter = 0.62 * size;
const rough = span * (letter * (finest + 5) + 24) / length;       // a step at least as long as its label
const nice = [0.5, 1, 2, 2.5, 5, 10].map((m) => m * 10 ** Math.floor(Math.log10(rough) + 1e-9));
const fits = Math.max(1, nice.findIndex((step) => step >= rough * (1 - 1e-9)));
const step = nice[span / nice[fits] < 2.2 ? fits - 1 : fits];     // and at least two ticks
const leading = Math.floor(Math.log10(step) + 1e-9);
const places = -(unit + leading) + (Math.abs(step / 10 ** leading - 2.5) < 1e-6);
const from = absolute ? 0 : centre;
function ticks() {
  const first = Math.ceil((start - from) / step - 1e-9), last = Math.floor((end - from) / step + 1e-9);
  const all = Array.from({length: Math.max(0, last - first + 1)}, (_, k) => from + (first + k) * step);
  const whole = all.filter((tick) => {                            // a label that is cut, or runs into the other axis'
    const at = (tick - start) / span * length, half = letter * words(tick).length / 2;
    return at - half > -OVER && at + half < length + OVER;
  });
  return whole.length > 1 ? whole : all;
}
function words(tick) {
  if (absolute) return (origin[along] + tick * 10 ** unit).toFixed(Math.max(0, places)).replace(/^-(0(\.0*)?)$/, '$1');
  const offset = Math.round((tick - from) / step) * step;
  if (!offset) return '0';
  const size = Math.floor(Math.log10(Math.abs(offset)) + 1e-9);
  const digits = Number((offset / 10 ** size).toPrecision(4));
  return (digits > 0 ? '+' : '') + digits + 'e' + (size + unit);
}

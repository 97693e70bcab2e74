// Turns a palette, there and back again so that it has no seam; nothing is sent anywhere. Once it stands still it is
// where it began, as a link, a picture that is saved and those who follow have it. While a picture is not finished, its
// last level is that of pixels that are not computed yet, and has a colour of the page.
const PACE = 33;  // ms between two turns at least
let turned = 0, last = null;

function paint({mapper, wheel}) {
  const {colours} = wheel, around = 2 * colours.length;
  const by = Math.round((wheel.offset + turned) * around);
  const palette = colours.map((_, level) => {
    const at = ((level + by) % around + around) % around;
    return colours[at < colours.length ? at : around - 1 - at];
  });
  if (wheel.waits ?? true) palette[palette.length - 1] = wheel.waiting;
  mapper.palette = palette;
}

function turn(args, now) {
  if (!args.wheel.speed) { last = null; return; }
  requestAnimationFrame((then) => turn(args, then));
  if (now - last < PACE) return;
  turned = (turned + args.wheel.speed * (now - last) / 1000) % 1;
  last = now;
  paint(args);
}

export default (args) => {
  const {wheel} = args;
  if (!wheel.speed) turned = 0;
  paint(args);
  if (wheel.speed && last === null) {
    last = performance.now();
    turn(args, last);
  }
};

// A lab in a notebook: paint the frames that compute/lab/notebook.py sends, and confirm each painted frame.
const STYLE = 'display:flex;gap:8px;align-items:center;margin:4px 0;font:14px sans-serif';
const BUTTON = 'padding:2px 10px;border:1px solid #767676;border-radius:4px;background:#f0f0f0;color:#111;font:inherit';

function render({ model, el }) {
  const canvas = document.createElement('canvas'), bar = document.createElement('div'), said = document.createElement('span');
  let colours = null, newest = null, due = false;  // colours: the palette's 255, of level 255, of pending pixels
  canvas.setAttribute('role', 'img');
  canvas.style.cssText = 'width:100%;max-width:640px;image-rendering:pixelated;display:block';
  bar.style.cssText = STYLE;
  const button = (words, message) => {
    const made = document.createElement('button');
    made.textContent = words;
    made.style.cssText = BUTTON;                        // marimo resets the browser's own
    made.disabled = true;                               // until the first frame: a file has no kernel
    made.addEventListener('click', () => model.send(message()));
    bar.append(made);
    return made;
  };
  let playing = false;
  const run = button('Run', () => ({ do: playing ? 'pause' : 'play' }));
  button('Step', () => ({ do: 'step' }));
  button('Reset', () => ({ do: 'reset' }));
  bar.append(said);
  el.append(canvas, bar);
  const hidden = document.createElement('style'), mark = model.get('mark');  // the picture that is for the file alone
  hidden.textContent = `.${mark}, .jp-OutputArea-child:has(.${mark}) { display: none }`;
  document.head.append(hidden);
  const still = new Image();
  still.addEventListener('load', () => {
    if (newest) return;
    canvas.width = still.naturalWidth;
    canvas.height = still.naturalHeight;
    canvas.getContext('2d').drawImage(still, 0, 0);
  });
  still.src = model.get('still');
  canvas.setAttribute('aria-label', model.get('words'));

  const levels = ({ width, height, waiting }, bytes) => {
    const image = new ImageData(width, height), pixels = image.data;
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        const level = bytes[(height - 1 - y) * width + x];                                // row 0 is at the bottom
        const from = 3 * (waiting && level == 254 ? 256 : level), to = 4 * (y * width + x);
        pixels[to] = colours[from];
        pixels[to + 1] = colours[from + 1];
        pixels[to + 2] = colours[from + 2];
        pixels[to + 3] = 255;
      }
    }
    return image;
  };
  const paint = async () => {
    due = false;
    const [frame, bytes] = newest;
    const image = frame.kind == 'levels' ? levels(frame, bytes) : await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    if (canvas.width != frame.width || canvas.height != frame.height) {
      canvas.width = frame.width;
      canvas.height = frame.height;
    }
    if (image instanceof ImageData) canvas.getContext('2d').putImageData(image, 0, 0);
    else canvas.getContext('2d').drawImage(image, 0, 0);
    canvas.setAttribute('aria-label', frame.words);
    for (const each of bar.querySelectorAll('button')) each.disabled = false;
    playing = frame.playing;
    run.textContent = playing ? 'Pause' : 'Run';
    said.textContent = frame.step == null ? '' : `step ${frame.step}`;
    model.send({ painted: frame.frame });
  };
  const heard = (message, buffers) => {
    const [first] = buffers ?? [], bytes = first && new Uint8Array(first.buffer ?? first, first.byteOffset ?? 0, first.byteLength);
    if (message.colours) colours = bytes;
    if (!message.frame || !bytes || message.kind == 'levels' && !colours) return;
    newest = [message, bytes];                          // replaces an older unpainted frame
    if (!due) {
      due = true;
      requestAnimationFrame(paint);
    }
  };
  model.on('msg:custom', heard);
  model.send({ ready: true });
  return () => {
    model.off('msg:custom', heard);
    hidden.remove();
  };
}

export default { render };

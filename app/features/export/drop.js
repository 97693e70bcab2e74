// A file dropped anywhere on the page: of a PNG only the text that says what made it is sent, of a JSON all of it.
const KEY = 'fieldlab', HEAD = 4 * 1024 * 1024, MOST = 1024 * 1024;
const SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];

// The uncompressed iTXt of that key, which stands before the pixels, or its tEXt, which drawings once had; null if
// there is none.
function textOf(bytes) {
  if (SIGNATURE.some((byte, i) => bytes[i] != byte)) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), latin = new TextDecoder('latin1');
  for (let at = 8; at + 12 <= bytes.length;) {
    const length = view.getUint32(at), kind = latin.decode(bytes.subarray(at + 4, at + 8));
    const body = bytes.subarray(at + 8, at + 8 + length);
    if ((kind == 'iTXt' || kind == 'tEXt') && body.length == length) {
      const end = body.indexOf(0);
      if (end > 0 && latin.decode(body.subarray(0, end)) == KEY) {
        if (kind == 'tEXt') return latin.decode(body.subarray(end + 1));
        if (body[end + 1] == 0) {
          const language = body.indexOf(0, end + 3), translated = body.indexOf(0, language + 1);
          return new TextDecoder().decode(body.subarray(translated + 1));
        }
      }
    }
    if (kind == 'IDAT' || kind == 'IEND') return null;
    at += 12 + length;
  }
  return null;
}

async function read(file) {
  if (/\.json$/i.test(file.name)) return file.size > MOST ? null : file.text();
  return textOf(new Uint8Array(await file.slice(0, HEAD).arrayBuffer()));
}

export function render({ model, el }) {
  const files = (event) => [...(event.dataTransfer?.types || [])].includes('Files');
  const field = (event) => event.composedPath().some((node) => node.tagName == 'INPUT');
  let leaving = null;
  const over = (event) => {
    if (!files(event) || field(event)) return;
    event.preventDefault();
    document.documentElement.classList.add('dropping');
    clearTimeout(leaving);
    leaving = setTimeout(() => document.documentElement.classList.remove('dropping'), 200);
  };
  const drop = async (event) => {
    if (!files(event) || field(event)) return;
    event.preventDefault();
    const file = event.dataTransfer.files[0];
    if (!file) return;
    const text = await read(file);
    model.send_msg({ name: file.name.slice(0, 200), text });
  };
  document.addEventListener('dragover', over);
  document.addEventListener('drop', drop);
  model.on('remove', () => {
    document.removeEventListener('dragover', over);
    document.removeEventListener('drop', drop);
  });
  el.style.display = 'none';
  return document.createElement('span');
}

// Puts a file together from its pieces, as they come, and hands it to the browser's downloads.
let file = 0, next = 0, pieces = [];  // of the page, which may draw this more than once while a file is on its way

export function render({ model, el }) {
  const take = () => {
    const piece = model.piece;
    if (!piece || !piece.of) return;
    if (piece.file != file) {
      file = piece.file;
      next = 0;
      pieces = [];
    }
    if (piece.number != next) return;
    next++;
    pieces.push(new Uint8Array(piece.data).slice());
    if (next == piece.of) {
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob(pieces, { type: piece.kind }));
      link.download = piece.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      pieces = [];
    }
    model.send_msg({ file: piece.file, number: piece.number });
  };
  const link = () => {
    const text = model.query && model.query.text;
    if (!text) return;
    const address = location.origin + location.pathname + '?' + text;
    history.replaceState(history.state, '', address);
    const done = (copied) => model.send_msg({ address, copied });
    // only pages of this machine or over https may write to the clipboard
    if (navigator.clipboard) navigator.clipboard.writeText(address).then(() => done(true), () => done(false));
    else done(false);
  };
  model.on('piece', take);
  model.on('query', link);
  take();  // a file may have arrived before the listener
  el.style.display = 'none';
  return document.createElement('span');
}

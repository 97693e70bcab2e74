// A viewer's connection: receive the latest picture and text, confirm each painted picture, and reconnect after a loss.
// app/features/audience/broadcast.py documents the format of messages.
const FINAL = [4404, 4410, 4400];                           // close codes without a retry, see app/features/audience/broadcast.py
const FIRST = 500, LONGEST = 15000;                         // ms, bounds of the delay before a retry
const utf8 = new TextDecoder();

// Callbacks: told({words, lost, final}) after a change of the connection, shown(state), painted(width, height), and
// answered({vote, choice, said}) to a vote.
export function view(address, canvas, { told, shown, painted = () => {}, answered = () => {} }) {
  const pen = canvas.getContext('2d');
  let socket = null, wait = FIRST, timer = null, wanted = false, newest = 0;

  const paint = async (bytes) => {
    const bitmap = await createImageBitmap(new Blob([bytes], { type: bytes[0] == 0x89 ? 'image/png' : 'image/webp' }));
    if (canvas.width != bitmap.width || canvas.height != bitmap.height) {
      Object.assign(canvas, { width: bitmap.width, height: bitmap.height });
      canvas.style.setProperty('--aspect', bitmap.width / bitmap.height);
    }
    pen.drawImage(bitmap, 0, 0);
    bitmap.close();
    painted(canvas.width, canvas.height);
  };

  const take = async (own, data) => {
    const length = new DataView(data).getUint32(0, true);
    const head = JSON.parse(utf8.decode(new Uint8Array(data, 4, length)));
    if (head.answer) {                                      // is not confirmed
      answered(head.answer);
      return;
    }
    if (head.state) shown(head.state);
    const bytes = new Uint8Array(data, 4 + length);
    if (bytes.length) {
      try {
        await paint(bytes);
      } catch (error) {
        console.warn(error);                                // the next picture may be valid
      }
    }
    newest = head.number;
    canvas.dataset.number = newest;
    if (own.readyState == WebSocket.OPEN) own.send(`ok ${newest}`);
  };

  const connect = () => {
    clearTimeout(timer);
    timer = null;
    const own = socket = new WebSocket(address);
    own.binaryType = 'arraybuffer';
    own.onmessage = ({ data }) => {
      wait = FIRST;
      told({ words: '', lost: false, final: false });
      take(own, data);
    };
    own.onclose = ({ code, reason }) => {
      if (own !== socket) return;
      socket = null;
      if (!wanted) return;
      const final = FINAL.includes(code);
      told({ words: reason || 'The connection is lost. It comes back by itself as soon as it can.', lost: true, final });
      if (final) {
        wanted = false;
        return;
      }
      timer = setTimeout(connect, wait * (0.75 + Math.random() / 2));      // spreads the retries of 200 phones
      wait = Math.min(2 * wait, LONGEST);
    };
  };

  const back = () => {                                      // after sleep, or when the network is available again
    if (wanted && timer !== null && !document.hidden) {
      wait = FIRST;
      connect();
    }
  };
  addEventListener('online', back);
  document.addEventListener('visibilitychange', back);

  return {
    get wanted() { return wanted; },
    start() {
      wanted = true;
      wait = FIRST;
      told({ words: 'Connecting …', lost: false, final: false });
      connect();
    },
    stop() {
      wanted = false;
      clearTimeout(timer);
      timer = null;
      socket?.close();
      socket = null;
    },
    send(text) {                                            // returns whether there is a connection
      const open = socket?.readyState == WebSocket.OPEN;
      if (open) socket.send(text);
      return open;
    },
  };
}

// Return the address of this page's WebSocket.
export function socketAddress() {
  const { protocol, host, pathname } = location;
  return `${protocol == 'https:' ? 'wss' : 'ws'}://${host}${pathname}/ws`;
}

// Return a new element with text content; text from the server is never inserted as markup.
export function text(tag, words, className = '') {
  return Object.assign(document.createElement(tag), { textContent: words, className });
}

// Convert [name, text] pairs to entries of a <dl>.
export const definitions = (pairs) => pairs.map(([name, words]) => {
  const pair = document.createElement('div');
  pair.append(text('dt', name), text('dd', words));
  return pair;
});

// The number of votes in words.
export const votes = (count) => (count == 1 ? '1 vote' : `${count} votes`);

// A histogram of the votes: a list with a bar, a number and a share for each choice.
export function histogram(choices, counts) {
  const all = counts.reduce((sum, count) => sum + count, 0), list = document.createElement('ul');
  list.className = 'bars';
  list.append(...choices.map((choice, i) => {
    const row = document.createElement('li'), bar = text('i', ''), share = Math.round(100 * counts[i] / Math.max(all, 1));
    bar.style.width = `${share}%`;
    row.append(text('span', choice), text('b', `${counts[i]} · ${share} %`), bar);
    return row;
  }));
  return list;
}

// The title and step number of a story.
export const heading = (story) => text('p', `${story.title} · ${story.number} of ${story.of}`, 'step');

// Convert the paragraphs of a story to elements; consecutive list items share one list.
export function paragraphs(all) {
  const found = [];
  for (const [kind, words] of all) {
    if (kind == 'li') {
      if (found.at(-1)?.tagName != 'UL') found.push(document.createElement('ul'));
      found.at(-1).append(text('li', words));
    } else {
      found.push(text(kind == 'h' ? 'h3' : 'p', words));
    }
  }
  return found;
}

// A follower's page: the lecturer's picture and text, the vote of a story's step, a link to the same lab, and a button to
// leave.
import { explainWords, markWords } from './explain.js';
import { definitions, heading, histogram, paragraphs, socketAddress, text, view, votes } from './viewer.js';
import { LABELS, WORDS } from './words.js';

const ALOUD = 8000;                                         // ms between descriptions for a screen reader
const PARTS = ['lab', 'follow', 'ask', 'code', 'said', 'vote', 'shown', 'picture', 'headline', 'sentence', 'story', 'values', 'try', 'aloud'];
const parts = Object.fromEntries(PARTS.map((id) => [id, document.getElementById(id)]));
const code = location.pathname.split('/').at(-1).toUpperCase();

const say = (words) => { parts.said.textContent = words; parts.said.hidden = !words; };

let described = '', spokenAt = -ALOUD, speaking = null;
const speak = () => {                                       // at most every ALOUD ms, and only changed text
  if (speaking !== null || described == parts.aloud.textContent) return;
  speaking = setTimeout(() => {
    speaking = null;
    spokenAt = performance.now();
    parts.aloud.textContent = described;
  }, Math.max(0, spokenAt + ALOUD - performance.now()));
};

explainWords();
const explain = () => {                                     // the first occurrence of each word; whole labels in <dt>
  const known = new Set();
  for (const node of [parts.headline, parts.sentence, ...parts.values.querySelectorAll('dt')]) {
    const label = node.tagName == 'DT' ? node.textContent : '';
    markWords(node, label in LABELS ? { [label]: LABELS[label] } : WORDS, known);
  }
};

// A random token, by which a phone votes once, also after a reload; it is removed at the end of the room.
const TOKEN = `vote ${code}`;
let token = '';
const stored = (act) => { try { return act(sessionStorage); } catch { return null; } };     // a browser may forbid storage
const ownToken = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  token ||= stored((store) => store.getItem(TOKEN)) ?? btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_');
  stored((store) => store.setItem(TOKEN, token));
  return token;
};

const BALLOT = `ballot ${code}`;                            // is shown again after a reload
let ballot = JSON.parse(stored((store) => store.getItem(BALLOT)) ?? '{}');      // the latest answer to a vote: { vote, choice, said }
let pending = null, unsent = false;                         // a vote without an answer: { vote, choice }; whether to send it again
const cast = () => {
  unsent = pending && !connection.send(`vote ${pending.vote} ${pending.choice} ${ownToken()}`);
  if (unsent) tell({ ...pending, choice: 0, said: 'Your vote is sent as soon as the connection is back.' });
};
let asked = '';                                             // the vote that is shown
const showVote = (vote) => {
  const key = vote ? JSON.stringify(vote) : '';
  if (key == asked) return;
  asked = key;
  parts.vote.hidden = !vote;
  if (!vote) return;
  const { number, question, choices, open, counts } = vote;
  const found = [text('h3', question)];
  if (open) {
    const buttons = choices.map((choice, i) => {
      const button = Object.assign(text('button', choice), { type: 'button' });
      button.addEventListener('click', () => {
        pending = { vote: number, choice: i + 1 };
        cast();
      });
      return button;
    });
    const said = text('p', '', 'step');
    said.setAttribute('role', 'status');
    found.push(...buttons, said);
  } else {
    found.push(histogram(choices, counts), text('p', `The vote is closed: ${votes(counts.reduce((a, b) => a + b, 0))}.`, 'step'));
  }
  parts.vote.replaceChildren(...found);
  markChoice(vote);
};
const markChoice = ({ number, open }) => {
  if (!open) return;
  const own = ballot.vote == number ? ballot : { choice: 0, said: '' };
  for (const [i, button] of [...parts.vote.querySelectorAll('button')].entries()) button.setAttribute('aria-pressed', String(own.choice == i + 1));
  parts.vote.querySelector('[role=status]').textContent = own.said;
};
const tell = ({ vote, choice, said }) => {                  // without a choice the earlier one counts
  ballot = { vote, said, choice: choice || (ballot.vote == vote ? ballot.choice : 0) };
  if (asked) markChoice(JSON.parse(asked));
};
const answered = (answer) => {
  pending = null;
  tell(answer);
  stored((store) => store.setItem(BALLOT, JSON.stringify(ballot)));
};

let told = '';                                              // the story step that is shown
const shown = ({ lab, phase, headline, sentence, values, facts, story, vote, link, away, waits }) => {
  parts.lab.textContent = lab ?? '';
  parts.headline.textContent = headline ?? '';
  parts.sentence.textContent = sentence ?? '';
  const pairs = [...(values ?? []), ...(facts ?? [])];
  parts.values.replaceChildren(...definitions(pairs));
  explain();
  parts.story.hidden = !story;
  const key = story ? JSON.stringify(story) : '';
  if (key != told) {
    told = key;
    parts.story.replaceChildren(...(story ? [heading(story), ...paragraphs(story.text)] : []));
  }
  showVote(vote);
  if (unsent) cast();
  parts.try.hidden = !link;
  if (link) parts.try.href = `../app?${link}`;
  document.body.classList.toggle('old', Boolean(waits));
  say(away ? "The lecturer's page has lost its connection. This page waits for it." :
    waits ? `${lab} begins: its picture comes as soon as there is one.` : '');
  described = `${lab}, ${phase}. ${headline} ${pairs.map(([name, words]) => `${name} ${words}`).join(', ')}`;
  parts.picture.setAttribute('aria-label', `The lecturer's picture: ${described}`);
  speak();
};

const connection = view(socketAddress(), parts.picture, {
  shown,
  answered,
  painted: () => { parts.shown.hidden = false; },
  told: ({ words, lost, final }) => {
    document.body.classList.toggle('lost', lost);
    if (words) say(words);
    if (lost) unsent = Boolean(pending);
    if (final) {
      showVote(null);
      for (const key of [TOKEN, BALLOT]) stored((store) => store.removeItem(key));
      ended();
    }
  },
});

const ended = () => {
  parts.follow.textContent = 'Follow';
  parts.ask.hidden = false;
};
const start = () => {
  parts.follow.hidden = false;
  parts.follow.textContent = 'Leave';
  parts.ask.hidden = true;
  connection.start();
};
const leave = () => {
  connection.stop();
  document.body.classList.add('lost');
  parts.follow.textContent = 'Follow';
  say('You have left. The lecture continues; press Follow to return.');
};
parts.follow.addEventListener('click', () => (connection.wanted ? leave() : start()));
parts.ask.addEventListener('submit', (event) => {
  event.preventDefault();
  const wanted = parts.code.value.replace(/[^A-Za-z]/g, '').toUpperCase();
  if (wanted) location.assign(wanted);
});

if (code) start();
else parts.ask.hidden = false;

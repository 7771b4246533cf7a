// The link to the server: questions, and the stream of what is new.

// ask asks a question; the answer is an object, or an Error with a status.
export async function ask(path, parameters, signal) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(parameters)) if (v !== undefined && v !== null && v !== '') q.set(k, typeof v === 'number' ? String(Math.round(v)) : v);
  const r = await fetch('/api/' + path + '?' + q, { signal, headers: { Accept: 'application/json' } }).catch((e) => {
    if (e.name !== 'AbortError') e.status = 503; // nobody there
    throw e;
  });
  if (r.ok) return r.json();
  const body = await r.json().catch(() => ({}));
  const e = new Error(body.error || 'the server answers ' + r.status);
  e.status = r.status;
  throw e;
}

// silent is how long nothing may come before the stream is made anew: a
// connection can be dead without a word, as after a sleep.
const silent = 8000;

// unseen is how long a page may be hidden before its stream is given back.
const unseen = 10000;

// Live follows the server. A browser reconnects by itself after most errors and
// sends the last id then; where it gives up, and where nothing comes, the stream
// is made anew behind the last batch.
export class Live {
  constructor(on) {
    this.on = on;
    this.last = '';
    this.heard = 0;
    this.pause = 500;
    this.open();
    setInterval(() => { if (!this.asleep && Date.now() - this.heard > silent) this.open(); }, 1000);
    // A browser has few connections to a host: a page that nobody sees gives its
    // back, and catches up when it is seen again.
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.dozing);
      if (document.hidden) this.dozing = setTimeout(() => this.sleep(), unseen);
      else if (this.asleep || Date.now() - this.heard > 3000) this.open();
    });
    addEventListener('pagehide', () => this.sleep());
    addEventListener('pageshow', () => { if (this.asleep) this.open(); });
    addEventListener('online', () => this.open());
  }

  sleep() {
    this.asleep = true;
    clearTimeout(this.again);
    if (this.source) this.source.close();
  }

  open() {
    if (this.source) this.source.close();
    clearTimeout(this.again);
    this.asleep = false;
    this.heard = Date.now();
    const source = this.source = new EventSource('/api/live' + (this.last ? '?after=' + encodeURIComponent(this.last) : ''));
    source.addEventListener('reading', (m) => { this.hear(); this.on.reading(JSON.parse(m.data)); });
    source.addEventListener('batch', (m) => {
      this.hear();
      this.last = m.lastEventId;
      this.on.batch(JSON.parse(m.data));
    });
    source.addEventListener('error', () => {
      this.on.lost();
      if (source.readyState !== EventSource.CLOSED || source !== this.source) return;
      this.pause = Math.min(this.pause * 1.6, 5000);
      clearTimeout(this.again);
      this.again = setTimeout(() => this.open(), this.pause);
    });
  }

  hear() { this.heard = Date.now(); this.pause = 500; }
}

// The page: what is looked at stands in its address, so that a view is a link.
import { Timeline } from './timeline.js';
import { Live, ask } from './link.js';
import { showConcerns, showScopes } from './overview.js';
import { showDetail } from './detail.js';
import { phases, marks, drawPhase, drawMark, repaint } from './shapes.js';
import { make, time, clock, local, lasting, put } from './say.js';

const $ = (id) => document.getElementById(id);

const state = { at: null, scope: '', query: '', order: 'name', detail: null, first: 0, last: 0 };
let overview = null;
let behind = 0; // events that came while the past is shown

const timeline = new Timeline({
  open: (scope, name, lease) => open(scope, name, lease),
  moved: () => { controls(); remember(); },
  said: (text) => put('says', text),
  found: (n) => put('found', n + (n === 1 ? ' name' : ' names') + (state.query ? ' found' : '')),
  failed: (e) => failed(e),
});

// failed tells of a question that was not answered; the stream tells of the rest.
function failed(e) {
  if (e.name === 'AbortError') return;
  if (e.status === 401) { location.reload(); return; }
  if (e.status === 503) return; // the link's state says it
  if (!e.status) console.error(e);
  notice(e.message);
}

function notice(text) {
  $('notice').hidden = !text;
  put('notice', text || '');
}

// --- the address ---

function readAddress() {
  const q = new URLSearchParams(location.search);
  const at = q.get('at');
  const t = at ? (/^\d+$/.test(at) ? Number(at) : Date.parse(at)) : NaN;
  if (at && Number.isNaN(t)) notice('The address names a time that can’t be read: ' + at.slice(0, 60) + '. It should be like 2026-03-01T12:00:00Z.');
  state.at = Number.isNaN(t) ? null : t;
  state.scope = q.get('scope') || '';
  state.query = q.get('q') || '';
  state.order = ['recent', 'trouble'].includes(q.get('order')) ? q.get('order') : 'name';
  state.detail = q.get('name') ? { scope: q.get('in') || state.scope, name: q.get('name'), lease: Number(q.get('lease')) || 0 } : null;
  const from = Date.parse(q.get('from')), to = Date.parse(q.get('to')), span = Number(q.get('span'));
  const view = { at: state.at, query: state.query, scope: state.scope, order: state.order, following: true };
  if (from < to) Object.assign(view, { from, to, following: false });
  else if (state.at !== null) {
    const s = span > 0 ? span : 9e5;
    Object.assign(view, { from: state.at - s * .75, to: state.at + s * .25, following: false });
  } else if (span > 0) Object.assign(view, { from: timeline.to - span, to: timeline.to });
  $('query').value = state.query; $('order').value = state.order;
  timeline.show(view);
  controls();
  if (state.at !== null) past(); else behind = 0;
  detail();
}

let remembering;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => history.replaceState(null, '', address()), 250);
}

function address(exact) {
  const q = new URLSearchParams(), iso = (t) => new Date(Math.round(t)).toISOString();
  if (state.at !== null) q.set('at', iso(state.at));
  if (!timeline.following || exact) { q.set('from', iso(timeline.from)); q.set('to', iso(timeline.to)); }
  else if (Math.round(timeline.to - timeline.from) !== 9e5) q.set('span', String(Math.round(timeline.to - timeline.from)));
  if (state.scope) q.set('scope', state.scope);
  if (state.query) q.set('q', state.query);
  if (state.order !== 'name') q.set('order', state.order);
  if (state.detail) {
    q.set('in', state.detail.scope); q.set('name', state.detail.name);
    if (state.detail.lease) q.set('lease', String(state.detail.lease));
  }
  const text = q.toString();
  return location.pathname + (text ? '?' + text : '');
}

// --- the moment ---

// travel shows a moment of the past; null: the present, as it goes on.
function travel(at, keepView) {
  const now = Date.now() + timeline.offset;
  if (at !== null && at >= now) at = null;
  state.at = at;
  const view = { at };
  if (at === null) { behind = 0; if (!keepView) view.following = true; }
  else {
    view.following = false;
    const span = timeline.to - timeline.from;
    if (at < timeline.from || at > timeline.to) { view.from = at - span * .75; view.to = at + span * .25; }
  }
  timeline.show(view);
  controls();
  remember();
  if (at === null) { if (overview) show(overview); } else past();
  detail();
}

let pastAsking = false, pastStale = false;
// past shows the overview of a moment, one question at a time, the latest last.
async function past() {
  if (pastAsking) { pastStale = true; return; }
  pastAsking = true;
  try {
    do {
      pastStale = false;
      const at = state.at;
      if (at === null) break;
      const o = await ask('overview', { at });
      if (state.at === at) show(o);
    } while (pastStale);
  } catch (e) { failed(e); if (e.status === 503) setTimeout(past, 1000); } finally { pastAsking = false; }
}

function controls() {
  const now = Date.now() + timeline.offset, first = state.first || now - 9e5;
  const at = state.at === null ? now : state.at;
  $('slider').value = String(Math.round((at - first) / Math.max(now - first, 1) * 10000));
  $('slider').setAttribute('aria-valuetext', state.at === null ? 'now' : clock(state.at));
  if (document.activeElement !== $('moment')) $('moment').value = local(at);
  $('now').setAttribute('aria-pressed', String(state.at === null));
  $('follow').setAttribute('aria-pressed', String(timeline.following));
  const span = String(Math.round(timeline.to - timeline.from)), known = [...$('span').options].some((o) => o.value === span);
  const wanted = known ? span : '-1';
  if ($('span').value !== wanted) $('span').value = wanted;
  put('moment-says', state.at === null ? '' : 'Shown is everything as it was at ' + new Date(state.at).toLocaleString() + '.' + (behind ? ' ' + behind + ' events have come since this page was opened at it.' : ''));
  document.documentElement.dataset.moment = state.at === null ? 'now' : 'past';
}

// --- overview ---

let concernsSaid = '';
function show(o) {
  if (o.first) state.first = o.first;
  showConcerns(o, open);
  showScopes(o);
  const high = o.concerns.filter((c) => c.level === 'high').map((c) => (c.name || c.scope || '') + ': ' + c.what).join('; ');
  if (high !== concernsSaid && o.live) { concernsSaid = high; if (high) put('says', 'Needs a person: ' + high); }
  const scopes = $('scope');
  for (const s of o.scopes) if (![...scopes.options].some((x) => x.value === s.scope)) scopes.append(make('option', { value: s.scope }, s.scope));
  if (scopes.value !== state.scope) scopes.value = state.scope;
  $('scopes').dataset.seq = o.seq;
}

// --- detail ---

let detailAsking = null;
function open(scope, name, lease) {
  state.detail = { scope, name, lease: lease || 0 };
  remember();
  detail().then(() => $('detail').focus());
}

function closeDetail() {
  state.detail = null;
  $('detail').hidden = true;
  remember();
  $('lanes').focus();
}

async function detail() {
  const d = state.detail;
  if (!d) { $('detail').hidden = true; return; }
  if (detailAsking) detailAsking.abort();
  const mine = detailAsking = new AbortController();
  try {
    const got = await ask('name', { scope: d.scope, name: d.name, at: state.at }, mine.signal);
    if (state.detail !== d) return;
    showDetail(got, d.lease);
    $('detail').dataset.seq = got.seq;
    $('detail').hidden = false;
  } catch (e) {
    if (e.status === 404 && state.detail === d) {
      $('detail-title').textContent = d.name;
      $('detail-body').replaceChildren(make('p', {}, 'The log did not know this name then.'));
      $('detail').hidden = false;
      return;
    }
    failed(e);
  } finally { if (detailAsking === mine) detailAsking = null; }
}

// --- what is new ---

const maxFeed = 100;
function feed(events, complete) {
  const list = $('feed');
  if (!complete && events.length >= maxFeed) list.replaceChildren();
  const fragment = document.createDocumentFragment();
  for (const e of events.slice(-maxFeed).reverse()) {
    fragment.append(make('li', { 'data-seq': e.seq }, time(e.at, true), e.name.startsWith('_') ? null : make('b', {}, e.name + ' '), e.says));
  }
  list.prepend(fragment);
  while (list.children.length > maxFeed) list.lastChild.remove();
}

new Live({
  reading: (r) => { link('', 'reading the log: ' + r.read.toLocaleString() + ' events so far'); },
  lost: () => { link('lost', 'no connection; trying again'); },
  batch: (b) => {
    const newest = Number($('feed').dataset.seq || 0);
    const events = b.complete ? b.events.filter((e) => e.seq > newest) : b.events;
    if (!b.complete) $('feed').replaceChildren();
    feed(events, b.complete);
    if (events.length) $('feed').dataset.seq = events[events.length - 1].seq;
    timeline.offset = b.now - Date.now();
    overview = b.overview;
    put('version', b.version);
    link('live', state.at === null ? 'live' : 'live; the past is shown');
    if (state.at === null) {
      show(b.overview);
      if (!b.complete) { timeline.touch(true); detail(); } else if (events.length) {
        timeline.changed(events);
        if (state.detail && events.some((e) => e.scope === state.detail.scope && (e.name === state.detail.name || e.name === '_epoch'))) detail();
      }
    } else { behind += events.length; if (b.overview.first) state.first = b.overview.first; }
    document.documentElement.dataset.seq = b.seq;
    controls();
  },
});

function link(kind, text) {
  $('link').className = 'pill ' + kind;
  put('link', text);
}

// --- controls ---

$('slider').addEventListener('input', () => {
  const now = Date.now() + timeline.offset, first = state.first || now, v = Number($('slider').value);
  travel(v >= 10000 ? null : Math.round(first + (now - first) * v / 10000));
});
$('moment').addEventListener('change', () => { const t = new Date($('moment').value).getTime(); if (!Number.isNaN(t)) travel(t + 999); });
$('now').addEventListener('click', () => travel(null));
const stepOf = () => Math.max((timeline.to - timeline.from) / 50, 1000);
$('step-back').addEventListener('click', () => travel((state.at === null ? Date.now() + timeline.offset : state.at) - stepOf()));
$('step-on').addEventListener('click', () => { if (state.at !== null) travel(state.at + stepOf()); });
$('share').addEventListener('click', async () => {
  // A link shows what is seen now also later: with the moment in it.
  const at = state.at;
  if (at === null) state.at = Math.round(Date.now() + timeline.offset);
  const url = location.origin + address(true);
  state.at = at;
  try { await navigator.clipboard.writeText(url); put('says', 'the link is copied'); notice(''); } catch { notice(url); }
});
let searching;
$('query').addEventListener('input', () => {
  clearTimeout(searching);
  searching = setTimeout(() => { state.query = $('query').value.trim(); timeline.show({ query: state.query }); remember(); }, 200);
});
$('scope').addEventListener('change', () => { state.scope = $('scope').value; timeline.show({ scope: state.scope }); remember(); });
$('order').addEventListener('change', () => { state.order = $('order').value; timeline.show({ order: state.order }); remember(); });
$('height').addEventListener('change', () => timeline.setHeight(Number($('height').value)));
$('span').addEventListener('change', () => {
  const v = Number($('span').value), now = Date.now() + timeline.offset;
  if (v === 0) timeline.show({ from: (state.first || now - 9e5) - 1000, to: now + (now - state.first) * .04 + 1000, following: false });
  else { const mid = timeline.following ? timeline.to : (timeline.from + timeline.to) / 2; timeline.show(timeline.following ? { from: mid - v, to: mid } : { from: mid - v / 2, to: mid + v / 2 }); }
  controls(); remember();
});
$('zoom-in').addEventListener('click', () => timeline.zoom(.5, (timeline.from + timeline.to) / 2));
$('zoom-out').addEventListener('click', () => timeline.zoom(2, (timeline.from + timeline.to) / 2));
$('follow').addEventListener('click', () => { timeline.show({ following: !timeline.following }); controls(); remember(); });
$('close').addEventListener('click', closeDetail);
addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && !$('detail').hidden) closeDetail();
  if (e.key === '/' && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); $('query').focus(); }
});
addEventListener('popstate', readAddress);

// --- theme and legend ---

function legend() {
  $('legend').replaceChildren(...[...phases.filter((p) => p && p.fill).map((p) => [p, true]), ...marks.map((m) => [m, false])].map(([look, isPhase]) => {
    const c = make('canvas', { width: 44, height: 20, 'aria-hidden': 'true' }), ctx = c.getContext('2d');
    if (isPhase) drawPhase(ctx, phases.indexOf(look), 2, 0, 40, 20);
    else drawMark(ctx, look, 22, look.shape === 'tick' ? 18 : 10, 6);
    return make('li', {}, c, (isPhase ? 'lease: ' : 'mark: ') + look.word);
  }), make('li', {}, 'band: an epoch, named above the lanes'), make('li', {}, 'upright hatching: Vault or NATS did not work'));
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
  repaint(); legend(); timeline.touch();
}
try { $('theme').value = localStorage.getItem('theme') || ''; } catch { /* no storage: as the system */ }
$('theme').addEventListener('change', () => {
  theme($('theme').value);
  try { localStorage.setItem('theme', $('theme').value); } catch { /* then only until it is closed */ }
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => theme($('theme').value));
theme($('theme').value);
readAddress();

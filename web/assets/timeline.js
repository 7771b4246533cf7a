// The timeline: lanes on a canvas, of which only what is visible is asked for
// and drawn.
import { phases, marks, drawPhase, drawMark, drawCell, markOf, colour, repaint } from './shapes.js';
import { make, clock, day, lasting } from './say.js';
import { ask } from './link.js';

const cellWidth = 2; // pixels, as in web/timeline.go
const stripHeight = 16;
const tickHeight = 20;
const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 7776e6, 31536e6];
const narrowest = 200, widest = 40 * 365 * 864e5;

export class Timeline {
  // on: open(scope, name), moved(view), said(text), failed(error)
  constructor(on) {
    this.on = on;
    this.lanes = document.getElementById('lanes');
    this.spacer = document.getElementById('spacer');
    this.canvas = document.getElementById('canvas');
    this.axis = document.getElementById('axis-canvas');
    this.names = document.getElementById('names');
    this.tip = document.getElementById('tip');
    this.from = Date.now() - 9e5;
    this.to = Date.now();
    this.following = true;
    this.at = null; // a moment of the past; null: the present
    this.offset = 0; // the server's clock before ours
    this.query = ''; this.scope = ''; this.order = 'name';
    this.rowHeight = 24;
    this.total = 0;
    this.rows = new Map(); // by their number
    this.have = null; // the window that was answered last
    this.chosen = -1;
    this.generation = 0;
    this.items = [];
    this.lastDrawn = 0;
    repaint();
    this.listen();
    this.resize();
  }

  now() { return this.at !== null ? this.at : Date.now() + this.offset; }
  get perPixel() { return (this.to - this.from) / this.width; }
  x(t) { return this.left + (t - this.from) / this.perPixel; }
  t(x) { return this.from + (x - this.left) * this.perPixel; }

  resize() {
    const full = this.lanes.clientWidth, ratio = devicePixelRatio || 1;
    this.left = Math.min(190, Math.max(84, Math.round(full * .2)));
    this.width = Math.max(40, full - this.left);
    this.view = this.lanes.clientHeight;
    for (const [c, h] of [[this.canvas, this.view], [this.axis, tickHeight + stripHeight]]) {
      c.width = Math.round(full * ratio); c.height = Math.round(h * ratio);
      c.style.width = full + 'px'; c.style.height = h + 'px';
    }
    this.ratio = ratio; this.full = full;
    this.touch(true);
  }

  // touch has everything drawn anew, and asked for if it is not there.
  touch(anew) {
    if (anew) this.stale = true;
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  // show sets what is looked at.
  show({ from, to, following, at, query, scope, order }) {
    if (query !== undefined && query !== this.query || scope !== undefined && scope !== this.scope || order !== undefined && order !== this.order) {
      this.rows.clear(); this.lanes.scrollTop = 0; this.chosen = -1; this.generation++;
    }
    if (at !== undefined && at !== this.at) { this.at = at; this.stale = true; }
    if (query !== undefined) this.query = query;
    if (scope !== undefined) this.scope = scope;
    if (order !== undefined) this.order = order;
    if (following !== undefined) this.following = following;
    if (from !== undefined) { this.from = from; this.to = to; }
    this.touch(true);
  }

  setHeight(h) {
    const first = this.lanes.scrollTop / this.rowHeight;
    this.rowHeight = h;
    this.spacer.style.height = Math.max(this.total * h, this.view) + 'px';
    this.lanes.scrollTop = first * h;
    this.touch(true);
  }

  pan(ms, free) {
    this.from += ms; this.to += ms;
    if (free) this.following = false;
    this.touch(); this.on.moved();
  }

  zoom(factor, around) {
    const span = Math.min(Math.max((this.to - this.from) * factor, narrowest), widest);
    if (this.following) around = this.to;
    const share = (around - this.from) / (this.to - this.from);
    this.from = around - span * share; this.to = this.from + span;
    this.touch(); this.on.moved();
  }

  // changed says that events came: what is visible of their names is asked again.
  changed(events) {
    if (this.at !== null) return;
    const visible = new Set();
    const [a, b] = this.visibleRows();
    for (let i = a; i < b; i++) { const r = this.rows.get(i); if (r) visible.add(r.scope + '/' + r.name); else visible.add('?'); }
    if (this.order !== 'name' || visible.has('?') || events.some((e) => e.name.startsWith('_') || e.type === 'applied' || visible.has(e.scope + '/' + e.name))) this.touch(true);
  }

  visibleRows() {
    const a = Math.max(0, Math.floor(this.lanes.scrollTop / this.rowHeight));
    return [a, Math.max(a, Math.min(a + Math.ceil(this.view / this.rowHeight) + 1, this.total || a + Math.ceil(this.view / this.rowHeight) + 1))];
  }

  // need asks for the visible part and some around it, one question at a time.
  need() {
    if (this.asking) return;
    const span = this.to - this.from, [a, b] = this.visibleRows(), h = this.have;
    const inside = h && h.generation === this.generation && h.at === this.at && h.from <= this.from && h.to >= Math.min(this.to, this.now() + 1) && h.row <= a && h.row + h.rows >= b &&
      span > h.span / 3 && span < h.span * 1.5;
    if (inside && !this.stale) return;
    this.stale = false;
    const around = Math.ceil((b - a) / 2);
    const want = {
      from: Math.floor(this.from - span), to: Math.ceil(this.to + span), row: Math.max(0, a - around), rows: Math.min(512, b - a + 2 * around),
      span, at: this.at, generation: this.generation,
    };
    this.asking = true;
    ask('timeline', {
      from: want.from, to: want.to, at: this.at, width: this.width * 3, row: want.row, rows: want.rows, q: this.query, scope: this.scope, order: this.order,
    }).then((t) => {
      if (want.generation === this.generation && want.at === this.at) this.take(want, t);
      else this.stale = true;
    }).catch((e) => { this.stale = true; this.failing = true; this.on.failed(e); }).finally(() => {
      this.asking = false;
      if (this.failing) { this.failing = false; setTimeout(() => this.touch(), 1000); } else this.touch();
    });
  }

  take(want, t) {
    want.width = this.width * 3;
    this.have = want;
    this.answer = t;
    this.rows.clear();
    t.rows.forEach((r, i) => this.rows.set(want.row + i, r));
    if (this.total !== t.total) {
      this.total = t.total;
      this.spacer.style.height = Math.max(this.total * this.rowHeight, this.view) + 'px';
    }
    const tall = Math.round(Math.max(130, Math.min(this.total * this.rowHeight + 6, innerHeight * .6))) + 'px';
    if (this.lanes.style.height !== tall) this.lanes.style.height = tall;
    document.documentElement.dataset.drawn = t.seq;
    if (!this.seen && t.rows.length) { this.seen = true; requestAnimationFrame(() => performance.mark('first view')); }
    this.namesStale = true;
    this.on.found(t.total);
  }

  draw() {
    if (this.following) {
      const span = this.to - this.from;
      this.to = this.now() + span * .04; this.from = this.to - span;
    }
    this.need();
    const begun = performance.now(), ctx = this.canvas.getContext('2d', { alpha: false }), k = this.ratio;
    ctx.setTransform(k, 0, 0, k, 0, 0);
    ctx.fillStyle = colour('page');
    ctx.fillRect(0, 0, this.full, this.view);
    const [a, b] = this.visibleRows(), h = this.rowHeight, top = this.lanes.scrollTop;
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left, 0, this.width, this.view); ctx.clip();
    for (let i = a; i < b; i++) this.background(ctx, this.rows.get(i), i * h - top, h, i);
    this.grid(ctx, 0, this.view);
    let bars = 0;
    const seen = {};
    for (let i = a; i < b; i++) { const r = this.rows.get(i); if (r) bars += this.lane(ctx, r, i * h - top, h, seen); }
    this.nowLine(ctx, this.view);
    ctx.restore();
    ctx.fillStyle = colour('line');
    ctx.fillRect(this.left - 1, 0, 1, this.view);
    this.drawAxis();
    this.drawNames(a, b);
    this.lastDrawn = Date.now();
    this.canvas.dataset.bars = bars;
    this.canvas.dataset.marks = Object.keys(seen).join(' ');
    this.canvas.dataset.cost = (performance.now() - begun).toFixed(2);
  }

  // background shows epochs as bands and outages as shading, in the lane's scope.
  background(ctx, r, y, h, i) {
    if (i === this.chosen) { ctx.fillStyle = colour('chosen'); ctx.fillRect(this.left, y, this.width, h); }
    if (!r || !this.answer) return;
    const t = this.answer;
    for (const e of t.epochs) if (e.scope === r.scope && e.epoch % 2 === 1 && i !== this.chosen) {
      const x1 = Math.max(this.x(t.from + e.from), this.left), x2 = Math.min(e.to < 0 ? this.x(this.now()) : this.x(t.from + e.to), this.full);
      ctx.fillStyle = colour('band');
      if (x2 > x1) ctx.fillRect(x1, y, x2 - x1, h);
    }
    for (const o of t.outages) if (o.scope === r.scope) {
      const x1 = Math.max(this.x(t.from + o.from), this.left), x2 = Math.min(o.to < 0 ? this.x(this.now()) : this.x(t.from + o.to), this.full);
      if (x2 < x1) continue;
      ctx.fillStyle = colour('shadow');
      for (let x = x1 - (x1 % 4); x < Math.max(x2, x1 + 2); x += 4) ctx.fillRect(Math.max(x, x1), y, 1.5, h);
    }
    ctx.fillStyle = colour('line');
    if (h > 14) ctx.fillRect(this.left, y + h - 1, this.width, 1);
  }

  lane(ctx, r, y, h, seen) {
    const t = this.answer, now = this.now(), inner = h - 2;
    let bars = 0;
    if (r.cells) {
      const per = (t.to - t.from) / (this.have.width) * cellWidth;
      for (const [x0, n, mask] of r.cells) {
        const x1 = this.x(t.from + x0 * per), x2 = this.x(t.from + (x0 + n) * per);
        if (x2 < this.left || x1 > this.full) continue;
        drawCell(ctx, mask, Math.max(x1, this.left - 2), y, Math.min(x2, this.full + 2) - Math.max(x1, this.left - 2) + .5, inner);
        bars++;
      }
    }
    for (const b of r.bars || []) {
      const hit = r.hits && r.hits.includes(b[0]);
      let x1 = 0;
      for (let i = 1; i < b.length; i += 2) {
        const p = b[i + 1];
        const start = t.from + b[i], end = i + 2 < b.length ? t.from + b[i + 2] : now;
        x1 = this.x(start);
        const x2 = this.x(Math.max(end, start));
        if (p >= 10 || x2 < this.left || x1 > this.full) continue;
        // An edge of the page's colour tells where one lease ends and the next begins.
        drawPhase(ctx, p, Math.max(x1, this.left - 4), y, Math.min(x2, this.full + 4) - Math.max(x1, this.left - 4) - (x2 - x1 > 4 ? 1 : 0), inner);
        if (hit) { ctx.strokeStyle = colour('now'); ctx.lineWidth = 2; ctx.strokeRect(Math.max(x1, this.left - 4), y + 1, Math.min(x2, this.full + 4) - Math.max(x1, this.left - 4), inner - 2); }
        if (p === 5 && x2 - x1 > 34 && h >= 24) {
          ctx.fillStyle = colour('page'); ctx.font = '11px system-ui, sans-serif'; ctx.textAlign = 'left'; ctx.textBaseline = 'middle';
          ctx.fillText('#' + b[0], Math.max(x1, this.left) + 8, y + inner / 2);
        }
        bars++;
      }
    }
    const size = h >= 24 ? 4.5 : h >= 16 ? 3.5 : 2.5;
    for (const [at, mask] of r.marks || []) {
      const x = this.x(t.from + at);
      if (x < this.left - 6 || x > this.full + 6) continue;
      const m = markOf(mask);
      if (!m) continue;
      if (m.shape === 'tick' && h < 16) continue;
      drawMark(ctx, m, x, m.shape === 'tick' ? y + inner : y + inner * .5, size);
      for (const each of marks) if (mask & each.bit) seen[each.word.replaceAll(' ', '-').replaceAll(',', '')] = true;
    }
    return bars;
  }

  grid(ctx, y, h) {
    ctx.fillStyle = colour('line');
    for (const t of this.ticks()) ctx.fillRect(Math.round(this.x(t)), y, 1, h);
  }

  ticks() {
    const wish = this.perPixel * 110, step = steps.find((s) => s >= wish) || steps[steps.length - 1];
    const zone = new Date(this.from).getTimezoneOffset() * 6e4, out = [];
    for (let t = Math.ceil((this.from - zone) / step) * step + zone; t < this.to && out.length < 60; t += step) out.push(t);
    this.step = step;
    return out;
  }

  nowLine(ctx, h) {
    const x = this.x(this.now());
    if (x < this.left || x > this.full) return;
    ctx.fillStyle = colour('now');
    ctx.fillRect(Math.round(x), 0, 1.5, h);
  }

  drawAxis() {
    const ctx = this.axis.getContext('2d', { alpha: false }), k = this.ratio;
    ctx.setTransform(k, 0, 0, k, 0, 0);
    ctx.fillStyle = colour('panel');
    ctx.fillRect(0, 0, this.full, tickHeight + stripHeight);
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    ctx.save();
    ctx.beginPath(); ctx.rect(this.left, 0, this.width, 60); ctx.clip();
    for (const t of this.ticks()) {
      const x = this.x(t);
      ctx.fillStyle = colour('quiet');
      ctx.fillText(this.step >= 864e5 ? day(t) : clock(t, this.step < 1000).slice(this.step >= 6e4 && clock(t).length === 8 ? 0 : 0), x + 3, tickHeight / 2);
      ctx.fillStyle = colour('line');
      ctx.fillRect(Math.round(x), 0, 1, tickHeight);
    }
    if (this.answer) this.strip(ctx);
    ctx.restore();
    this.nowLine2(ctx);
  }

  // strip names the epochs; with several scopes those of the first row's.
  strip(ctx) {
    const t = this.answer, first = this.rows.get(this.visibleRows()[0]), scope = this.scope || (first && first.scope) || (t.epochs[0] && t.epochs[0].scope);
    for (const e of t.epochs) {
      if (e.scope !== scope) continue;
      const x1 = Math.max(this.x(t.from + e.from), this.left), x2 = Math.min(e.to < 0 ? this.x(this.now()) : this.x(t.from + e.to), this.full);
      if (x2 <= x1) continue;
      ctx.fillStyle = colour(e.epoch % 2 ? 'shadow' : 'line');
      ctx.fillRect(x1, tickHeight, x2 - x1, stripHeight);
      if (x2 - x1 > 60) {
        ctx.save();
        ctx.beginPath(); ctx.rect(x1, tickHeight, x2 - x1 - 3, stripHeight); ctx.clip();
        ctx.fillStyle = colour('text');
        ctx.fillText('epoch ' + e.epoch + ' · ' + e.holder, x1 + 4, tickHeight + stripHeight / 2);
        ctx.restore();
      }
    }
    for (const o of t.outages) {
      if (o.scope !== scope) continue;
      const x1 = Math.max(this.x(t.from + o.from), this.left), x2 = Math.min(o.to < 0 ? this.x(this.now()) : this.x(t.from + o.to), this.full);
      if (x2 < x1) continue;
      ctx.fillStyle = colour('vermilion');
      ctx.fillRect(x1, tickHeight + stripHeight - 4, Math.max(x2 - x1, 2), 4);
    }
  }

  nowLine2(ctx) {
    const x = this.x(this.now());
    if (x >= this.left && x <= this.full) { ctx.fillStyle = colour('now'); ctx.fillRect(Math.round(x), 0, 1.5, tickHeight + stripHeight); }
  }

  // drawNames keeps a button for each visible lane.
  drawNames(a, b) {
    if (!this.namesStale && this.drawnRows && this.drawnRows[0] === a && this.drawnRows[1] === b && this.drawnHeight === this.rowHeight && this.drawnChosen === this.chosen && this.drawnLeft === this.left) return;
    this.namesStale = false; this.drawnRows = [a, b]; this.drawnHeight = this.rowHeight; this.drawnChosen = this.chosen; this.drawnLeft = this.left;
    while (this.items.length < b - a) {
      const button = make('button', { type: 'button', tabindex: '-1' }), item = make('li', {}, button);
      button.addEventListener('click', () => this.openRow(item.row));
      this.items.push({ item, button });
      this.names.append(item);
    }
    for (let i = 0; i < this.items.length; i++) {
      const { item, button } = this.items[i], r = this.rows.get(a + i);
      item.hidden = a + i >= b || !r;
      if (item.hidden) continue;
      item.row = a + i;
      item.style.top = (a + i) * this.rowHeight + 'px'; // CSSOM, which the policy allows
      item.style.height = this.rowHeight + 'px';
      item.style.width = this.left - 2 + 'px';
      item.className = (this.rowHeight < 20 ? 'small' : '') + (a + i === this.chosen ? ' chosen' : '');
      const label = rowLabel(r);
      if (button.textContent !== r.name) button.textContent = r.name;
      if (button.getAttribute('aria-label') !== label) button.setAttribute('aria-label', label);
    }
  }

  openRow(i) {
    const r = this.rows.get(i);
    if (!r) return;
    this.choose(i);
    this.on.open(r.scope, r.name);
  }

  choose(i) {
    this.chosen = Math.min(Math.max(i, 0), Math.max(this.total - 1, 0));
    const top = this.chosen * this.rowHeight;
    if (top < this.lanes.scrollTop) this.lanes.scrollTop = top;
    if (top + this.rowHeight > this.lanes.scrollTop + this.view) this.lanes.scrollTop = top + this.rowHeight - this.view;
    const r = this.rows.get(this.chosen);
    if (r) this.on.said(rowLabel(r));
    this.touch();
  }

  // what tells what is at a place of the canvas.
  what(x, y) {
    const i = Math.floor((y + this.lanes.scrollTop) / this.rowHeight), r = this.rows.get(i);
    if (!r || x < this.left || !this.answer) return null;
    const t = this.answer, at = this.t(x), near = this.perPixel * 6, lines = [r.name, clock(at, this.perPixel < 500)];
    let lease = 0;
    for (const [m, mask, count, no] of r.marks || []) {
      if (Math.abs(t.from + m - at) > near) continue;
      lines.push(marks.filter((k) => mask & k.bit).map((k) => k.word).join(', ') + (no ? ' (lease ' + no + ')' : '') + (count > 1 ? ', ' + count + ' events' : '') + ' at ' + clock(t.from + m, true));
      lease = lease || no;
    }
    for (const b of r.bars || []) for (let k = b.length - 2; k > 0; k -= 2) {
      const start = t.from + b[k], end = k + 2 < b.length ? t.from + b[k + 2] : this.now();
      if (at < start) continue;
      if (at <= end && b[k + 1] < 10) { lines.push('lease ' + b[0] + ': ' + phases[b[k + 1]].word + ' for ' + lasting(end - start)); lease = lease || b[0]; }
      break;
    }
    if (r.cells) {
      const per = (t.to - t.from) / this.have.width * cellWidth, c = Math.floor((at - t.from) / per);
      for (const [x0, n, mask, count] of r.cells) if (c >= x0 && c < x0 + n) {
        lines.push((count > 1 ? count + ' leases begin here; zoom in. ' : '') + phases.filter((p, k) => p && mask & (1 << k)).map((p) => p.word).join(', '));
      }
    }
    for (const e of t.epochs) if (e.scope === r.scope && at >= t.from + e.from && (e.to < 0 || at < t.from + e.to) && at <= this.now()) lines.push('epoch ' + e.epoch + ' of ' + e.holder);
    for (const o of t.outages) if (o.scope === r.scope && at >= t.from + o.from - near && (o.to < 0 || at < t.from + o.to + near) && at <= this.now()) lines.push(o.what + ' did not work: ' + o.why);
    return { row: i, r, lease, text: lines.join('\n') };
  }

  hover(e) {
    const box = this.canvas.getBoundingClientRect(), w = this.what(e.clientX - box.left, e.clientY - box.top);
    this.tip.hidden = !w || this.held;
    if (this.tip.hidden) return;
    this.tip.textContent = w.text;
    this.tip.style.left = Math.min(e.clientX + 14, innerWidth - Math.min(360, this.tip.offsetWidth + 8)) + 'px';
    this.tip.style.top = Math.min(e.clientY + 14, innerHeight - this.tip.offsetHeight - 8) + 'px';
  }

  listen() {
    const c = this.canvas;
    new ResizeObserver(() => this.resize()).observe(this.lanes);
    this.lanes.addEventListener('scroll', () => this.touch());
    c.addEventListener('pointerdown', (e) => {
      if (e.button !== 0) return;
      this.held = null; this.pressed = { x: e.clientX, y: e.clientY, from: this.from, to: this.to, id: e.pointerId };
    });
    c.addEventListener('pointermove', (e) => {
      const p = this.pressed;
      if (p && (this.held || Math.abs(e.clientX - p.x) > 4)) {
        if (!this.held) { this.held = true; c.setPointerCapture(p.id); c.classList.add('held'); this.tip.hidden = true; }
        const by = (p.x - e.clientX) * this.perPixel;
        this.from = p.from + by; this.to = p.to + by; this.following = false;
        this.touch(); this.on.moved();
      } else if (e.pointerType !== 'touch') this.hover(e);
    });
    const release = (e) => {
      if (this.pressed && !this.held && e.type === 'pointerup') {
        const box = c.getBoundingClientRect(), w = this.what(e.clientX - box.left, e.clientY - box.top);
        if (w) { this.choose(w.row); this.on.open(w.r.scope, w.r.name, w.lease); }
      }
      this.pressed = this.held = null; c.classList.remove('held');
    };
    c.addEventListener('pointerup', release);
    c.addEventListener('pointercancel', release);
    c.addEventListener('pointerleave', () => { this.tip.hidden = true; });
    this.lanes.addEventListener('wheel', (e) => {
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        this.zoom(Math.exp(e.deltaY * .0025), this.t(e.clientX - c.getBoundingClientRect().left));
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        this.pan((e.deltaX || e.deltaY) * this.perPixel, true);
      }
    }, { passive: false });
    this.lanes.addEventListener('keydown', (e) => {
      if (e.altKey || e.ctrlKey || e.metaKey) return;
      const span = this.to - this.from, page = Math.max(1, Math.floor(this.view / this.rowHeight) - 1);
      switch (e.key) {
        case 'ArrowLeft': this.pan(-span * .1, true); break;
        case 'ArrowRight': this.pan(span * .1, true); break;
        case 'ArrowUp': this.choose(this.chosen - 1); break;
        case 'ArrowDown': this.choose(this.chosen + 1); break;
        case 'PageUp': this.choose(this.chosen - page); break;
        case 'PageDown': this.choose(this.chosen + page); break;
        case '+': case '=': this.zoom(1 / 1.5, (this.from + this.to) / 2); break;
        case '-': this.zoom(1.5, (this.from + this.to) / 2); break;
        case 'Enter': if (this.chosen >= 0) this.openRow(this.chosen); break;
        case 'End': this.following = true; this.touch(); this.on.moved(); break;
        default: return;
      }
      e.preventDefault();
    });
    // The present moves on by itself, no oftener than it shows.
    setInterval(() => {
      if (this.at === null && !document.hidden && Date.now() - this.lastDrawn >= Math.min(Math.max(this.perPixel, 50), 1000)) this.touch();
    }, 50);
  }
}

// rowLabel says a lane for those who can't see it.
export function rowLabel(r) {
  let s = r.name + ', scope ' + r.scope + ': ' + r.state;
  if (r.lease) s += ', lease ' + r.lease;
  if (r.last) s += '; last: ' + r.last + ' at ' + clock(r.last_at);
  return s;
}

// What things look like: phases of leases and marks, with shapes as well as
// colours (those of Okabe and Ito, which colour-blind people can tell apart).

// The numbers are those of web/phase.go.
// A lane has three tracks, since leases of a name overlap: what is coming on top,
// what is in use in the middle, what is going below.
export const phases = [
  null,
  { word: 'requested', hue: 'grey', top: .04, bottom: .26, fill: 'none', track: 0 },
  { word: 'candidate', hue: 'sky', top: .04, bottom: .26, fill: 'rising', track: 0 },
  { word: 'handing over', hue: 'yellow', top: .04, bottom: .26, fill: 'solid', track: 0 },
  { word: 'rolling back', hue: 'vermilion', top: .04, bottom: .26, fill: 'falling', track: 0 },
  { word: 'active', hue: 'blue', top: .28, bottom: .72, fill: 'solid', track: 1 },
  { word: 'grace', hue: 'sky', top: .74, bottom: .98, fill: 'lines', track: 2 },
  { word: 'kept', hue: 'purple', top: .74, bottom: .98, fill: 'crossed', track: 2 },
  { word: 'retired', hue: 'orange', top: .8, bottom: .98, fill: 'solid', track: 2 },
  { word: 'revoking', hue: 'orange', top: .8, bottom: .98, fill: 'dots', track: 2 },
  { word: 'revoked' }, { word: 'expired' }, { word: 'came to nothing' }, { word: 'orphaned' },
];

// From the most to the least telling in each track, for cells that hold several.
const telling = [[4, 3, 2, 1], [5], [7, 6, 8, 9]];

// The bits are those of web/timeline.go.
export const marks = [
  { bit: 1 << 2, word: 'roll back', shape: 'back', hue: 'vermilion' },
  { bit: 1 << 7, word: 'orphaned', shape: 'question', hue: 'purple' },
  { bit: 1 << 3, word: 'failure', shape: 'cross', hue: 'vermilion' },
  { bit: 1 << 5, word: 'no, or not confirmed', shape: 'down', hue: 'vermilion' },
  { bit: 1 << 6, word: 'cut off, or revoked by hand', shape: 'square', hue: 'purple' },
  { bit: 1 << 8, word: 'expired', shape: 'diamond', hue: 'orange' },
  { bit: 1 << 1, word: 'installed', shape: 'disc', hue: 'green' },
  { bit: 1 << 0, word: 'hand-over begins', shape: 'up', hue: 'yellow' },
  { bit: 1 << 10, word: 'definition changed', shape: 'ring', hue: 'grey' },
  { bit: 1 << 9, word: 'consumer came or left', shape: 'bracket', hue: 'grey' },
  { bit: 1 << 4, word: 'renewed', shape: 'tick', hue: 'grey' },
];

const light = {
  grey: '#5f6e7b', sky: '#3a97cf', blue: '#0067a5', yellow: '#9c8b00', vermilion: '#c74a00', purple: '#a8487f', orange: '#b97700', green: '#007d5a',
  page: '#ffffff', panel: '#f4f6f8', text: '#16202a', quiet: '#4d5b68', line: '#d9e0e6', band: '#eef2f5', shadow: '#c3ccd4', now: '#a8210a', chosen: '#d6e9f8',
};
const dark = {
  grey: '#8f9fac', sky: '#7cc7f2', blue: '#3d9fe0', yellow: '#f0e442', vermilion: '#ff8a4c', purple: '#e39ac6', orange: '#f0b13a', green: '#35c99d',
  page: '#11171c', panel: '#1a232b', text: '#e8eef3', quiet: '#a9b6c2', line: '#2a3640', band: '#172028', shadow: '#48565f', now: '#ffb3a1', chosen: '#1d3a52',
};

let hues = light;
let patterns = new Map();

// repaint takes the theme's colours; call it when the theme changed.
export function repaint() {
  const chosen = document.documentElement.dataset.theme;
  const isDark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
  hues = isDark ? dark : light;
  patterns = new Map();
}

export const colour = (name) => hues[name];

// pattern gives a fill that is told by its lines as well as by its colour.
export function pattern(ctx, fill, hue) {
  if (fill === 'solid') return hues[hue];
  const key = fill + hue;
  let p = patterns.get(key);
  if (p) return p;
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const c = tile.getContext('2d');
  c.fillStyle = hues.page;
  c.fillRect(0, 0, 6, 6);
  c.strokeStyle = c.fillStyle = hues[hue];
  c.lineWidth = 1.6;
  c.beginPath();
  if (fill === 'rising' || fill === 'crossed') { c.moveTo(-1, 7); c.lineTo(7, -1); c.moveTo(-1, 1); c.lineTo(1, -1); c.moveTo(5, 7); c.lineTo(7, 5); }
  if (fill === 'falling' || fill === 'crossed') { c.moveTo(-1, -1); c.lineTo(7, 7); c.moveTo(5, -1); c.lineTo(7, 1); c.moveTo(-1, 5); c.lineTo(1, 7); }
  if (fill === 'lines') { c.moveTo(0, 1.5); c.lineTo(6, 1.5); c.moveTo(0, 4.5); c.lineTo(6, 4.5); }
  c.stroke();
  if (fill === 'dots') { c.fillRect(0, 0, 3, 6); }
  p = ctx.createPattern(tile, 'repeat');
  patterns.set(key, p);
  return p;
}

// drawPhase draws a part of a bar.
export function drawPhase(ctx, phase, x, y, width, height) {
  const look = phases[phase];
  if (!look || !look.fill) return;
  const top = Math.round(y + look.top * height), tall = Math.max(2, Math.round((look.bottom - look.top) * height));
  width = Math.max(width, 1);
  if (look.fill !== 'none') {
    ctx.fillStyle = pattern(ctx, look.fill, look.hue);
    ctx.fillRect(x, top, width, tall);
  }
  if (width > 3 && look.fill !== 'solid') {
    ctx.strokeStyle = hues[look.hue];
    ctx.lineWidth = 1;
    ctx.strokeRect(Math.round(x) + .5, top + .5, Math.round(width) - 1, tall - 1);
  } else if (look.fill === 'none') {
    ctx.fillStyle = hues[look.hue];
    ctx.fillRect(x, top, width, tall);
  }
}

// drawCell draws what a cell holds: in each track the most telling phase.
export function drawCell(ctx, mask, x, y, width, height) {
  for (const track of telling) for (const p of track) if (mask & (1 << p)) {
    const look = phases[p];
    ctx.fillStyle = look.fill === 'none' ? hues[look.hue] : pattern(ctx, look.fill, look.hue);
    const top = Math.round(y + look.top * height);
    ctx.fillRect(x, top, Math.max(width, 1), Math.max(2, Math.round((look.bottom - look.top) * height)));
    break;
  }
}

// markOf gives the most telling mark.
export function markOf(mask) {
  for (const m of marks) if (mask & m.bit) return m;
  return null;
}

// drawMark draws a mark around x, y.
export function drawMark(ctx, mark, x, y, r) {
  ctx.fillStyle = ctx.strokeStyle = hues[mark.hue];
  ctx.lineWidth = 1.6;
  ctx.beginPath();
  switch (mark.shape) {
    case 'tick': ctx.fillRect(x - .5, y - r * .9, 1.2, r * .9); return;
    case 'up': ctx.moveTo(x, y - r); ctx.lineTo(x + r, y + r); ctx.lineTo(x - r, y + r); break;
    case 'down': ctx.moveTo(x, y + r); ctx.lineTo(x + r, y - r); ctx.lineTo(x - r, y - r); break;
    case 'back': ctx.moveTo(x - r * 1.2, y); ctx.lineTo(x + r, y - r * 1.1); ctx.lineTo(x + r, y + r * 1.1); break;
    case 'square': ctx.rect(x - r * .9, y - r * .9, r * 1.8, r * 1.8); break;
    case 'diamond': ctx.moveTo(x, y - r); ctx.lineTo(x + r, y); ctx.lineTo(x, y + r); ctx.lineTo(x - r, y); break;
    case 'disc': ctx.arc(x, y, r * .8, 0, 7); break;
    case 'ring': ctx.arc(x, y, r * .7, 0, 7); ctx.stroke(); return;
    case 'cross': ctx.moveTo(x - r, y - r); ctx.lineTo(x + r, y + r); ctx.moveTo(x + r, y - r); ctx.lineTo(x - r, y + r); ctx.stroke(); return;
    case 'bracket': ctx.moveTo(x + r * .6, y - r); ctx.lineTo(x - r * .6, y - r); ctx.lineTo(x - r * .6, y + r); ctx.lineTo(x + r * .6, y + r); ctx.stroke(); return;
    case 'question': ctx.font = 'bold ' + Math.round(r * 2.6) + 'px sans-serif'; ctx.textAlign = 'center'; ctx.textBaseline = 'middle'; ctx.fillText('?', x, y); return;
  }
  ctx.closePath();
  ctx.strokeStyle = hues.page;
  ctx.stroke();
  ctx.fill();
}

package sim

import "time"

// cell is the scope's cell: who claimed it last and under which revision, which
// is the epoch.
type cell struct {
	revision uint64
	holder   *instance
	boot     int
	released bool
}

// quietWindow is how long a holder must have been silent to be deposed, and how
// old its own last renewal may be for it to serve readers.
const quietWindow = 3 * time.Second

// renewal is how often a holder renews.
const heartbeat = 500 * time.Millisecond

// claimable tells whether the claim steps of a challenger would succeed.
func (w *world) claimable(t *instance) bool {
	c := &w.cell
	return c.holder == nil || c.released || c.holder == t || !c.holder.up || c.holder.boot != c.boot ||
		c.holder.hangs && w.now.Sub(c.holder.renewed) >= quietWindow
}

// claim takes the cell; the holder before it finds out at its next renewal.
func (w *world) claim(t *instance) uint64 {
	c := &w.cell
	if h := c.holder; h != nil && h != t && h.up && h.boot == c.boot && h.role == leading && !c.released {
		w.hit(SecondLeader, "")
		h.deposed = true
		if !h.hangs {
			h.renewed = w.now
		}
	}
	c.revision++
	c.holder, c.boot, c.released = t, t.boot, false
	return c.revision
}

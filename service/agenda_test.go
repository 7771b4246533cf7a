package service

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestL29_TheMostUrgentFirst: names come off the agenda by time, none before its
// own, each at the last time that was set.
func TestL29_TheMostUrgentFirst(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		a, model := newAgenda(), map[string]time.Time{}
		now := start
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			name := fmt.Sprint("n", rapid.IntRange(0, 9).Draw(rt, "name"))
			if rapid.Bool().Draw(rt, "set") {
				at := start.Add(time.Duration(rapid.IntRange(0, 100).Draw(rt, "at")) * time.Second)
				ok := rapid.IntRange(0, 4).Draw(rt, "ok") > 0
				a.set(name, at, ok)
				if delete(model, name); ok {
					model[name] = at
				}
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "pass")) * time.Second)
			limit := rapid.IntRange(0, 5).Draw(rt, "limit")
			due := a.due(now, limit)
			if len(due) > limit {
				rt.Fatalf("%d names, at most %d were asked for", len(due), limit)
			}
			var before time.Time
			for _, name := range due {
				at, there := model[name]
				if !there || at.After(now) || at.Before(before) {
					rt.Fatalf("%s, due at %v (%t), came at %v after one of %v", name, at, there, now, before)
				}
				before = at
				delete(model, name)
			}
			for name, at := range model {
				if at.Before(before) || len(due) < limit && !at.After(now) {
					rt.Fatalf("%s, due at %v, was left at %v for one of %v", name, at, now, before)
				}
			}
		}
		next, ok := a.next()
		if ok != (len(model) > 0) || a.Len() != len(model) || len(a.index) != len(model) {
			rt.Fatalf("%d names are left, should be %d", a.Len(), len(model))
		}
		for name, at := range model {
			if at.Before(next) {
				rt.Fatalf("next is %v, %s is due at %v", next, name, at)
			}
		}
	})
}

// TestL36_Between10msAnd5s: whatever is due when, the loop looks at least every
// 5 s and never spins.
func TestL36_Between10msAnd5s(t *testing.T) {
	for _, c := range []struct {
		due      time.Duration // 0: nothing
		min, max time.Duration
	}{
		{0, 5 * time.Second, 5 * time.Second},
		{-time.Hour, 10 * time.Millisecond, 10 * time.Millisecond},
		{time.Nanosecond, 10 * time.Millisecond, 10 * time.Millisecond},
		{3 * time.Second, 2 * time.Second, 3 * time.Second},
		{time.Hour, 5 * time.Second, 5 * time.Second},
	} {
		tm := &term{scope: &scope{svc: &Service{clock: newClock()}}, agenda: newAgenda()}
		if c.due != 0 {
			tm.agenda.set("later", tm.svc.clock.Now().Add(c.due+time.Minute), true)
			tm.agenda.set("orders", tm.svc.clock.Now().Add(c.due), true)
		}
		if wait := tm.waitTime(); wait < c.min || wait > c.max {
			t.Errorf("due in %v: waits %v, want %v to %v", c.due, wait, c.min, c.max)
		}
	}
}

package service

import (
	"log/slog"
	"strings"
	"sync"

	"github.com/leasesvc/leasesvc/events"
)

// tellOddity says what an event tells that was odd about Vault's answer: a
// duration that made no sense, and Vault's own warnings. Both stand in the event;
// here they are said where a person looks first.
func tellOddity(log *slog.Logger, e *events.Event) {
	var suspect string
	var warnings []string
	switch d := e.Data.(type) {
	case *events.Acquired:
		suspect, warnings = d.Suspect, d.Warnings
	case *events.Renewed:
		suspect, warnings = d.Suspect, d.Warnings
	case *events.GuardExtended:
		warnings = withGuards(nil, d.Warnings)
	}
	if suspect != "" {
		log.Warn("lease-duration-suspect", "seq", e.Seq, "name", e.Name, "lease", e.Lease, "says", suspect)
	}
	if len(warnings) > 0 {
		log.Warn("vault-warning", "seq", e.Seq, "name", e.Name, "lease", e.Lease, "says", strings.Join(warnings, "; "))
	}
}

// withGuards adds Vault's warnings about a guard to those about its lease.
func withGuards(warnings, guards []string) []string {
	for _, w := range guards {
		warnings = append(warnings, "about the guard: "+w)
	}
	return warnings
}

// oddity is what was odd about an answer as one text; empty: nothing was.
func oddity(suspect string, warnings []string) string {
	if suspect != "" {
		warnings = append([]string{suspect}, warnings...)
	}
	return strings.Join(warnings, "; ")
}

// oddities remembers, per name, what was odd about a secret that is read again
// and again, so that it is said when it changes and not at each reading. The zero
// value is ready for use.
type oddities struct {
	mu     sync.Mutex
	byName map[string]string
}

// changed notes the text and tells whether it is another one than before.
func (o *oddities) changed(name, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName[name] == text {
		return false
	}
	if o.byName == nil {
		o.byName = map[string]string{}
	}
	if text == "" {
		delete(o.byName, name)
	} else {
		o.byName[name] = text
	}
	return true
}

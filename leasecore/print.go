package leasecore

import (
	"fmt"
	"strings"
	"time"
)

// Print writes the whole state in a stable form, for scenarios and to compare
// two states: equal states print the same. What is memory and not log (the
// confirmations) is left out.
func (s *State) Print() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s epoch=%d fence=%d holder=%s last-lease=%d revision=%d", s.Scope, s.Epoch, s.Fence, s.Holder, s.LastLease, s.Revision)
	if s.Released {
		b.WriteString(" released")
	}
	if s.Shutdown {
		b.WriteString(" shutdown")
	}
	if !s.Spent.IsZero() {
		fmt.Fprintf(&b, " spent=%s", stamp(s.Spent))
	}
	if len(s.Formats) > 0 {
		fmt.Fprintf(&b, " formats=%s", strings.ReplaceAll(s.Formats.String(), " ", ""))
	}
	b.WriteByte('\n')
	for _, name := range s.SortedNames() {
		s.names[name].write(&b)
	}
	for _, name := range sortedKeys(s.Documents) {
		d := s.Documents[name]
		fmt.Fprintf(&b, "document %s revision=%d blob=%s definitions=%d fingerprint=%s\n", name, d.Revision, d.Blob, d.Definitions, d.Fingerprint)
	}
	return b.String()
}

func (n *Name) write(b *strings.Builder) {
	fmt.Fprintf(b, "%s active=%d candidate=%d n=%d", n.Name, n.Active, n.Candidate, n.N)
	if n.Definition == nil {
		b.WriteString(" removed")
	} else {
		fmt.Fprintf(b, " path=%s/%s", n.Definition.Vault, n.Definition.Path)
	}
	if n.Reverted {
		b.WriteString(" reverted")
	}
	if n.Successor != "" {
		fmt.Fprintf(b, " successor=%s", n.Successor)
	}
	if !n.Spent.IsZero() {
		fmt.Fprintf(b, " spent=%s", stamp(n.Spent))
	}
	promised := n.promisedBefore()
	if !promised.Until.IsZero() {
		fmt.Fprintf(b, " promised-until=%s", stamp(promised.Until))
	}
	if promised.For > 0 {
		fmt.Fprintf(b, " promised-for=%s", promised.For)
	}
	if !n.ReportedAt.IsZero() {
		fmt.Fprintf(b, " reported=%s", stamp(n.ReportedAt))
	}
	if p := n.Pending; p != nil {
		fmt.Fprintf(b, " pending=%s#%d@%s", p.Failure.Kind, p.Attempt, stamp(p.At))
	}
	b.WriteByte('\n')
	for i := range n.Leases {
		n.Leases[i].write(b, n)
	}
	if h := n.Handover; h != nil {
		fmt.Fprintf(b, "  handover n=%d lease=%d epoch=%d until=%s", h.N, h.Lease, h.Epoch, stamp(h.Started.Add(h.Budget)))
		for _, id := range sortedKeys(h.Answers) {
			fmt.Fprintf(b, " %s=%t", id, h.Answers[id].Yes)
		}
		if h.Unasked != "" {
			fmt.Fprintf(b, " unasked=%s", h.Unasked)
		}
		if h.RollingBack {
			fmt.Fprintf(b, " rolling-back=%s until=%s", h.Failure.Kind, stamp(h.RollbackAt.Add(h.RollbackBudget)))
		}
		b.WriteByte('\n')
	}
	for _, c := range n.Consumers {
		fmt.Fprintf(b, "  consumer %s/%s %s\n", c.Consumer, c.Instance, c.ID)
	}
}

func (l *Lease) write(b *strings.Builder, n *Name) {
	fmt.Fprintf(b, "  lease %d %s id=%q guard=%q epoch=%d reason=%s", l.No, l.State, l.LeaseID, l.Guard, l.Epoch, l.Reason)
	if end, ends := l.Expires(); ends && l.State != Requested {
		fmt.Fprintf(b, " expires=%s", stamp(end))
	}
	for flag, on := range []bool{l.Renewable, l.Short, l.GuardExtended, l.Verified, l.ActiveRenewed, l.Forced, l.Lost} {
		if on {
			b.WriteString([...]string{" renewable", " short", " extended", " verified", " active-renewed", " forced", " lost"}[flag])
		}
	}
	if l.Retry.Attempt > 0 {
		fmt.Fprintf(b, " retry=#%d@%s", l.Retry.Attempt, stamp(l.Retry.At))
	}
	if l.GateN > 0 {
		fmt.Fprintf(b, " gate=%d", l.GateN)
	}
	if l.State == Grace {
		r := l.Replaced
		fmt.Fprintf(b, " good-until=%s retire-at=%s", stamp(latest(r.At.Add(r.GoodFor), n.promisedBefore().Until)), stamp(r.RetireAt))
	}
	b.WriteByte('\n')
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.999") }

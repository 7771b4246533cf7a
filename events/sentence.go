package events

import (
	"fmt"
	"strings"
)

// Sentence says an event in plain words for people. It holds nothing that the
// event does not, so no secret.
func Sentence(e *Event) string {
	switch d := e.Data.(type) {
	case *Opened:
		says := fmt.Sprintf("epoch %d is opened by %s (%s)", e.Epoch, d.Holder, d.How)
		if len(d.Lost) > 0 {
			says += fmt.Sprintf("; the log does not have %s", strings.Join(d.Lost, ", "))
		}
		return says
	case *Released:
		return "the scope is given back by " + d.Holder
	case *Paused:
		return fmt.Sprintf("Vault %s refuses our credentials (%s)", d.Vault, d.Kind)
	case *Resumed:
		return "Vault " + d.Vault + " accepts our credentials again"
	case *Format:
		return "from here on events may be written in later versions, which earlier releases can't read: " + Formats(d.Versions).String()
	case *Updated:
		return updatedSentence(d)
	case *Rejected:
		return fmt.Sprintf("document revision %d is refused: %s", d.Revision, d.Message)
	case *Applied:
		if d.Definition == nil {
			return fmt.Sprintf("revision %d of the definitions is in force", d.Revision)
		}
		return fmt.Sprintf("the definition (%s, %s) is in force", d.Definition.Path, d.Definition.Kind)
	case *Removed:
		return "the definition is removed"
	case *Registered:
		return fmt.Sprintf("%s/%s registers as %s", d.Consumer, d.Instance, d.Incarnation)
	case *Left:
		return fmt.Sprintf("%s need not be asked any more (%s)", d.Incarnation, d.Reason)
	default:
		return leaseSentence(e)
	}
}

func leaseSentence(e *Event) string {
	l := fmt.Sprintf("lease %d", e.Lease)
	switch d := e.Data.(type) {
	case *Requested:
		return fmt.Sprintf("%s is asked for at %s (%s, attempt %d)", l, d.Path, d.Reason, d.Attempt)
	case *Acquired:
		if d.LeaseID == "" {
			return l + " is read; Vault gave no lease with it"
		}
		return fmt.Sprintf("%s is granted%s for %s s%s", l, publicPart(d.Public), d.TTL, guardPart(d.Guard))
	case *Adopted:
		return fmt.Sprintf("%s is adopted%s for %s s", l, publicPart(d.Public), d.TTL)
	case *GuardExtended:
		return fmt.Sprintf("the guard of %s lives on for %s s", l, d.Granted)
	case *AcquireFailed:
		return fmt.Sprintf("%s came to nothing (%s): %s; next attempt %s", l, d.Kind, d.Message, retryPart(d.Retry))
	case *Verified:
		return fmt.Sprintf("%s works: a login of our own (%s) took %s s", l, d.Verifier, d.Took)
	case *VerifyFailed:
		return fmt.Sprintf("%s does not work (%s): %s; next attempt %s", l, d.Kind, d.Message, retryPart(d.Retry))
	case *HandoverStarted:
		return fmt.Sprintf("the hand-over to %s begins, %s", l, askedPart(len(d.Asked)))
	case *Prepared:
		if d.Yes {
			return fmt.Sprintf("%s says yes to %s", d.Incarnation, l)
		}
		return fmt.Sprintf("%s says no to %s: %s", d.Incarnation, l, d.Reason)
	case *Installed:
		return fmt.Sprintf("%s is active now (proven by %s)%s", l, d.Proof, previousPart(d.Previous))
	case *RollbackStarted:
		return fmt.Sprintf("%s is rolled back: %s", l, d.Message)
	case *RolledBack:
		if d.Safe {
			return fmt.Sprintf("everybody is back from %s", l)
		}
		return fmt.Sprintf("%s is kept: no word that they are back from %s", l, strings.Join(d.Unconfirmed, ", "))
	case *Renewed:
		return fmt.Sprintf("%s lives on for %s s%s", l, d.TTL, shortPart(d.Short))
	case *RenewFailed:
		return fmt.Sprintf("renewing %s failed (%s): %s; next attempt %s", l, d.Kind, d.Message, retryPart(d.Retry))
	case *Retired:
		return fmt.Sprintf("nobody uses %s any more (%s)%s", l, d.Reason, cutPart(d.CutOff))
	case *Revoking:
		return l + " is being revoked"
	case *Revoked:
		if d.Shared {
			return l + " is let go; its lease id lives on under another name"
		}
		if d.Gone {
			return l + " was gone already"
		}
		return l + " is revoked"
	case *RevokeFailed:
		return fmt.Sprintf("revoking %s failed (%s): %s; next attempt %s", l, d.Kind, d.Message, retryPart(d.Retry))
	case *Expired:
		return fmt.Sprintf("%s is at its end (by %s)", l, d.By)
	case *Orphaned:
		return fmt.Sprintf("what came of %s is not known; its guard ends it", l)
	case *Changed:
		return "the secret has new values"
	default:
		return string(e.Type())
	}
}

// Counted gives a number with the noun that it counts: "1 lease", "2 leases".
func Counted[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func askedPart(asked int) string {
	switch asked {
	case 0:
		return "no consumer has to be asked"
	case 1:
		return "1 consumer is asked"
	default:
		return fmt.Sprintf("%d consumers are asked", asked)
	}
}

func publicPart(public map[string]string) string {
	if u := public["username"]; u != "" {
		return " to " + u
	}
	return ""
}

func guardPart(guard string) string {
	if guard == "" {
		return ", unguarded"
	}
	return ""
}

func previousPart(previous uint64) string {
	if previous == 0 {
		return ""
	}
	return fmt.Sprintf(", in place of lease %d", previous)
}

func shortPart(short bool) string {
	if short {
		return ", less than asked: its max TTL is near"
	}
	return ""
}

func cutPart(cut []string) string {
	if len(cut) == 0 {
		return ""
	}
	return "; cut off: " + strings.Join(cut, ", ")
}

func retryPart(r Retry) string {
	if r.Attempt == 0 {
		return "none"
	}
	return "at " + r.At.UTC().Format("15:04:05")
}

func updatedSentence(d *Updated) string {
	s := fmt.Sprintf("document revision %d", d.Revision)
	if len(d.Paths) > 0 {
		s += " changes " + strings.Join(d.Paths, ", ")
	}
	if d.Definitions > 0 {
		s += fmt.Sprintf(" (definitions revision %d)", d.Definitions)
	}
	return s
}

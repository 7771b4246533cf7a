package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover"
	"github.com/leasesvc/leasesvc/service/config"
)

// Verdict is what an examination came to.
type Verdict string

// The verdicts. Unchecked is no problem: it could not be found out.
const (
	VerdictOK        Verdict = "ok"
	VerdictProblem   Verdict = "problem"
	VerdictUnchecked Verdict = "unchecked"
)

// Finding is one thing that was looked at.
type Finding struct {
	// About is what it belongs to: "vault main", "nats", "scope prod".
	About   string  `json:"about"`
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Says is what was found, Do what to do about it.
	Says string `json:"says"`
	Do   string `json:"do,omitempty"`
}

// exam collects findings.
type exam struct {
	cfg      *config.Config
	env      lookup
	keys     *handover.Keyring // nil: there is no usable seal key
	defs     map[string]*config.Definitions
	findings []Finding
}

// answerWithin bounds a single question of an examination, in which a server
// may be away.
const answerWithin = 10 * time.Second

// Examine looks at everything that a service of this configuration needs, and
// says what is wrong and what to do about it. It may run beside the service.
//
// It reads no credential and changes nothing that lasts: in Vault it logs in,
// makes one or two guards and takes them and its token away again; in NATS it
// creates nothing, and writes one probe into a bucket of epochs that is there;
// the lock of the state directory is held for an instant. A wrapped secret id
// is left alone, since it can be used once only.
func Examine(ctx context.Context, cfg *config.Config) []Finding {
	x := &exam{cfg: cfg, env: os.LookupEnv, defs: map[string]*config.Definitions{}}
	x.definitions()
	x.sealKey()
	x.stateDir()
	for _, name := range cfg.VaultNames() {
		x.vault(ctx, name)
	}
	x.nats(ctx)
	return x.findings
}

func (x *exam) add(about, check string, v Verdict, do, format string, args ...any) {
	x.findings = append(x.findings, Finding{About: about, Check: check, Verdict: v, Says: fmt.Sprintf(format, args...), Do: do})
}

func (x *exam) ok(about, check, format string, args ...any) {
	x.add(about, check, VerdictOK, "", format, args...)
}

func (x *exam) problem(about, check, do, format string, args ...any) {
	x.add(about, check, VerdictProblem, do, format, args...)
}

func (x *exam) unchecked(about, check, do, format string, args ...any) {
	x.add(about, check, VerdictUnchecked, do, format, args...)
}

func (x *exam) definitions() {
	for _, scope := range x.cfg.ScopeNames() {
		defs, err := loadDefinitions(x.cfg, scope)
		if err != nil {
			x.problem("scope "+scope, "definitions", "correct the file; docs/configuration.md has every key", "%s", oneLine(err))
			continue
		}
		x.defs[scope] = defs
		x.ok("scope "+scope, "definitions", "revision %d with %s", defs.Revision, events.Counted(len(defs.Leases), "lease"))
	}
}

func (x *exam) sealKey() {
	const about, check, do = "seal key", "key", "make one with: leasesvc seal-key new; every instance of a scope has the same one"
	keys, err := sealKeys(x.cfg)
	if err != nil {
		x.problem(about, check, do, "%s", oneLine(err))
		return
	}
	x.keys = keys
	x.ok(about, check, "it is %s; its public half, which consumers pin, is %s", keys.ID(), keys.Public())
	for _, k := range keys.All()[1:] {
		x.ok(about, "previous", "%s opens too; its public half is %s", k.ID(), k.Public())
	}
	for _, at := range append([]config.SealKey{x.cfg.SealKey}, x.cfg.SealKey.Previous...) {
		if at.File == "" {
			continue
		}
		if info, err := os.Stat(at.File); err == nil && info.Mode().Perm()&0o077 != 0 {
			x.problem(about, "file mode", "chmod 600 "+at.File, "others than its owner can reach the file: mode %04o", info.Mode().Perm())
		}
	}
}

// stateDir looks at the state directory and its lock, without making either.
func (x *exam) stateDir() {
	const about = "state_dir"
	dir := x.cfg.StateDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		above := dir
		for errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above) {
			above = filepath.Dir(above)
			_, err = os.Stat(above)
		}
		if err := unix.Access(above, unix.W_OK|unix.X_OK); err != nil {
			x.problem(about, "directory", "make it, or let this user write in "+above, "%s is not there and can't be made: %v", dir, err)
			return
		}
		x.ok(about, "directory", "%s is not there yet; the service makes it", dir)
		return
	case err != nil:
		x.problem(about, "directory", "correct state_dir, or its permissions", "%v", err)
		return
	case !info.IsDir():
		x.problem(about, "directory", "name a directory in state_dir", "%s is no directory", dir)
		return
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		x.problem(about, "directory", "let the service's user read and write it", "%s: %v", dir, err)
		return
	}
	x.ok(about, "directory", "%s", dir)
	if _, err := os.Stat(filepath.Join(dir, "lock")); errors.Is(err, fs.ErrNotExist) {
		x.ok(about, "lock", "no service has used it yet")
		return
	}
	held, err := epochkv.OpenStateDir(dir)
	switch {
	case errors.Is(err, epochkv.ErrLocked):
		who, _ := os.ReadFile(filepath.Join(dir, "lock"))
		x.ok(about, "lock", "in use by process %s: a service runs", strings.TrimSpace(string(who)))
	case err != nil:
		x.problem(about, "lock", "see the message", "%s", oneLine(err))
	default:
		if err := held.Close(); err != nil {
			x.problem(about, "lock", "see the message", "%s", oneLine(err))
			return
		}
		x.ok(about, "lock", "free: no service runs with it")
	}
}

// clock compares our clock with a server's, which said at between sent and
// received, to within coarse.
func (x *exam) clock(about string, at, sent, received time.Time, coarse time.Duration) {
	const check = "clock"
	ahead := sent.Add(received.Sub(sent) / 2).Sub(at.Add(coarse / 2))
	doubt := (received.Sub(sent) + coarse) / 2
	switch {
	case ahead.Abs() > tolerated+doubt && ahead > 0:
		x.problem(about, check, "synchronise the clocks (NTP); until then the service corrects for it", "our clock is %s ahead of the server's", ahead.Round(100*time.Millisecond))
	case ahead.Abs() > tolerated+doubt:
		x.problem(about, check, "synchronise the clocks (NTP); until then the service corrects for it", "our clock is %s behind the server's", ahead.Abs().Round(100*time.Millisecond))
	default:
		x.ok(about, check, "ours and the server's differ by less than %s", tolerated+doubt.Round(100*time.Millisecond))
	}
}

// oneLine gives an error, of which there may be several, on a line.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

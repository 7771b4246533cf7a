package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/handover/document"
	"github.com/leasesvc/leasesvc/handover/verify"
	"github.com/leasesvc/leasesvc/leasecore"
	"github.com/leasesvc/leasesvc/service/api"
	"github.com/leasesvc/leasesvc/service/config"
)

// loadDefinitions reads a scope's definitions file under every rule there is.
func loadDefinitions(cfg *config.Config, scope string) (*config.Definitions, error) {
	return cfg.LoadDefinitions(scope, definitionRules()...)
}

// definitionRules are what a definitions file is held to beside its form.
func definitionRules() []config.Option {
	return []config.Option{
		config.CheckVerifier(func(v events.Verifier) error { return verify.Check(verifierSpec(v)) }),
		config.CheckDocument(checkText, checkDocument),
	}
}

// verifierSpec is a definition's verifier as package verify takes it.
func verifierSpec(v events.Verifier) verify.Spec {
	return verify.Spec{Kind: v.Kind, DSN: v.DSN, Headers: v.Headers, Command: v.Command, Pass: v.Pass, Timeout: v.Timeout.Duration()}
}

// CheckDefinitions reads every scope's definitions file and gives what is wrong
// with them.
func CheckDefinitions(cfg *config.Config) error {
	var all []error
	for _, scope := range cfg.ScopeNames() {
		if _, err := loadDefinitions(cfg, scope); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// applyDefinitionsFile puts the definitions file in force at the beginning of a
// term and whenever a reload is asked for. A takeover by an instance whose file
// is older applies and removes nothing: the revision decides.
func (t *term) applyDefinitionsFile(ctx context.Context, stop <-chan struct{}) {
	for {
		says, err := t.applyFile(ctx)
		switch {
		case errors.Is(err, errNotLeading), ctx.Err() != nil:
			return
		case err != nil:
			t.log.Error("the definitions file was not applied; what the log has stays in force", "error", err)
		default:
			t.log.Info("definitions", "says", says)
		}
		if t.startAnew && err == nil {
			t.startAnew = false
			if _, err := t.do(ctx, leasecore.Reissue{}, operator("recover"), nil); err != nil {
				t.log.Error("what the log still knows was not issued anew; run leasesvc reissue", "error", err)
			}
		}
		select {
		case <-t.reload:
		case <-stop:
			return
		}
	}
}

// applyFile reads the definitions file and has it decided; the result says what
// came of it.
func (t *term) applyFile(ctx context.Context) (string, error) {
	defs, err := loadDefinitions(t.svc.cfg, t.name)
	if err != nil {
		return "", err
	}
	return t.applyAll(ctx, defs, events.Actor{Name: "operator/definitions-file", Claimed: true})
}

// applySent has a definitions file decided that an operator sent. The file that
// this instance has does not matter: what the log says is in force.
func (t *term) applySent(ctx context.Context, sent api.Definitions) (string, error) {
	cfg := t.svc.cfg
	defs, err := config.ParseDefinitions(sent.File, sent.Content, cfg.VaultNames(),
		append(definitionRules(), config.InsecureConsumers(cfg.InsecureConsumers), config.VerifierCommands(cfg.VerifierCommands))...)
	if err != nil {
		return "", err
	}
	return t.applyAll(ctx, defs, operator(api.OpApply))
}

// applyAll puts definitions in force if their revision is above the one that is.
func (t *term) applyAll(ctx context.Context, defs *config.Definitions, actor events.Actor) (string, error) {
	warnPolls(t.log, defs)
	says, err := t.applyLeases(ctx, defs, actor)
	if err != nil {
		return "", err
	}
	inForce, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any { return s.Revision })
	if err != nil || inForce != defs.Revision {
		return says, err
	}
	return says, t.documents.want(defs.File, defs.Revision, defs.Documents)
}

// checkText looks at a text of a document for a reference that is none.
func checkText(text string) error {
	if !document.IsReference(text) {
		return nil
	}
	_, err := document.ParseReference(text)
	return err
}

// checkDocument looks at a whole document of the definitions file.
func checkDocument(name string, tree any) error {
	content, err := document.FromAny(tree)
	if err == nil {
		_, err = document.New(name, 1, content)
	}
	return err
}

// applyLeases has the definitions of leases decided.
func (t *term) applyLeases(ctx context.Context, defs *config.Definitions, actor events.Actor) (string, error) {
	before, err := t.do(ctx, leasecore.Tick{}, events.Actor{}, func(s *leasecore.State) any { return s.Revision })
	if err != nil {
		return "", err
	}
	_, err = t.do(ctx, leasecore.ApplyDefinitions{Revision: defs.Revision, Digest: defs.Digest(), Definitions: defs.Leases, Insecure: t.svc.cfg.InsecureConsumers}, actor, nil)
	switch {
	case errors.Is(err, leasecore.ErrRevision):
		return fmt.Sprintf("%s has revision %d, in force is %d: nothing was applied", defs.File, defs.Revision, before), nil
	case errors.Is(err, leasecore.ErrSameRevision):
		return "", defs.Refuse("", "%v", err)
	case err != nil:
		return "", err
	case before.(uint64) == defs.Revision:
		return fmt.Sprintf("revision %d is in force", defs.Revision), nil
	default:
		return fmt.Sprintf("revision %d with %s was applied", defs.Revision, events.Counted(len(defs.Leases), "definition")), nil
	}
}

// tooManyPolls is how many readings a second of secrets without lease are worth
// a warning (L38).
const tooManyPolls = 200

// warnPolls warns of definitions that would read Vault too often. Which secrets
// have no lease, only Vault knows; a kv secret never has one.
func warnPolls(log *slog.Logger, defs *config.Definitions) {
	perSecond := 0.0
	for _, def := range defs.Leases {
		if every := def.Poll.Duration(); def.Kind == events.KindKV && every > 0 {
			perSecond += float64(time.Second) / float64(every)
		}
	}
	if perSecond > tooManyPolls {
		log.Warn("the definitions read secrets without lease too often; raise poll", "per_second", int(perSecond), "file", defs.File)
	}
}

// Reload has the definitions files read again by the scopes that this instance
// leads.
func (s *Service) Reload() {
	for _, sc := range s.scopes {
		select {
		case sc.reload <- struct{}{}:
		default:
		}
	}
}

package main

import (
	"context"
	"fmt"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type doctorCmd struct {
	Config string `required:"" placeholder:"FILE" help:"The service file."`
	output
}

func (c doctorCmd) Run(ctx context.Context) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	findings := service.Examine(ctx, cfg)
	problems := 0
	for _, f := range findings {
		if f.Verdict == service.VerdictProblem {
			problems++
		}
	}
	err = c.print(struct {
		OK       bool              `json:"ok"`
		Findings []service.Finding `json:"findings"`
	}{problems == 0, findings}, func(p *page) { findingsTable(p, findings) })
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("the examination was interrupted: %w", ctx.Err())
	case problems == 1:
		return fmt.Errorf("1 problem was found in %s", events.Counted(len(findings), "check"))
	case problems > 1:
		return fmt.Errorf("%d problems were found in %s", problems, events.Counted(len(findings), "check"))
	}
	return nil
}

// findingsTable has a line a finding, and what to do about it below it.
func findingsTable(p *page, findings []service.Finding) {
	p.row(bold, "RESULT", "ABOUT", "CHECK", "FOUND")
	for _, f := range findings {
		c := plain
		switch f.Verdict {
		case service.VerdictProblem:
			c = red
		case service.VerdictUnchecked:
			c = yellow
		}
		p.row(c, f.Verdict, f.About, f.Check, f.Says)
		if f.Do != "" {
			p.row(plain, "", "", "", "-> "+f.Do)
		}
	}
}

type vaultPolicyCmd struct {
	Config  string `required:"" placeholder:"FILE" help:"The service file."`
	Program string `enum:"bao,vault" default:"bao" help:"The program that the commands are for: bao or vault."`
}

func (c vaultPolicyCmd) Run() error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	commands, err := service.VaultPolicy(cfg, c.Program)
	if err != nil {
		return err
	}
	_, err = fmt.Print(commands)
	return err
}

type natsSetupCmd struct {
	Config string `required:"" placeholder:"FILE" help:"The service file."`
	Print  bool   `required:"" help:"Print the commands. (Nothing else is done: the service creates what its account may.)"`
}

func (c natsSetupCmd) Run() error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	commands, err := service.NATSSetup(cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Print(commands)
	return err
}

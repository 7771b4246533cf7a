package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type doctorCmd struct {
	Config string `required:"" placeholder:"FILE" help:"The service file."`
	Output string `enum:"table,json" default:"table" help:"How to print it: table or json."`
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
	if c.Output == "json" {
		err = printJSON(struct {
			OK       bool              `json:"ok"`
			Findings []service.Finding `json:"findings"`
		}{problems == 0, findings})
	} else {
		err = printFindings(os.Stdout, findings)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("the examination was interrupted: %w", ctx.Err())
	case problems == 1:
		return fmt.Errorf("1 problem was found in %d checks", len(findings))
	case problems > 1:
		return fmt.Errorf("%d problems were found in %d checks", problems, len(findings))
	}
	return nil
}

// printFindings prints a line a finding, and what to do about it below it.
func printFindings(w io.Writer, findings []service.Finding) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESULT\tABOUT\tCHECK\tFOUND")
	for _, f := range findings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Verdict, f.About, f.Check, f.Says)
		if f.Do != "" {
			fmt.Fprintf(t, "\t\t\t-> %s\n", f.Do)
		}
	}
	return t.Flush()
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

// Command leasesvc keeps short-lived credentials alive for applications. Run
// leasesvc --help for what it does, leasesvc dev to see it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/leasesvc/leasesvc/epochkv"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

// version is set by the linker.
var version string

// The exit codes (E17); docs/operations.md lists them.
const (
	exitOK     = 0
	exitFailed = 1
	exitConfig = 2
	// exitViolated: it looked, and what it looked at is not as it must be.
	exitViolated = 3
	exitRefused  = 78
)

// usageError is a wrong argument that the flags' types do not show.
type usageError struct{ error }

// Unwrap gives the error that says what is wrong.
func (e usageError) Unwrap() error { return e.error }

type cli struct {
	Dev         devCmd           `cmd:"" help:"Run everything in one process, with a demo application: NATS, a Vault of its own, and a rotation every few seconds."`
	Serve       serveCmd         `cmd:"" help:"Run the service."`
	Status      statusCmd        `cmd:"" help:"Show who leads, since when, and what needs a person's eye."`
	Top         topCmd           `cmd:"" help:"Watch the leases live, the most urgent first; sort, filter, look into one."`
	Leases      leasesCmd        `cmd:"" help:"List the names and their leases."`
	Get         getCmd           `cmd:"" help:"Read a credential, or one value of it."`
	Rotate      rotateCmd        `cmd:"" help:"Acquire a successor of a name's active lease and hand it over."`
	Revoke      revokeCmd        `cmd:"" help:"Take a name's active lease away at once, whoever uses it."`
	Reissue     reissueCmd       `cmd:"" help:"Acquire successors of all active leases, for when a parent token died with its leases."`
	Adopt       adoptCmd         `cmd:"" help:"Take over a lease that was obtained elsewhere; its values come from standard input."`
	StepDown    stepDownCmd      `cmd:"" name:"step-down" help:"Give a scope to a standby."`
	Shutdown    shutdownCmd      `cmd:"" help:"Revoke every lease of a scope and leave it alone."`
	Upgrade     upgradeCmd       `cmd:"" help:"Show how far an upgrade is; finalize it when no instance of the release before will come back."`
	Apply       applyCmd         `cmd:"" help:"Put a definitions file in force, or have the service read its own again."`
	Diff        diffCmd          `cmd:"" help:"Compare a definitions file with what is in force."`
	Explain     explainCmd       `cmd:"" help:"Tell why a name is in its state: its story from the log, what comes next and when."`
	At          atCmd            `cmd:"" help:"Show the leases as they were at a time."`
	Who         whoCmd           `cmd:"" help:"Tell which lease a user name or lease id belongs to, and which consumers had it, from when to when."`
	Document    documentCmd      `cmd:"" help:"Read and change settings documents."`
	Agent       agentCmd         `cmd:"" help:"Keep files and applications on credentials and documents that rotate."`
	Check       consumerCheckCmd `cmd:"" name:"consumer-check" help:"Play the service against a consumer written in any language, and say which rules of the protocol it keeps."`
	Run         runCmd           `cmd:"" help:"Run a command with credentials in its environment, and end as it does."`
	Events      eventsCmd        `cmd:"" help:"Read the log."`
	Ledger      ledgerCmd        `cmd:"" help:"Add up what credentials were out there: granted, in use, in overlap, exposed; by name, path or consumer."`
	VerifyLog   verifyLogCmd     `cmd:"" name:"verify-log" help:"Check the whole log as an auditor would, and name the first violation."`
	Config      configCmd        `cmd:"" help:"Check a configuration, or show an example."`
	Doctor      doctorCmd        `cmd:"" help:"Look at Vault, NATS, clocks, keys and files, and say what is wrong and what to do."`
	Recover     recoverCmd       `cmd:"" help:"Say what was lost of the log or the epochs, and go on in spite of it."`
	VaultPolicy vaultPolicyCmd   `cmd:"" name:"vault-policy" help:"Print the commands that set up Vault or OpenBao for the definitions."`
	NATSSetup   natsSetupCmd     `cmd:"" name:"nats-setup" help:"Print the commands that create the streams in NATS, for services that may not."`
	Permissions permissionsCmd   `cmd:"" help:"Print the NATS permissions of service, consumer, operator and auditor."`
	SealKey     sealKeyCmd       `cmd:"" name:"seal-key" help:"Make a seal key."`
	Completion  completionCmd    `cmd:"" help:"Print a script that completes commands and flags in bash, zsh or fish."`
	Version     versionCmd       `cmd:"" help:"Show the version."`
}

func main() { os.Exit(run()) }

func run() int {
	var c cli
	parser, err := kong.New(&c,
		kong.Name("leasesvc"),
		kong.Description("Keeps short-lived credentials alive for applications: acquires them from Vault or OpenBao, proves them, hands them over, rolls back, renews and revokes."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitFailed
	}
	kctx, err := parser.Parse(os.Args[1:])
	if err != nil {
		command := "leasesvc"
		var wrong *kong.ParseError
		if errors.As(err, &wrong) && wrong.Context.Selected() != nil {
			command = wrong.Context.Selected().FullPath()
		}
		fmt.Fprintf(os.Stderr, "leasesvc: %v\nRun \"%s --help\" for what there is.\n", err, command)
		return exitConfig
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kctx.BindTo(ctx, (*context.Context)(nil))
	return exitCode(kctx.Run())
}

// exitCode prints an error and gives the process's exit code for it.
func exitCode(err error) int {
	var bad *config.Errors
	var refused *epochkv.Refused
	var fenced *service.FencedError
	var usage usageError
	var violated *violatedError
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &fenced):
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitOK
	case errors.As(err, &bad):
		fmt.Fprintln(os.Stderr, err)
		return exitConfig
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitConfig
	case errors.As(err, &violated):
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitViolated
	case errors.As(err, &refused):
		fmt.Fprintln(os.Stderr, "leasesvc: refused:", err)
		return exitRefused
	default:
		fmt.Fprintln(os.Stderr, "leasesvc:", err)
		return exitFailed
	}
}

type versionCmd struct{ output }

func (c versionCmd) Run() error {
	out := struct {
		Version string `json:"version"`
	}{programVersion()}
	return c.print(out, func(p *page) { p.line(plain, "leasesvc %s", out.Version) })
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "0.0.0-dev"
}

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// openTerminal gives both ends of a pseudo-terminal.
func openTerminal() (control, terminal *os.File, err error) {
	control, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err := unix.IoctlSetWinsize(int(control.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		return nil, nil, err
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	return control, terminal, err
}

// onTerminal runs a command whose output is a terminal, and writes what came
// there to a file: onterminal FILE leasesvc ...
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	control, terminal, err := openTerminal()
	ts.Check(err)
	defer control.Close()
	name := args[1]
	if found, err := exec.LookPath(name); err == nil {
		name = found
	}
	cmd := exec.Command(name, args[2:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), terminal, terminal, terminal
	cmd.Env = append(os.Environ(), "TZ=UTC", "NO_COLOR="+ts.Getenv("NO_COLOR"), "LEASESVC_SERVER="+ts.Getenv("LEASESVC_SERVER"))
	ts.Check(cmd.Start())
	terminal.Close()
	out := make(chan string)
	go func() {
		b, _ := io.ReadAll(control) // ends with an error when the last writer is gone
		out <- strings.ReplaceAll(string(b), "\r\n", "\n")
	}()
	text := <-out
	if err := cmd.Wait(); (err != nil) != neg {
		ts.Fatalf("%v: %v\n%s", args, err, text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

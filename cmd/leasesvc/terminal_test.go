package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

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

// onTerminal runs a command on a terminal, and writes what came there to a file:
//
//	onterminal [-size COLUMNSxLINES] [-code N] [-interrupt TEXT] FILE leasesvc ...
//
// With -interrupt somebody presses Ctrl-C when TEXT is there.
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	size, want, when := unix.Winsize{Row: 24, Col: 100}, 0, ""
	if neg {
		want = 1
	}
	for strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-size":
			_, err := fmt.Sscanf(args[1], "%dx%d", &size.Col, &size.Row)
			ts.Check(err)
		case "-code":
			_, err := fmt.Sscan(args[1], &want)
			ts.Check(err)
		case "-interrupt":
			when = args[1]
		default:
			ts.Fatalf("onterminal has no %s", args[0])
		}
		args = args[2:]
	}
	control, terminal, err := openTerminal()
	ts.Check(err)
	defer control.Close()
	ts.Check(unix.IoctlSetWinsize(int(control.Fd()), unix.TIOCSWINSZ, &size))
	name := args[1]
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			name = found
			break
		}
	}
	cmd := exec.Command(name, args[2:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	kind := ts.Getenv("TERM")
	if kind == "" {
		kind = "xterm-256color"
	}
	cmd.Env = append(os.Environ(), "TZ=UTC", "TERM="+kind, "NO_COLOR="+ts.Getenv("NO_COLOR"),
		"LEASESVC_SERVER="+ts.Getenv("LEASESVC_SERVER"), "LEASESVC_SERVICE_KEY="+ts.Getenv("LEASESVC_SERVICE_KEY"))
	ts.Check(cmd.Start())
	terminal.Close()
	text := readTerminal(ts, control, when)
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != want {
		ts.Fatalf("%v: %v, want %d\n%s", args, err, want, text)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// readTerminal gives what comes until the last writer is gone, and presses Ctrl-C
// when a text is there.
func readTerminal(ts *testscript.TestScript, control *os.File, when string) string {
	limit := time.AfterFunc(60*time.Second, func() { _ = control.Close() })
	defer limit.Stop()
	var text []byte
	for chunk := make([]byte, 4096); ; {
		n, err := control.Read(chunk)
		text = append(text, chunk[:n]...)
		if when != "" && bytes.Contains(text, []byte(when)) {
			when = ""
			_, err := control.WriteString("\x03")
			ts.Check(err)
		}
		if err != nil { // it is gone
			break
		}
	}
	if when != "" {
		ts.Fatalf("%q never came:\n%s", when, text)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

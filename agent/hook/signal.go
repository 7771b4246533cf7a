package hook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Signals are the signals that a person may name, without SIG.
var Signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
	"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "CONT": syscall.SIGCONT, "WINCH": syscall.SIGWINCH,
}

// signal sends the signal to everybody it is for.
func (h *Hook) signal() error {
	pids, err := h.receivers()
	if err != nil {
		return err
	}
	sent := 0
	for _, pid := range pids {
		switch err := syscall.Kill(pid, h.Signal); {
		case err == nil:
			sent++
		case errors.Is(err, syscall.ESRCH): // it ended meanwhile
		default:
			return fmt.Errorf("sending %s to process %d: %w", h.Signal, pid, err)
		}
	}
	if sent == 0 {
		return ErrNobody
	}
	return nil
}

func (h *Hook) receivers() ([]int, error) {
	if h.PIDFile == "" {
		return named(h.Process)
	}
	text, err := os.ReadFile(h.PIDFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s", ErrNobody, h.PIDFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pid file: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 { // 0 and below are groups, 1 is nobody's application
		return nil, fmt.Errorf("%s does not hold the id of a process", h.PIDFile)
	}
	return []int{pid}, nil
}

// named gives the processes whose program has a name, without those whose parent
// has it too: a server's workers are its own to tell.
func named(program string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid < 2 || pid == os.Getpid() {
			continue
		}
		if parent, ok := parentOf(pid, program); ok {
			parents[pid] = parent
		}
	}
	var top []int
	for pid, parent := range parents {
		if _, too := parents[parent]; !too {
			top = append(top, pid)
		}
	}
	slices.Sort(top)
	if len(top) == 0 {
		return nil, fmt.Errorf("%w: none is called %s", ErrNobody, program)
	}
	return top, nil
}

// maxComm is how much of a program's name the kernel keeps.
const maxComm = 15

// parentOf gives the parent of a process if its program has the name.
func parentOf(pid int, program string) (parent int, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, false
	}
	// pid (comm) state ppid ...; comm can hold anything, a bracket too.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, false
	}
	fields := strings.Fields(string(stat[end+1:]))
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return 0, false
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, false
	}
	comm := string(stat[open+1 : end])
	if comm != program && !(len(program) > maxComm && comm == program[:maxComm]) {
		return parent, invokedAs(dir, program)
	}
	if len(program) > maxComm {
		return parent, invokedAs(dir, program)
	}
	return parent, true
}

// invokedAs tells whether a process was started under a name.
func invokedAs(dir, program string) bool {
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	return filepath.Base(string(first)) == program
}

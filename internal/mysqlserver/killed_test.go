package mysqlserver_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/internal/mysqlserver"
)

const childVariable = "MYSQLSERVER_CHILD"

// TestKilledOwnerTakesItsServerAlong runs a program (this test binary) that
// opens a server, kills it, and waits for the server to be gone.
func TestKilledOwnerTakesItsServerAlong(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		s, err := mysqlserver.Open()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("server:", s.Addr())
		select {} // until killed
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "leasesvc-killed-") // a short path, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	child := exec.CommandContext(t.Context(), exe, "-test.run", "^"+t.Name()+"$", "-test.timeout", "5m")
	child.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	addr := strings.TrimSpace(strings.TrimPrefix(line, "server: "))
	if err != nil || !answers(addr) {
		child.Process.Kill()
		t.Fatalf("no server at %q: %v", addr, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait() // "signal: killed"
	for deadline := time.Now().Add(30 * time.Second); answers(addr); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server at %s outlived its killed owner", addr)
		}
	}
}

func answers(addr string) bool {
	c, err := net.DialTimeout("tcp4", addr, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

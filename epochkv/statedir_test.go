package epochkv

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestE4_TheHolderIDIsPersistedWhenItIsMinted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, err := OpenStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil || !strings.Contains(string(b), d.Holder()) {
		t.Errorf("%s, %v", b, err)
	}
	_ = d.lock.Close() // killed
	again, err := OpenStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Holder() != d.Holder() {
		t.Errorf("minted %s, then %s", d.Holder(), again.Holder())
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("%v, want the lock and one file", files)
	}
}

func TestE4_AtMostOnceAHeartbeatAndNothingForAMovedToken(t *testing.T) {
	js, clk := connect(t, runServer(t).ClientURL()), newClock()
	a, b := start(t, js, clk, ""), start(t, js, clk, "")
	a.lead("x")
	file := filepath.Join(b.state.Path(), stateFile)
	writes := func(do func()) bool { // a write renames a new file over the old one
		t.Helper()
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(file, long, long); err != nil {
			t.Fatal(err)
		}
		do()
		after, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(after.ModTime()) < time.Hour/2
	}
	b.beat("x")
	if writes(func() {
		for range 10 {
			a.renew()
			b.beat("x")
		}
	}) {
		t.Error("moved tokens were written")
	}
	if !writes(func() { b.beat("x") }) {
		t.Error("a quiet poll was not written")
	}
	if writes(func() {
		b.state.setEpoch("y", 1)
		clk.advance(heartbeat / 2)
		b.renew()
		b.step("x")
	}) {
		t.Error("written twice within a heartbeat")
	}
	if !writes(func() { clk.advance(heartbeat / 2); b.renew() }) {
		t.Error("not written with the next heartbeat")
	}
}

func TestE5_ASecondProcessIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	d, err := OpenStateDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenStateDir(dir)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second: %v, want ErrLocked naming %s", err, dir)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, err = OpenStateDir(dir)
	if err != nil {
		t.Fatalf("after the first closed: %v", err)
	}
	_ = d.Close()
}

func TestStateDirRefusesWhatItCannotRead(t *testing.T) {
	for name, content := range map[string]string{
		"broken": `{"holder":`, "future": `{"format":2,"holder":"abc"}`, "nameless": `{"format":1}`, "empty": ``,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := OpenStateDir(dir)
		if err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v, want what to do", name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, stateFile)); string(got) != content {
			t.Errorf("%s: overwritten with %s", name, got)
		}
	}
}

func TestStateDirForgetsOldObservationsAndOtherBuckets(t *testing.T) {
	d, err := OpenStateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	now := time.Now()
	d.bindBucket("b", now)
	d.setEpoch("x", 7)
	d.observe("holder.old", observation{Token: "1", QuietPolls: 1, At: now.Add(-2 * observationAge)})
	d.observe("holder.new", observation{Token: "2", QuietPolls: 1, At: now})
	if err := d.flush(now); err != nil {
		t.Fatal(err)
	}
	if len(d.state.Observed) != 1 || d.epoch("x") != 7 {
		t.Errorf("%+v", d.state)
	}
	d.bindBucket("b", now) // the same
	if d.epoch("x") != 7 {
		t.Error("forgotten for the same bucket")
	}
	d.bindBucket("b", now.Add(time.Second)) // recreated
	if len(d.state.Observed) != 0 || d.epoch("x") != 0 {
		t.Errorf("%+v", d.state)
	}
}
